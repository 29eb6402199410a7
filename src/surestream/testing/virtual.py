"""Virtual time: whole microseconds inside, the loop's seconds outside."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from surestream.outcome import seconds

__all__ = ["EPOCH", "VirtualTime", "microseconds"]

EPOCH: Final = datetime(2025, 1, 1, tzinfo=UTC)
"""The date at which every paused clock starts: results do not depend on the day of the run."""

SECOND: Final = 1_000_000
MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(duration: float | timedelta, name: str = "duration") -> int:
    """``duration`` (seconds, or exactly by a ``timedelta``) in whole microseconds.

    Raises ``TypeError`` or ``ValueError`` for what is no finite, non-negative duration.
    """
    number = seconds(duration, name)
    if isinstance(duration, timedelta):
        return duration // MICROSECOND
    return round(number * SECOND)


class VirtualTime:
    """A time that stands still until it is moved, and never goes back.

    ``elapsed`` counts microseconds since the start, exactly: 29.999 s and 1 ms are 30 s, however
    floating point adds them up. ``now`` is what the loop is told, in its own seconds; it is
    never less than a timer that has been reached, so nothing runs before it is due.
    """

    __slots__ = ("_start", "elapsed", "now")

    def __init__(self, start: float) -> None:
        self._start: Final = start
        self.elapsed = 0
        self.now = start

    def instant(self, when: float) -> int:
        """The microsecond since the start that a timer due at ``when`` means."""
        return round((when - self._start) * SECOND)

    def reached(self, when: float, goal: float) -> bool:
        """Whether a timer due at ``when`` belongs to a time that ends at microsecond ``goal``."""
        if math.isinf(when):
            return False
        coarse = math.ulp(when) * SECOND  # above half a microsecond only after 140 years
        return self.instant(when) <= goal + (math.ceil(2 * coarse) if coarse > 0.5 else 0)

    def move(self, instant: int, at_least: float = 0.0) -> None:
        """Go on to ``instant``; ``now`` becomes ``at_least`` or more."""
        self.elapsed = max(self.elapsed, instant)
        self.now = max(self.now, self._start + self.elapsed / SECOND, at_least)

    def wall(self) -> float:
        """Seconds since the Unix epoch, by this clock."""
        return EPOCH.timestamp() + self.elapsed / SECOND
