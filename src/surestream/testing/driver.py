"""Stands where a paused loop would wait, and lets time jump to the next timer instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from surestream.testing.loop import Events, LoopInside
from surestream.testing.patience import Patience, Wait
from surestream.testing.threads import Busy
from surestream.testing.virtual import VirtualTime

__all__ = ["FOREVER", "STILL", "Driver"]

FOREVER: Final = math.inf
STILL: Final = -1
"""A time that is past: what waits for it goes on as soon as the loop is still."""
NAP: Final = 0.02
"""Real seconds for which the loop waits at once, for threads and for the world; each of them wakes
it before."""


class Driver:
    """One for each paused loop; moves time only while somebody waits.

    In each of its turns a loop asks its selector for events, and says how long it could wait for
    them: not at all while anything is ready to run. :meth:`select` answers in the selector's place.
    When nothing is ready, no event has come and no thread is under way, only time can move the
    loop: so time moves, and the loop goes on in the same turn.
    """

    def __init__(
        self,
        inside: LoopInside,
        time: VirtualTime,
        real_time: Callable[[], float],
        *,
        unattended: Callable[[float], float | None],
    ) -> None:
        self._inside = inside
        self._time = time
        self._real_time = real_time
        self._look = inside.select
        self._unattended = unattended
        self._busy: list[Busy] = []
        self._waits: list[Wait] = []
        self._patience = Patience(inside, time, real_time, self._waits, self._busy)
        self._quiet_since: float | None = None
        self._idle_since: float | None = None

    def watch(self, busy: Busy) -> None:
        """Wait for these threads too."""
        self._busy.append(busy)

    def forget(self, busy: Busy) -> None:
        """Wait for them no more."""
        self._busy.remove(busy)

    def wait(self, goal: float, *, patience: float, linger: float = 0.0) -> Wait:
        """Begin to wait. ``goal`` is a microsecond; ``STILL``, the moment at which everything is
        still; or ``FOREVER``, until ``finish()``."""
        future = self._inside.loop.create_future()
        wait = Wait(future, goal, now=self._real_time(), patience=patience, linger=linger)
        self._waits.append(wait)
        return wait

    # -- one turn -------------------------------------------------------------------------

    def select(self, timeout: float | None) -> Events:
        """What the selector has to tell; the loop could wait ``timeout`` seconds for it."""
        waits = self._waits
        if waits:
            self._idle_since = None
            self._patience.at_work()
        if timeout is not None and timeout <= 0:
            self._quiet_since = None
            return self._look(0)
        waits[:] = [wait for wait in waits if not wait.future.done()]
        if not waits:
            return self._rest_unattended(timeout)
        try:
            # Twice: what one socket of this loop has just sent to another may be on its way.
            return self._look(0) or self._look(0) or self._still()
        except Exception as error:
            for wait in waits:
                wait.fail(error)
            return ()

    def _rest_unattended(self, timeout: float | None) -> Events:
        """Nobody moves the time: the loop waits for what is not a matter of time."""
        if timeout is None:
            return self._look(None)
        now = self._real_time()
        if self._idle_since is None:
            self._idle_since = now
        return self._look(self._unattended(now - self._idle_since))

    # -- when only time can move the loop ---------------------------------------------------

    def _still(self) -> Events:
        """Nothing is ready to run, and nothing has come."""
        linger = 0.0
        for busy in self._busy:
            if busy.under_way:
                return self._rest(NAP)
        for wait in self._waits:
            linger = max(linger, wait.linger)
        if linger > 0:
            now = self._real_time()
            if self._quiet_since is None:
                self._quiet_since = now
            rest = self._quiet_since + linger - now
            if rest > 0:
                return self._rest(min(rest, NAP))
        self._quiet_since = None
        return () if self._go_on() else self._rest(NAP)

    def _rest(self, seconds: float) -> Events:
        """Let other threads, and the world, have the time that the loop does not need."""
        self._patience.at_rest()
        return self._look(seconds)

    def _go_on(self) -> bool:
        """Let those go on who have what they waited for; if there are none, move time to the next
        timer, or to what is waited for, whichever is first. Returns whether anything moves."""
        time, inside = self._time, self._inside
        when = inside.next_timer()
        goal, finished = FOREVER, False
        for wait in self._waits:
            if wait.goal <= time.elapsed and not time.reached(when, wait.goal):
                wait.finish()
                finished = True
            else:
                goal = min(goal, wait.goal)
        if finished:
            return True
        if time.reached(when, goal):
            time.move(int(min(time.instant(when), goal)), when)
        elif goal < FOREVER:
            time.move(int(goal))
        else:
            return False
        inside.resolution = math.ulp(time.now)
        return True
