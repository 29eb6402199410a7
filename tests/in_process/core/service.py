"""A service on the bench, made anew for each test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from surestream import App, Subscriber
from surestream.contract import Abilities
from surestream.message import DEAD_PREFIX, Outgoing
from surestream.testing import PausedClock, TestApp
from tests.in_process.core.sources import STREAM, BenchSource
from tests.in_process.core.transports import BenchBroker

__all__ = ["Service", "details", "headers", "spend", "until"]


class Service:
    """One app with one bench broker."""

    def __init__(self, **options: Any) -> None:
        self.app = App("shop", version="1.2.0", **options)
        self.broker = self.app.add(BenchBroker())
        self.bench = self.broker.bench

    def on(
        self,
        handler: Callable[..., Any],
        can: Abilities = STREAM,
        topic: str = "orders",
        *,
        source: BenchSource | None = None,
        **options: Any,
    ) -> BenchSource:
        """Include ``handler`` on ``topic``, a source that can do what ``can`` says."""
        source = source or BenchSource(topic, can)
        self.broker.include(Subscriber(source, handler), **options)
        return source

    def test(self, **options: Any) -> TestApp:
        """A run of it, its time standing still."""
        return TestApp(self.app, **options)


def headers(message: Outgoing) -> dict[str, str]:
    """A stored message's headers."""
    return {name: value.decode() for name, value in message.headers}


def details(message: Outgoing) -> dict[str, str]:
    """What the dead-letter headers of a stored message say, prefix removed."""
    return {
        name.removeprefix(DEAD_PREFIX): value
        for name, value in headers(message).items()
        if name.startswith(DEAD_PREFIX)
    }


def spend(seconds: float) -> None:
    """Let the paused clock go on by ``seconds`` without letting go of the loop: what a handler
    does that computes, or blocks."""
    clock: object = getattr(asyncio.get_running_loop().time, "__self__", None)
    assert isinstance(clock, PausedClock)
    time = clock._time
    time.move(time.elapsed + round(seconds * 1_000_000))


async def until(happened: Callable[[], bool]) -> None:
    """Turn the loop until something has happened: for tests on the real clock."""
    while not happened():  # noqa: ASYNC110 - what is waited for rings no bell
        await asyncio.sleep(0)
