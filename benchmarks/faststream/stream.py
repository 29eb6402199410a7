"""FastStream's subscriber that is called once a message, in the two ways it offers to type one.

Settings that its documentation offers and that were seen to help: no logger, 100 entries a
read, orjson installed. `max_workers` makes it slower; its batch subscriber is another path.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import msgspec
from fast_depends.msgspec import MsgSpecSerializer
from faststream.redis import BinaryMessageFormatV1, RedisBroker, StreamSub
from pydantic import BaseModel

from benchmarks.common import (
    HEADERS,
    READ_COUNT,
    Job,
    Order,
    Stopwatch,
    Tally,
    order,
    publish_all,
)
from benchmarks.wire import Argument

if TYPE_CHECKING:
    from faststream._internal.basic_types import LoggerProto


SILENT = cast("LoggerProto", None)
"""Its documented way to log nothing; the annotation has no room for it."""


class OrderModel(BaseModel):
    """`Order` for pydantic."""

    id: int
    customer: str
    sku: str
    quantity: int
    price_cents: int
    currency: str
    express: bool


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
