"""Whether the other end of a connection is still there: one timer for a whole link."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Watch"]

# The loop may wake a timer early, by the resolution of its clock.
_RESOLUTION = 0.001


class Watch:
    """Declares a link lost that owes a reply for too long, and asks a quiet one for a sign of life.

    ``heard`` tells how many replies have come so far, ``ping`` sends a PING, ``lose`` ends the
    link. A link that went silent is found within ``2 * ping_every + ping_timeout`` seconds; with
    ``ping_every=None`` only the deadlines count. While a deadline is outstanding no ping is
    sent: a server answers it only after the blocking read that the deadline belongs to.
    """

    __slots__ = (
        "_armed",
        "_armed_for",
        "_deadlines",
        "_heard",
        "_heard_before",
        "_loop",
        "_lose",
        "_ping",
        "_ping_at",
        "_ping_every",
        "_ping_timeout",
        "_pinged",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        heard: Callable[[], int],
        ping: Callable[[], None],
        lose: Callable[[str], None],
        ping_every: float | None,
        ping_timeout: float,
    ) -> None:
        self._loop = loop
        self._heard = heard
        self._ping = ping
        self._lose = lose
        self._ping_every = math.inf if ping_every is None else ping_every
        self._ping_timeout = ping_timeout
        self._ping_at = math.inf
        self._pinged = False
        self._heard_before = 0
        # (when, the number of the reply that is due then), the soonest first
        self._deadlines: list[tuple[float, int]] = []
        self._armed: asyncio.TimerHandle | None = None
        self._armed_for = math.inf

    def start(self) -> None:
        """Begin with the pings; deadlines are watched from the first one on."""
        self._ping_at = self._loop.time() + self._ping_every
        self._wake_by(self._ping_at)

    def stop(self) -> None:
        """Watch no longer."""
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        self._armed_for = -math.inf

    def due(self, deadline: float, number: int) -> None:
        """Expect the reply of that number within ``deadline`` seconds."""
        when = self._loop.time() + deadline
        heappush(self._deadlines, (when, number))
        self._wake_by(when)

    def _wake_by(self, when: float) -> None:
        # Armed for something sooner it moves on by itself: a timer for the link, not for each call.
        if when < self._armed_for:
            if self._armed is not None:
                self._armed.cancel()
            self._armed_for = when
            self._armed = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        self._armed = None
        self._armed_for = math.inf
        now = self._loop.time() + _RESOLUTION
        heard = self._heard()
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] <= heard:
            heappop(deadlines)
        if deadlines and deadlines[0][0] <= now:
            self.stop()
            self._lose("no reply within its deadline")
            return
        if self._ping_at <= now and not self._look_for_life(heard):
            return
        self._wake_by(min(self._ping_at, deadlines[0][0] if deadlines else math.inf))

    def _look_for_life(self, heard: int) -> bool:
        wait = self._ping_every
        if heard != self._heard_before or self._deadlines:
            self._heard_before = heard
            self._pinged = False
        elif self._pinged:
            self.stop()
            self._lose(f"no sign of life for {self._ping_every + self._ping_timeout:g} s")
            return False
        else:
            self._pinged = True
            self._ping()
            wait = self._ping_timeout
        self._ping_at = self._loop.time() + wait
        return True
