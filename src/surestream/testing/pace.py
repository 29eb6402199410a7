"""How time goes in a test: paused in process, or real against live servers."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from surestream.outcome import seconds
from surestream.runtime.terms import Mounted
from surestream.testing.clock import PausedClock
from surestream.testing.patience import NotSettled, listed
from surestream.testing.recorder import Recorder
from surestream.testing.records import Message, OfDelivery
from surestream.testing.threads import Busy

__all__ = ["LivePace", "Pace", "PausedPace"]

BREATH: Final = 0.02
"""Real seconds for which a starting or stopping app may wait for I/O before time passes."""
POLL: Final = 0.01
QUIET: Final = 0.25
"""Seconds without an event after which a live service counts as settled."""
EXPECTING: Final = 2.0
"""The same, while a message that was published has not arrived."""


class Pace(ABC):
    """Makes time pass for one test."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since the test began."""

    @abstractmethod
    async def settle(self, linger: float) -> None:
        """Return when nothing moves without time passing. Raises :class:`NotSettled`."""

    @abstractmethod
    async def advance(self, duration: float | timedelta) -> None:
        """Let ``duration`` pass, then settle."""

    @abstractmethod
    async def until(self, future: asyncio.Future[Any]) -> None:
        """Let time pass until ``future`` is done."""

    def leave(self) -> None:
        """The test is over."""


class PausedPace(Pace):
    """Virtual time (rule 8.1)."""

    def __init__(self, busy: Busy, patience: float) -> None:
        self._busy = busy
        self._patience = patience
        self._clock = PausedClock.join()
        self._clock.watch(busy)
        self._start = self._clock.microseconds

    def now(self) -> float:
        return (self._clock.microseconds - self._start) / 1_000_000

    async def settle(self, linger: float) -> None:
        await self._clock.settle(linger=linger, patience=self._patience)

    async def advance(self, duration: float | timedelta) -> None:
        await self._clock.advance(duration, patience=self._patience)

    async def until(self, future: asyncio.Future[Any]) -> None:
        await self._clock.pass_until(future, linger=BREATH, patience=self._patience)

    def leave(self) -> None:
        self._clock.forget(self._busy)
        self._clock.leave()


class LivePace(Pace):
    """Real time: ``advance`` waits, ``settle`` watches until nothing happens any more."""

    def __init__(
        self, recorder: Recorder, busy: Busy, patience: float, mounts: Sequence[Mounted]
    ) -> None:
        self._recorder = recorder
        self._busy = busy
        self._patience = patience
        self._sources = {mounted.name: mounted.source for mounted in mounts}
        self._time = asyncio.get_running_loop().time
        self._start = self._time()

    def now(self) -> float:
        return self._time() - self._start

    async def settle(self, linger: float) -> None:
        began = quiet_since = self._time()
        seen = -1
        while True:
            now = self._time()
            if self._recorder.steps != seen or self._at_work():
                seen, quiet_since = self._recorder.steps, now
            quiet = now - quiet_since
            if quiet >= EXPECTING or (quiet >= max(QUIET, linger) and not self._expecting()):
                return
            if now - began > self._patience:
                raise NotSettled(
                    f"the service is still at work after {self._patience:g} s: "
                    f"{listed(self._work())}"
                )
            await asyncio.sleep(POLL)

    async def advance(self, duration: float | timedelta) -> None:
        await asyncio.sleep(seconds(duration, "advance(duration)"))
        await self.settle(0.0)

    async def until(self, future: asyncio.Future[Any]) -> None:
        await asyncio.wait([future])

    def _at_work(self) -> bool:
        return any(True for _ in self._work())

    def _work(self) -> Iterator[str]:
        running = {call.delivery: call for call in self._recorder.running()}
        for delivery in self._recorder.unsettled():
            call = running.get(delivery)
            what = "is being settled" if call is None else f"{call.handler} runs"
            yield f"{delivery.subscription} {delivery.id} {what}"
        for waiting in self._recorder.waiting():
            if waiting.due <= self.now():
                yield f"{waiting.subscription} {waiting.id} was due at +{waiting.due:.3f} s"
        if self._busy.under_way:
            yield from self._busy.names()

    def _expecting(self) -> bool:
        """Whether a subscription has seen fewer messages than were published to it."""
        arrived: dict[str, set[str]] = {name: set() for name in self._sources}
        expected: Counter[str] = Counter()
        for record in self._recorder.records:
            if isinstance(record, OfDelivery):
                arrived[record.subscription].add(record.id)
            elif isinstance(record, Message) and record.kind not in ("delay", "quarantine"):
                readers = [n for n, source in self._sources.items() if source.reads(record.address)]
                # A copy is for the group that it comes from, and unseen by the others (rule 4.7).
                if record.kind != "copy" or len(readers) == 1:
                    expected.update(readers)
        return any(count > len(arrived[name]) for name, count in expected.items())
