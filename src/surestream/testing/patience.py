"""Those who wait for a paused loop, for how long they do, and what they are told in the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final

from surestream.errors import SureStreamError
from surestream.testing.loop import LoopInside, describe, stuck_tasks
from surestream.testing.threads import Busy
from surestream.testing.virtual import VirtualTime

__all__ = ["NotSettled", "Patience", "Wait", "listed"]

SAMPLES: Final = 64
"""Turns that are looked at when a loop does not come to rest."""
BETWEEN_LOOKS: Final = 16
"""Turns between two looks at the real time."""


class NotSettled(SureStreamError):  # noqa: N818 - says what is the matter, as all our errors do
    """What is tested did not come to rest within the patience given, in real seconds."""


class Wait:
    """Somebody who waits until the loop is still, at ``goal`` or later."""

    __slots__ = ("future", "goal", "limit", "linger", "patience")

    def __init__(
        self,
        future: asyncio.Future[None],
        goal: float,
        *,
        now: float,
        patience: float,
        linger: float,
    ) -> None:
        self.future = future
        self.goal = goal
        self.patience = patience
        self.limit = now + patience
        self.linger = linger

    def finish(self) -> None:
        """Wait no more."""
        if not self.future.done():
            self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        """Wait in vain."""
        if not self.future.done():
            self.future.set_exception(error)


class Patience:
    """Fails those who have waited for too long, with what the loop was doing meanwhile.

    ``waits`` and ``busy`` are the driver's own lists.
    """

    def __init__(
        self,
        inside: LoopInside,
        time: VirtualTime,
        real_time: Callable[[], float],
        waits: Sequence[Wait],
        busy: Sequence[Busy],
    ) -> None:
        self._inside = inside
        self._time = time
        self._real_time = real_time
        self._waits = waits
        self._busy = busy
        self._turns = 0
        self._samples: Counter[str] = Counter()
        self._sampled = 0

    def at_work(self) -> None:
        """The loop makes another turn. Once it took too long, look at what it runs."""
        self._turns += 1
        if self._sampled == 0 and self._turns % BETWEEN_LOOKS:
            return
        if not self._over():
            self._begin_anew()
            return
        self._samples.update({describe(handle) for handle in self._inside.ready()})
        self._sampled += 1
        if self._sampled == SAMPLES:
            self._fail()

    def at_rest(self) -> None:
        """The loop waits, for threads or for the world."""
        if self._over():
            self._fail()

    def _over(self) -> bool:
        now = self._real_time()
        return any(now >= wait.limit and not wait.future.done() for wait in self._waits)

    def _begin_anew(self) -> None:
        self._samples.clear()
        self._sampled = 0

    def _fail(self) -> None:
        why = self._complaint()
        self._begin_anew()
        now = self._real_time()
        for wait in self._waits:
            if now >= wait.limit:
                wait.fail(NotSettled(f"not settled after {wait.patience:g} s: {why}"))

    def _complaint(self) -> str:
        at = f"at +{timedelta(microseconds=self._time.elapsed)}"
        busy = [name for busy in self._busy if busy.under_way for name in busy.names()]
        if busy:
            return (
                f"threads are still under way {at}: {listed(busy)}. A thread is waited for in "
                "real time, while time on the loop stands still; one that waits for that time, "
                "or for an event that nobody sets, never ends by itself"
            )
        if self._samples:
            ran = [
                f"{name} (in {count} of {SAMPLES} turns)"
                for name, count in self._samples.most_common(8)
            ]
            return f"the loop never comes to rest {at}; it keeps running {listed(ran)}"
        tasks = sorted(stuck_tasks(self._inside.loop))
        return (
            f"nothing is ready to run and no timer is set {at}; what is waited for must come "
            f"from outside this loop. Waiting: {listed(tasks)}"
        )


def listed(names: Iterable[str]) -> str:
    """One name, or several below each other."""
    several = list(names)
    return "".join(f"\n  - {name}" for name in several) if len(several) > 1 else "".join(several)
