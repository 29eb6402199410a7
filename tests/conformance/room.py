"""Runs one scenario, in process or on a real server, and keeps the answers it gave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

from surestream import App, Subscriber
from surestream.message import DEAD_PREFIX
from surestream.redis import DurableZset, RedisBroker, RedisStream
from surestream.redis.address import RedisAddress
from surestream.redis.driver import Argument, connection_factory
from surestream.redis.in_process import InProcessRedis
from surestream.redis.link import Link
from surestream.testing import TestApp

Delays = Literal["timer", "set"]
"""Who keeps delays: the process, or a ``DurableZset``."""

DIFFERS = {DEAD_PREFIX + "id", DEAD_PREFIX + "time"}
"""Headers that tell when something happened."""


class Room:
    """An app of its own keys, what runs it, and what became of its messages.

    ``url``: of the server that it runs on; in process without one.
    """

    def __init__(self, name: str, delays: Delays, url: str | None) -> None:
        self.answers: dict[str, Any] = {}
        self._prefix = f"{name}.{delays}."
        self._delays = delays
        self._url = url
        self._app = App("parity")
        self._redis = self._app.add(RedisBroker())
        self._handlers: dict[str, Subscriber[RedisStream, ..., Any]] = {}
        self._link: Link | None = None

    def key(self, name: str) -> str:
        """A key of this scenario."""
        return self._prefix + name

    def handle(
        self, handler: Callable[..., Any], name: str = "work", *, group: str = "g", **options: Any
    ) -> None:
        """Include ``handler`` for the stream of that name."""
        key = self.key(name)
        delays = DurableZset(f"{key}.delayed") if self._delays == "set" else None
        source = RedisStream(key, group=group, delayed_retry=delays, block=1)
        subscriber = Subscriber(source, handler)
        if "dead_letter" in options:
            options["dead_letter"] = self.key(options["dead_letter"])
        self._redis.include(subscriber, **options)
        self._handlers[f"{handler.__name__} of {name}/{group}"] = subscriber

    @asynccontextmanager
    async def running(self) -> AsyncIterator[TestApp]:
        """Run the app for the length of the block, which ends when nothing waits any more."""
        live = self._url is not None and {self._redis: self._url}
        async with TestApp(self._app, live=live) as tb:
            if self._url is None:
                server = cast(InProcessRedis, tb.run.context.servers[self._redis])
                connect = server.connection_factory()
            else:
                connect = connection_factory(RedisAddress.parse(self._url))
            self._link = Link(connect, name="parity")
            await self._link.open()
            try:
                yield tb
                tb.assert_nothing_waits()
                self.answers |= self._recorded(tb)
                self.answers["left on the server"] = await self._left()
            finally:
                await self._link.close()

    async def command(self, *words: Argument) -> Any:
        """Send the server a command, as a program that is not ours would."""
        assert self._link is not None
        return await self._link.call(*words)

    # -- answers --------------------------------------------------------------------------

    def _recorded(self, tb: TestApp) -> dict[str, object]:
        # Sorted: between two messages the order of what happens is nobody's promise.
        handlers = self._handlers.items()
        return {
            "calls": {
                name: sorted(
                    (
                        one.payload,
                        one.attempt,
                        repr(one.outcome),
                        repr(one.error),
                        told(one.headers),
                    )
                    for one in tb.calls(handler)
                )
                for name, handler in handlers
            },
            "settlements": {
                name: sorted(
                    (one.payload, one.attempt, one.how, repr(one.outcome))
                    for one in tb.settlements(handler)
                )
                for name, handler in handlers
            },
            "stored": sorted(
                (one.address, one.kind, one.payload, told(one.headers)) for one in tb.published()
            ),
        }

    async def _left(self) -> dict[str, object]:
        found: list[bytes] = await self.command("KEYS", self._prefix + "*")
        return {key.decode(): await self._content(key) for key in sorted(found)}

    async def _content(self, key: bytes) -> object:
        if await self.command("TYPE", key) != b"stream":
            return "waiting", await self.command("ZCARD", key)
        entries: list[tuple[bytes, list[bytes]]] = await self.command("XRANGE", key, "-", "+")
        groups: list[list[Any]] = await self.command("XINFO", "GROUPS", key)
        told_of = [dict(zip(group[::2], group[1::2], strict=True)) for group in groups]
        return {
            "entries": sorted(_fields(fields) for _, fields in entries),
            "pending": {group[b"name"]: group[b"pending"] for group in told_of},
        }


def told(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Headers, but for those that tell the time."""
    return tuple(
        (name.lower(), "…" if name.lower() in DIFFERS else value)
        for name, value in sorted(headers.items())
    )


def _fields(fields: list[bytes]) -> list[tuple[bytes, bytes]]:
    names = {b"h:" + name.encode() for name in DIFFERS}
    pairs = zip(fields[::2], fields[1::2], strict=True)
    return sorted((name, b"..." if name in names else value) for name, value in pairs)
