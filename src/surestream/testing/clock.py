"""The paused clock of one event loop.

On its loop ``loop.time()`` stands still: ``asyncio.sleep``, ``call_later``, ``asyncio.timeout``
and everything built on them wait until somebody says :meth:`PausedClock.advance`. Time then
jumps from timer to timer, and at each of them everything that can run does run, as it would
between two moments of real time.

While the clock is paused nothing but ``advance`` moves time: a test that awaits
``asyncio.sleep(1)`` itself waits for ever (after some real seconds the log says so).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from surestream.clock import follow_wall_clock, forget_wall_clock
from surestream.testing.driver import FOREVER, STILL, Driver
from surestream.testing.loop import LoopInside, stuck_tasks
from surestream.testing.threads import Busy, ExecutorJobs
from surestream.testing.virtual import VirtualTime, microseconds

__all__ = ["PATIENCE", "PausedClock", "paused_clock"]

log = logging.getLogger("surestream.testing")

PATIENCE: Final = 20.0
"""Real seconds that one ``settle`` or ``advance`` may take."""
FORGOTTEN: Final = 5.0
"""Real seconds for which a paused loop may wait before the log says who has to move it."""


class ShiftedClock:
    """A loop's own time, put forward: what is left of a paused clock that was ahead of it."""

    __slots__ = ("ahead", "own")

    def __init__(self, own: Callable[[], float], ahead: float) -> None:
        self.own = own
        self.ahead = ahead

    def __call__(self) -> float:
        return self.own() + self.ahead


class PausedClock:
    """The time of one running loop, standing still.

    Everybody who pauses a loop shares its clock: :meth:`join` it, and :meth:`leave` when done
    (or ``with paused_clock() as clock``). The last one to leave sets the time going again, from
    where it stands: the loop's time never goes back, what was to run in five seconds runs in
    five seconds. Where virtual time got ahead of real time, the loop stays ahead by as much.

    Waits for ``asyncio.to_thread`` and ``loop.run_in_executor``, and for what :meth:`watch` is
    given. It cannot see I/O that is on its way through real sockets: ``linger`` says for how
    many real seconds the loop has to stay quiet before it counts as settled.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._inside = LoopInside(loop)
        self._members = 0
        self._before = self._inside.clock
        self._resolution = self._inside.resolution
        self._slow = loop.slow_callback_duration
        self._time = VirtualTime(self._before())
        self._jobs = ExecutorJobs(self._inside)
        self._driver = Driver(self._inside, self._time, self._before, unattended=self._unattended)
        self._driver.watch(self._jobs)
        self._complained = False

    # -- sharing --------------------------------------------------------------------------

    @classmethod
    def join(cls) -> PausedClock:
        """Pause the running loop, or share the clock of whoever did.

        Raises ``DeclarationError`` on a loop whose time cannot be replaced (rule 8.1).
        """
        loop = asyncio.get_running_loop()
        owner: object = getattr(loop.time, "__self__", None)
        clock = owner if isinstance(owner, PausedClock) else cls(loop)
        if clock._members == 0:
            clock._pause()
        clock._members += 1
        return clock

    def leave(self) -> None:
        """Share it no more; the last one to leave sets the time going again."""
        self._members -= 1
        if self._members == 0:
            self._go_on()

    def _pause(self) -> None:
        loop = self._inside.loop
        self._inside.replace_clock(self._tell)
        self._inside.replace_select(self._driver.select)
        # A timer runs when it is due, not a clock tick (16 ms on Windows) before.
        self._inside.resolution = math.ulp(self._time.now)
        # Debug mode measures callbacks by the loop's clock: a jump is no slow callback.
        loop.slow_callback_duration = math.inf
        self._jobs.watch()
        follow_wall_clock(loop, self._time.wall)

    def _go_on(self) -> None:
        loop = self._inside.loop
        forget_wall_clock(loop)
        self._inside.restore_select()
        self._jobs.forget()
        loop.slow_callback_duration = self._slow
        self._inside.resolution = self._resolution
        own = self._before.own if isinstance(self._before, ShiftedClock) else self._before
        ahead = self._time.now - own()
        if ahead > 0:
            self._inside.replace_clock(ShiftedClock(own, ahead))
        else:
            self._inside.replace_clock(own)

    # -- time -----------------------------------------------------------------------------

    @property
    def elapsed(self) -> timedelta:
        """Virtual time since the clock was paused."""
        return timedelta(microseconds=self._time.elapsed)

    @property
    def microseconds(self) -> int:
        """:attr:`elapsed` in microseconds, exactly."""
        return self._time.elapsed

    @property
    def seconds(self) -> float:
        """:attr:`elapsed` in seconds."""
        return self._time.elapsed / 1_000_000

    async def settle(self, *, linger: float = 0.0, patience: float = PATIENCE) -> None:
        """Return when nothing on the loop can move without time passing.

        Raises :class:`NotSettled` after ``patience`` real seconds, saying what still moves.
        """
        await self._wait(STILL, linger, patience)

    async def advance(
        self, duration: float | timedelta, *, linger: float = 0.0, patience: float = PATIENCE
    ) -> None:
        """Let ``duration`` (seconds, or a ``timedelta``) pass, stopping at every timer on the
        way, those included that are set on the way; then settle.

        Raises ``ValueError`` or ``TypeError`` for what is no duration, :class:`NotSettled` as
        :meth:`settle` does.
        """
        goal = self._time.elapsed + microseconds(duration, "advance(duration)")
        await self._wait(goal, linger, patience)

    async def pass_until(
        self, future: asyncio.Future[Any], *, linger: float = 0.0, patience: float = PATIENCE
    ) -> None:
        """Let as much time pass as it takes until ``future`` is done. Its result or exception
        stays in it."""
        wait = self._driver.wait(FOREVER, patience=patience, linger=linger)

        def finish(_: object) -> None:
            wait.finish()

        future.add_done_callback(finish)
        try:
            await wait.future
        finally:
            future.remove_done_callback(finish)

    async def _wait(self, goal: float, linger: float, patience: float) -> None:
        await self._driver.wait(goal, patience=patience, linger=linger).future

    def watch(self, busy: Busy) -> None:
        """Wait for these threads too when settling."""
        self._driver.watch(busy)

    def forget(self, busy: Busy) -> None:
        """Undo :meth:`watch`."""
        self._driver.forget(busy)

    def _tell(self) -> float:
        return self._time.now

    def _unattended(self, idle: float) -> float | None:
        """Nobody has moved the time for so many real seconds; returns how many more are all
        right."""
        if self._complained:
            return None
        if idle < FORGOTTEN:
            return FORGOTTEN - idle
        self._complained = True
        log.warning(
            "the clock of this loop is paused, and for %.0f real seconds nobody moved it: "
            "instead of `await asyncio.sleep(...)` a test writes `await tb.advance(...)`. "
            "Waiting: %s",
            idle,
            "; ".join(sorted(stuck_tasks(self._inside.loop))),
        )
        return None


@contextmanager
def paused_clock() -> Generator[PausedClock]:
    """Pause the running loop's clock for a ``with`` block."""
    clock = PausedClock.join()
    try:
        yield clock
    finally:
        clock.leave()
