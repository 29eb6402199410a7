"""Turns a paused loop until nothing moves, then lets time jump to the next timer."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import Context
from datetime import timedelta
from typing import Final

from surestream.errors import SureStreamError
from surestream.testing.loop import LoopInside, describe, stuck_tasks
from surestream.testing.threads import Busy
from surestream.testing.virtual import VirtualTime

__all__ = ["FOREVER", "STILL", "Driver", "NotSettled"]

FOREVER: Final = math.inf
STILL: Final = -1
CONFIRM: Final = 2
"""Turns with nothing to run after which a loop is still; each of them looks at I/O once."""
SAMPLES: Final = 64
"""Turns that are looked at when a loop does not come to rest."""
NAP: Final = 0.0001
LONGEST_NAP: Final = 0.002


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


class Driver:
    """One for each paused loop; works only while somebody waits.

    It is a callback that puts itself behind everything that is ready. Finding nothing else in
    two turns, and no thread under way, it knows that only time can move the loop.
    """

    def __init__(
        self, inside: LoopInside, time: VirtualTime, real_time: Callable[[], float]
    ) -> None:
        self._inside = inside
        self._loop = inside.loop
        self._time = time
        self._real_time = real_time
        self._context = Context()
        self._busy: list[Busy] = []
        self._waits: list[Wait] = []
        self._turning = False
        self._quiet = 0
        self._quiet_since: float | None = None
        self._nap = NAP
        self._bell = threading.Event()
        self._samples: Counter[str] | None = None
        self._sampled = 0
        self.idle_since = real_time()
        """When somebody waited last, by the real clock."""

    @property
    def turning(self) -> bool:
        """Whether somebody waits."""
        return self._turning

    def watch(self, busy: Busy) -> None:
        """Wait for these threads too."""
        self._busy.append(busy)

    def forget(self, busy: Busy) -> None:
        """Wait for them no more."""
        self._busy.remove(busy)

    def wait(self, goal: float, *, patience: float, linger: float = 0.0) -> Wait:
        """Begin to wait. ``goal`` is a microsecond; ``STILL``, the moment at which everything is
        still; or ``FOREVER``, until ``finish()``."""
        wait = Wait(
            self._loop.create_future(),
            goal,
            now=self._real_time(),
            patience=patience,
            linger=linger,
        )
        self._waits.append(wait)
        if not self._turning:
            self._turning = True
            self._disturbed()
            self._loop.call_soon(self._turn, context=self._context)
        return wait

    # -- one turn -------------------------------------------------------------------------

    def _turn(self) -> None:
        self._waits = [wait for wait in self._waits if not wait.future.done()]
        if not self._waits:
            self._turning = False
            self.idle_since = self._real_time()
            return
        try:
            self._look()
        except Exception as error:
            for wait in self._waits:
                wait.fail(error)
        self._loop.call_soon(self._turn, context=self._context)

    def _look(self) -> None:
        if self._inside.ready():
            self._out_of_patience()
            self._disturbed()
            return
        self._quiet += 1
        if self._quiet < CONFIRM or self._out_of_patience() or self._not_yet():
            return
        self._step()
        self._disturbed()

    def _disturbed(self) -> None:
        self._quiet = 0
        self._quiet_since = None
        self._nap = NAP

    def _not_yet(self) -> bool:
        """Whether threads are under way, or the quiet has not lasted long enough."""
        if any(busy.under_way for busy in self._busy):
            self._rest()
            return True
        linger = max(wait.linger for wait in self._waits)
        if linger <= 0:
            return False
        now = self._real_time()
        if self._quiet_since is None:
            self._quiet_since = now
        if now - self._quiet_since >= linger:
            return False
        self._rest()
        return True

    def _rest(self) -> None:
        """Let other threads, and the world, have the time that the loop does not need."""
        self._bell.wait(self._nap)
        self._nap = min(self._nap * 2, LONGEST_NAP)

    # -- when everything is still -----------------------------------------------------------

    def _step(self) -> None:
        """Let those go on who have what they waited for; if there are none, jump to the next
        timer, or to what is waited for, whichever is first."""
        time = self._time
        timer = self._inside.next_timer()
        if timer is not None and timer.cancelled():
            return  # The loop throws it away at the begin of the next turn.
        when = FOREVER if timer is None else timer.when()
        done = [
            wait
            for wait in self._waits
            if wait.goal == STILL
            or (wait.goal <= time.elapsed and not time.reached(when, wait.goal))
        ]
        for wait in done:
            wait.finish()
        if done:
            return
        goal = min(wait.goal for wait in self._waits)
        if time.reached(when, goal):
            time.move(int(min(time.instant(when), goal)), when)
        elif goal < FOREVER:
            time.move(int(goal))
        else:
            self._rest()
        self._inside.resolution = math.ulp(time.now)

    # -- when it never is -------------------------------------------------------------------

    def _out_of_patience(self) -> bool:
        """Look at what keeps the loop going, then let those fail who waited too long."""
        if self._samples is None:
            now = self._real_time()
            if all(now < wait.limit for wait in self._waits):
                return False
            self._samples, self._sampled = Counter(), 0
        self._samples.update({describe(handle) for handle in self._inside.ready()})
        self._sampled += 1
        if self._sampled < SAMPLES:
            return False
        error = self._complaint(self._samples)
        self._samples = None
        now = self._real_time()
        for wait in self._waits:
            if now >= wait.limit:
                wait.fail(NotSettled(f"not settled after {wait.patience:g} s: {error}"))
        return True

    def _complaint(self, samples: Counter[str]) -> str:
        at = f"at +{timedelta(microseconds=self._time.elapsed)}"
        busy = [name for busy in self._busy if busy.under_way for name in busy.names()]
        if busy:
            return (
                f"threads are still under way {at}: {_listed(busy)}. A thread is waited for in "
                "real time; one that waits for an event, or for time on the paused loop, never "
                "ends by itself"
            )
        if samples:
            ran = [
                f"{name} (in {count} of {SAMPLES} turns)" for name, count in samples.most_common(8)
            ]
            return f"the loop never comes to rest {at}; it keeps running {_listed(ran)}"
        tasks = sorted(stuck_tasks(self._loop))
        return (
            f"nothing is ready to run and no timer is set {at}; what is waited for must come "
            f"from outside this loop. Waiting: {_listed(tasks)}"
        )


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    return "".join(f"\n  - {name}" for name in listed) if len(listed) > 1 else "".join(listed)
