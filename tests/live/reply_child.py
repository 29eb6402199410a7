"""The process of the reply tests: answers orders, and may end itself at a call to Redis."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import msgspec

from surestream import App, ConnectionLost, Publisher, Subscriber, retry
from surestream.redis import RedisBroker, RedisStream
from tests.live.crash.points import CUT, How, Point, watch_connections
from tests.live.support import Look, plain

__all__ = ["GROUP", "ORDERS", "RECEIPTS", "STUCK", "Receipt", "serve", "settled", "source"]

ORDERS: Final = "orders"
RECEIPTS: Final = "receipts"
GROUP: Final = "g"
STUCK: Final = 9
PATIENCE: Final = 25.0


class Receipt(msgspec.Struct):
    """What is replied."""

    order: int


def source(recover_after: float = 0.5) -> RedisStream:
    """What the orders are read from."""
    return RedisStream(ORDERS, group=GROUP, block=0.2, recover_after=recover_after)


def settled(look: Look) -> bool:
    """Whether every order is read and acknowledged."""
    return not look.pending(ORDERS, GROUP) and not look.unread(ORDERS)


def serve(url: str, *, how: How = "kill before", number: int = 0) -> int:
    """Run until everything is settled; the exit status. Strikes at one of its calls."""
    point = Point(how, number)
    watch_connections(point)
    note = plain(url)
    look = Look(url)
    app = App("replies", shutdown_timeout=10)
    broker = app.add(RedisBroker(url))

    async def answer(order: int, publisher: Publisher) -> Receipt:
        note.rpush("runs", order)
        await publisher.publish("log", order)
        return Receipt(order)

    again = {ConnectionLost: retry()}
    broker.include(Subscriber(source(), answer), reply_to=RECEIPTS, on_error=again)

    async def run() -> int:
        limit = time.monotonic() + PATIENCE
        async with app.running():
            point.arm()
            while not settled(look):
                if time.monotonic() > limit:
                    return STUCK
                await asyncio.sleep(0.02)
        return CUT if point.struck else 0

    return asyncio.run(run())
