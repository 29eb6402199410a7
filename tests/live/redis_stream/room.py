"""A transport with a server of either kind under it, and a stand-in for the runtime."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from surestream.contract import Recovered, SubscriptionTerms
from surestream.delivery import Delivery
from surestream.message import Outgoing
from surestream.redis.driver import ConnectionFactory
from surestream.redis.errors import RedisRefusal
from surestream.redis.link import Link
from surestream.redis.sources import RedisStream
from surestream.redis.stream import StreamSubscription
from surestream.redis.transport import RedisTransport

__all__ = [
    "Reader",
    "Room",
    "StandIn",
    "confirmed",
    "copy_of",
    "ids",
    "lines",
    "payloads",
    "until",
]


class StandIn:
    """What the runtime is to a transport: it knows what was handed out and is not settled."""

    def __init__(self, name: str = "refunds/refunds") -> None:
        self.subscription = name
        self.max_attempts: int | None = None
        self.hand: dict[Delivery, None] = {}

    def attempt(self, delivery: Delivery) -> int:
        return delivery.header_count + 1

    def held(self) -> Iterable[Delivery]:
        return list(self.hand)


class Reader:
    """A subscription, and the bookkeeping that the runtime would do for it."""

    def __init__(self, subscription: StreamSubscription, origin: StandIn) -> None:
        self.live = subscription
        self.origin = origin

    async def pull(self, limit: int = 100) -> list[Delivery]:
        """One pull."""
        deliveries = list(await self.live.pull(limit))
        self.origin.hand.update(dict.fromkeys(deliveries))
        return deliveries

    async def take(self, count: int, within: float = 5.0) -> list[Delivery]:
        """Exactly ``count`` deliveries, by as many pulls as it takes."""
        taken: list[Delivery] = []
        async with asyncio.timeout(within):
            while len(taken) < count:
                taken += await self.pull(count - len(taken))
        return taken

    async def quiet(self) -> bool:
        """Whether one read brings nothing."""
        return not await self.pull()

    async def recover(self, limit: int = 100) -> Recovered:
        """One look for orphans."""
        found = await self.live.recover(limit)
        self.origin.hand.update(dict.fromkeys(found.deliveries))
        return found

    async def orphans(self, count: int, within: float = 5.0) -> list[Delivery]:
        """``count`` orphans, looked for until they are there."""
        found: list[Delivery] = []
        async with asyncio.timeout(within):
            while len(found) < count:
                found += (await self.recover(count - len(found))).deliveries
                await asyncio.sleep(0.01)
        return found

    async def ack(self, *deliveries: Delivery) -> None:
        """Acknowledge and wait for the server."""
        self.settled(*deliveries)
        self.live.acknowledge(deliveries)
        await confirmed(self.live)

    def settled(self, *deliveries: Delivery) -> None:
        """The runtime is done with these."""
        for delivery in deliveries:
            self.origin.hand.pop(delivery, None)

    async def close(self) -> None:
        await self.live.close()


async def confirmed(live: StreamSubscription) -> None:
    """Wait until the server has confirmed every acknowledgement."""
    assert await live._acks.drained(5.0) == 0  # pyright: ignore[reportPrivateUsage]


class Room:
    """Transports on one server, and a view into it."""

    def __init__(self, connect: ConnectionFactory, link: Link, control: Any) -> None:
        self.connect = connect
        self.link = link
        self.control = control
        """The server's own handle: ``RedisServer`` or ``InProcessRedis``."""
        self._transports: list[RedisTransport] = []

    async def transport(self, seed: int | None = None) -> RedisTransport:
        """One more service process, connected."""
        chance = random.Random(seed)
        transport = RedisTransport(self.connect, display="redis", service="test", chance=chance)
        await transport.connect(5.0)
        self._transports.append(transport)
        return transport

    async def reader(self, source: RedisStream, transport: RedisTransport | None = None) -> Reader:
        """A subscription, of a process of its own unless told otherwise."""
        transport = transport or await self.transport()
        origin = StandIn(source.label)
        terms = SubscriptionTerms(name=source.label, where="handler at test.py:1")
        live = await transport.subscribe(source, terms, origin)
        return Reader(cast("StreamSubscription", live), origin)

    async def close(self) -> None:
        for transport in self._transports:
            await transport.close()
        await self.link.close()

    # ── looking at the server ───────────────────────────────────────────────

    async def ask(self, *args: Any) -> Any:
        """One command, or its refusal as a value."""
        try:
            return await self.link.call(*args)
        except RedisRefusal as error:
            return error

    async def add(self, key: str, *fields: bytes | str) -> bytes:
        """Append an entry of these fields."""
        return cast("bytes", await self.link.call("XADD", key, "*", *fields))

    async def fill(self, key: str, count: int) -> list[bytes]:
        """Append ``count`` entries with payloads b"0", b"1", …"""
        return [await self.add(key, "_payload", str(number)) for number in range(count)]

    async def entries(self, key: str) -> list[dict[bytes, bytes]]:
        """The fields of every entry, ids left out."""
        rows = await self.ask("XRANGE", key, "-", "+")
        return [dict(zip(row[1][::2], row[1][1::2], strict=True)) for row in rows]

    async def pending(self, key: str, group: str) -> list[tuple[bytes, int]]:
        """Id and delivery count of what is pending."""
        rows = await self.ask("XPENDING", key, group, "-", "+", 10_000)
        return [(row[0], row[3]) for row in rows]


def copy_of(delivery: Delivery, count: int = 1, address: str | None = None) -> Outgoing:
    """What the runtime would have stored for a retry."""
    headers = (("x-ruststream-retry-count", b"%d" % count),)
    kept = tuple(pair for pair in delivery.headers.pairs if not pair[0].startswith("x-"))
    return Outgoing(address or delivery.address, delivery.payload, headers + kept)


def ids(deliveries: Sequence[Delivery]) -> list[str]:
    """Their entry ids."""
    return [delivery.id for delivery in deliveries]


def payloads(deliveries: Sequence[Delivery]) -> list[bytes]:
    """Their payloads."""
    return [delivery.payload for delivery in deliveries]


def lines(caplog: Any, level: int = logging.WARNING) -> list[str]:
    """What was logged at ``level`` or above."""
    return [r.getMessage() for r in caplog.records if r.levelno >= level]


async def until(holds: Callable[[], bool], within: float = 3.0) -> bool:
    """Whether it holds before the time is over."""
    for _ in range(round(within / 0.01)):
        if holds():
            return True
        await asyncio.sleep(0.01)
    return holds()
