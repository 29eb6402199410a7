"""FastStream's subscriber that is called once a message, in the two ways it offers to type one.

Settings that its documentation offers and that were seen to help: no logger, 100 entries a
read, orjson installed. `max_workers` makes it slower; its batch subscriber is another path.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import msgspec
from fast_depends.msgspec import MsgSpecSerializer
from faststream.redis import (
    BinaryMessageFormatV1,
    RedisBroker,
    RedisStreamMessage,
    StreamSub,
)

from benchmarks.common import (
    HEADERS,
    READ_COUNT,
    WORKERS,
    Job,
    Order,
    Stopwatch,
    Tally,
    order,
    publish_all,
)
from benchmarks.order_model import OrderModel
from benchmarks.wire import Argument

if TYPE_CHECKING:
    from faststream._internal.basic_types import LoggerProto


SILENT = cast("LoggerProto", None)
"""Its documented way to log nothing; the annotation has no room for it."""


def frames(entries: int) -> list[tuple[Argument, ...]]:
    """The fields of the first entries as FastStream itself publishes them, same headers."""

    async def encode_all() -> list[bytes]:
        return [
            await BinaryMessageFormatV1.encode(
                message=msgspec.to_builtins(order(number)),
                reply_to=None,
                headers=HEADERS,
                correlation_id=f"{number:032x}",
            )
            for number in range(entries)
        ]

    return [("__data__", frame) for frame in asyncio.run(encode_all())]


def _source(job: Job) -> StreamSub[bool]:
    return StreamSub(job.stream, group=job.group, consumer="peer", max_records=READ_COUNT)


async def consume_pydantic(job: Job, tally: Tally) -> None:
    """The default serializer."""
    broker = RedisBroker(job.url, logger=SILENT)
    tally.order_type = OrderModel

    @broker.subscriber(stream=_source(job))
    async def handle(received: OrderModel) -> None:
        tally.count(received)

    await _run(broker, tally)


async def consume_msgspec(job: Job, tally: Tally) -> None:
    """The msgspec serializer and the very type the others use."""
    broker = RedisBroker(job.url, logger=SILENT, serializer=MsgSpecSerializer())

    @broker.subscriber(stream=_source(job))
    async def handle(received: Order) -> None:
        tally.count(received)

    await _run(broker, tally)


async def consume_retried(job: Job, tally: Tally) -> None:
    """It has no retries on streams: the handler publishes a copy by hand, with its count in a
    header, and returns, so that the original is acknowledged."""
    broker = RedisBroker(job.url, logger=SILENT, serializer=MsgSpecSerializer())

    @broker.subscriber(stream=_source(job))
    async def handle(received: Order, message: RedisStreamMessage) -> None:
        if "x-retry-count" not in message.headers:
            tally.fail()
            headers = {**message.headers, "x-retry-count": "1"}
            await broker.publish(received, stream=job.stream, headers=headers)
        else:
            tally.count(received)

    await _run(broker, tally)


async def consume_by_workers(job: Job, tally: Tally) -> None:
    """Its `max_workers`."""
    broker = RedisBroker(job.url, logger=SILENT, serializer=MsgSpecSerializer())

    @broker.subscriber(stream=_source(job), max_workers=WORKERS)
    async def handle(received: Order) -> None:
        await asyncio.sleep(0)
        tally.count(received)

    await _run(broker, tally)


async def _run(broker: RedisBroker, tally: Tally) -> None:
    async with broker:
        await broker.start()
        await tally.settled()


async def publish(job: Job, watch: Stopwatch) -> None:
    """`broker.publish`, awaited."""
    broker = RedisBroker(job.url, logger=SILENT, serializer=MsgSpecSerializer())

    async def send(each: Order) -> None:
        await broker.publish(each, stream=job.stream, headers=HEADERS)

    async with broker:
        watch.start()
        await publish_all(job, send)
        watch.stop()
