"""A service that claims, and a way to its in-process Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from surestream import App, Subscriber
from surestream.redis import RedisBroker
from surestream.redis.in_process import InProcessRedis
from surestream.redis.link import Link
from surestream.redis.script import Script
from surestream.redis.sources import StreamSource
from surestream.testing import TestApp

__all__ = ["Service", "left_behind", "pending"]

LEFT_BEHIND = Script(
    "left_behind",
    b"""
    for i = 2, #ARGV do redis.call('XADD', KEYS[1], '*', '_payload', ARGV[i]) end
    local read = redis.call('XREADGROUP', 'GROUP', 'g', 'dead', 'STREAMS', KEYS[1], '>')
    for _, row in ipairs(redis.call('XPENDING', KEYS[1], 'g', '-', '+', 1000, 'dead')) do
      redis.call('XCLAIM', KEYS[1], 'g', 'dead', 0, row[1], 'RETRYCOUNT', ARGV[1], 'JUSTID')
    end
    """,
)


class Service:
    """One app with one broker."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.broker = self.app.add(RedisBroker())

    def on(self, source: StreamSource, handler: Callable[..., Any], **options: Any) -> Any:
        """Include ``handler``; returns what tests ask about."""
        mounted = Subscriber(source, handler)
        self.broker.include(mounted, **options)
        return mounted

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[tuple[TestApp, Link]]:
        """A run under a paused clock, and a link to its server."""
        async with TestApp(self.app, **options) as tb:
            server = cast("InProcessRedis", tb.run.context.servers[self.broker])
            link = Link(server.connection_factory(), name="look")
            await link.open()
            yield tb, link
            await link.close()


async def pending(link: Link, key: str = "orders", group: str = "g") -> list[tuple[bytes, int]]:
    """Consumer and delivery count of what is pending."""
    rows = cast("list[Any]", await link.call("XPENDING", key, group, "-", "+", 1_000))
    return [(row[1], row[3]) for row in rows]


async def left_behind(link: Link, *payloads: str, times: int = 1) -> None:
    """Entries that were delivered ``times`` times to workers that died, before anybody here could
    read them."""
    await link.script(LEFT_BEHIND, ("orders",), (times, *payloads))
