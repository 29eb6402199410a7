"""SureStream on Redis streams, as its guide writes it and with its defaults."""

from __future__ import annotations

import asyncio

from benchmarks.common import HEADERS, WORKERS, Job, Order, Stopwatch, Tally, publish_all
from surestream import App, Attempt, Outcome, ack, retry, subscriber
from surestream.redis import RedisBroker, RedisStream


async def consume(job: Job, tally: Tally) -> None:
    """One sequential subscription of a consumer group."""

    @subscriber(RedisStream(job.stream, group=job.group))
    async def handle(received: Order) -> None:
        tally.count(received)

    app = App("bench")
    app.add(RedisBroker(job.url)).include(handle)
    async with app.running():
        await tally.settled()


async def consume_retried(job: Job, tally: Tally) -> None:
    """Every message is retried once: a copy is stored, the original acknowledged."""

    @subscriber(RedisStream(job.stream, group=job.group))
    async def handle(received: Order, attempt: Attempt) -> Outcome:
        if attempt.number == 1:
            tally.fail()
            return retry()
        tally.count(received)
        return ack()

    app = App("bench")
    app.add(RedisBroker(job.url)).include(handle, max_attempts=5, dead_letter="dead")
    async with app.running():
        await tally.settled()


async def consume_by_workers(job: Job, tally: Tally) -> None:
    """Eight handlers at a time, each suspending once."""

    @subscriber(RedisStream(job.stream, group=job.group))
    async def handle(received: Order) -> None:
        await asyncio.sleep(0)
        tally.count(received)

    app = App("bench")
    app.add(RedisBroker(job.url)).include(handle, workers=WORKERS)
    async with app.running():
        await tally.settled()


async def publish(job: Job, watch: Stopwatch) -> None:
    """`broker.publish`, which answers when the server has."""
    broker = RedisBroker(job.url)

    async def send(each: Order) -> None:
        await broker.publish(job.stream, each, headers=HEADERS)

    async with broker.connected():
        watch.start()
        await publish_all(job, send)
        watch.stop()
