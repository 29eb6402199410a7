"""FastStream's room for tests: what is published calls the handler at once."""

from __future__ import annotations

import msgspec
from fast_depends.msgspec import MsgSpecSerializer
from faststream.redis import RedisBroker, StreamSub, TestRedisBroker

from benchmarks.common import HEADERS, Job, Order, Tally, order
from benchmarks.faststream.stream import SILENT


async def test_redis(job: Job, tally: Tally) -> None:
    """`TestRedisBroker`: no server, no queue."""
    broker = RedisBroker(logger=SILENT, serializer=MsgSpecSerializer())

    @broker.subscriber(stream=StreamSub(job.stream, group=job.group, consumer="peer"))
    async def handle(received: Order) -> None:
        tally.count(received)

    async with TestRedisBroker(broker) as room:
        tally.begin()
        for number in range(job.entries):
            await room.publish(
                msgspec.to_builtins(order(number)), stream=job.stream, headers=HEADERS
            )
        await tally.settled()
