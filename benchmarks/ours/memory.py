"""SureStream without a server: its memory broker, and its room for tests."""

from __future__ import annotations

import asyncio

import msgspec

from benchmarks.common import HEADERS, Job, Order, Tally, order
from surestream import App, Outgoing, subscriber
from surestream.memory import MemoryBroker, MemoryServer, MemoryTopic
from surestream.redis import RedisBroker, RedisStream
from surestream.testing import TestApp


async def consume(job: Job, tally: Tally) -> None:
    """A topic that holds everything before the first handler runs."""

    @subscriber(MemoryTopic(job.stream))
    async def handle(received: Order) -> None:
        tally.count(received)

    app = App("bench")
    broker = app.add(MemoryBroker())
    broker.include(handle)
    async with app.running() as run:
        server = run.context.servers[broker]
        assert isinstance(server, MemoryServer)
        headers = tuple((name, value.encode()) for name, value in HEADERS.items())
        for number in range(job.entries):
            payload = msgspec.json.encode(order(number))
            server.publish(Outgoing(job.stream, payload, headers))
        await tally.settled()


async def test_redis(job: Job, tally: Tally) -> None:
    """A test of a Redis service, in process: publish everything at once, settle once."""

    @subscriber(RedisStream(job.stream, group=job.group))
    async def handle(received: Order) -> None:
        tally.count(received)

    app = App("bench")
    broker = app.add(RedisBroker())
    broker.include(handle)
    async with TestApp(app, patience=60) as room:
        tally.begin()
        orders = map(order, range(job.entries))
        await asyncio.gather(
            *(broker.publish(job.stream, each, headers=HEADERS) for each in orders)
        )
        await room.settle()
        await tally.settled()
        room.assert_called(handle, times=job.entries)


async def test_memory(job: Job, tally: Tally) -> None:
    """The same on the memory broker."""

    @subscriber(MemoryTopic(job.stream))
    async def handle(received: Order) -> None:
        tally.count(received)

    app = App("bench")
    broker = app.add(MemoryBroker())
    broker.include(handle)
    async with TestApp(app, patience=60) as room:
        tally.begin()
        for number in range(job.entries):
            await broker.publish(job.stream, order(number), headers=HEADERS)
        await room.settle()
        await tally.settled()
        room.assert_called(handle, times=job.entries)


async def test_redis_one_by_one(job: Job, tally: Tally) -> None:
    """A test that settles after every message, as most tests do."""

    @subscriber(RedisStream(job.stream, group=job.group))
    async def handle(received: Order) -> None:
        tally.count(received)

    app = App("bench")
    app.add(RedisBroker()).include(handle)
    async with TestApp(app, patience=60) as room:
        tally.begin()
        for number in range(job.entries):
            await room.publish(job.stream, order(number), headers=HEADERS)
        await tally.settled()
        room.assert_called(handle, times=job.entries)
