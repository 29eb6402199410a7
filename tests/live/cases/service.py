"""A small service for the cases: one handler for each source, which writes down what it was
given and then does what the test says.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from surestream import App, Delivery, Outcome, Run, Subscriber, ack
from surestream.redis import DurableZset, RedisBroker, RedisStream

__all__ = [
    "DEAD",
    "DELAYED",
    "GROUP",
    "STREAM",
    "Decide",
    "Gate",
    "Given",
    "Service",
    "source",
    "zset",
]

STREAM = "tasks"
GROUP = "g"
DEAD = "tasks.dlq"
DELAYED = "tasks.delayed"


@dataclass(frozen=True)
class Given:
    """What one run of a handler was given."""

    payload: bytes
    attempt: int
    entry: str
    headers: tuple[tuple[str, bytes], ...]
    at: float
    """When, in Unix seconds."""
    delivery: Delivery

    @property
    def text(self) -> str:
        return self.payload.decode()


Decide = Callable[[Given], Outcome | Awaitable[Outcome]]


def acknowledge(given: Given) -> Outcome:
    return ack()


class Service:
    """An app with one Redis broker. ``runs`` holds every run of its handlers, in order."""

    def __init__(self, url: str, *, shutdown_timeout: float = 5.0) -> None:
        self.runs: list[Given] = []
        self.ended = 0
        """How many of them have ended."""
        self.app = App("cases", shutdown_timeout=shutdown_timeout)
        self.broker = self.app.add(RedisBroker(url))

    def on(self, source: RedisStream, decide: Decide = acknowledge, **settings: Any) -> Service:
        """Include a handler that takes the payload in bytes."""

        async def handler(body: bytes, delivery: Delivery) -> Outcome:
            given = Given(
                payload=body,
                attempt=delivery.attempt,
                entry=delivery.id,
                headers=delivery.headers.pairs,
                at=time.time(),
                delivery=delivery,
            )
            self.runs.append(given)
            try:
                outcome = decide(given)
                return await outcome if inspect.isawaitable(outcome) else outcome
            finally:
                self.ended += 1

        self.broker.include(Subscriber(source, handler), **settings)
        return self

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Run]:
        """Run it around a block."""
        async with self.app.running() as run:
            yield run

    def texts(self) -> list[str]:
        """The payloads of the runs, in order."""
        return [given.text for given in self.runs]

    def attempts(self, text: str | None = None) -> list[int]:
        """The attempt numbers of the runs (of one message), in order."""
        return [given.attempt for given in self.runs if text is None or given.text == text]


def source(**settings: Any) -> RedisStream:
    """The stream of the cases, with short waits."""
    return RedisStream(**({"key": STREAM, "group": GROUP, "block": 0.2} | settings))


def zset(**settings: Any) -> RedisStream:
    """The same, with its delays on the server."""
    return source(**({"delayed_retry": DurableZset(DELAYED)} | settings))


class Gate:
    """Holds handlers until the test lets them go."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self.reached = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self._open.wait()

    def open(self) -> None:
        self._open.set()
