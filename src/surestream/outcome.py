"""What a handler decides: acknowledge, retry, retry later, drop (rules 2.1 to 2.3)."""

from __future__ import annotations

import enum
import math
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

__all__ = [
    "DEFAULT_BACKOFF",
    "Backoff",
    "Delay",
    "Drop",
    "Kind",
    "Outcome",
    "Retry",
    "ack",
    "drop",
    "fail_fast",
    "retry",
    "retry_after",
    "seconds",
]


class Kind(enum.Enum):
    """The five things an outcome can ask for."""

    ACK = "ack"
    RETRY = "retry"
    RETRY_AFTER = "retry_after"
    DROP = "drop"
    FAIL_FAST = "fail_fast"


@dataclass(frozen=True, slots=True)
class Backoff:
    """A delay that grows with the attempt number.

    Attempt 1 waits ``first`` seconds, each later one ``factor`` times as long, never more than
    ``limit``; ``jitter`` adds up to that share on top (0.1 is up to 10 %), so that a wait is
    never shorter than declared. ``first`` and ``limit`` are seconds or ``timedelta``.

    Raises ``ValueError`` for negative or non-finite numbers and a factor below 1.
    """

    first: float | timedelta = 1.0
    factor: float = 2.0
    limit: float | timedelta = 60.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", seconds(self.first, "Backoff.first"))
        object.__setattr__(self, "limit", seconds(self.limit, "Backoff.limit"))
        object.__setattr__(self, "factor", _number(self.factor, "Backoff.factor"))
        object.__setattr__(self, "jitter", _number(self.jitter, "Backoff.jitter"))
        if not math.isfinite(self.factor) or self.factor < 1:
            raise ValueError(f"Backoff.factor is {self.factor!r}: it must be a number of 1 or more")
        if not math.isfinite(self.jitter) or self.jitter < 0:
            raise ValueError(f"Backoff.jitter is {self.jitter!r}: it must be 0 or more")
        first, limit = seconds(self.first), seconds(self.limit)
        if first > limit:
            raise ValueError(
                f"Backoff.first is {first:g} s, longer than its limit of {limit:g} s: "
                "write limit= as well"
            )

    def delay(self, attempt: int, chance: random.Random) -> float:
        """Seconds to wait after attempt number ``attempt`` (the first is 1)."""
        first, limit = seconds(self.first), seconds(self.limit)
        if first <= 0:
            return 0.0
        steps = max(attempt, 1) - 1
        if first >= limit or self.factor == 1:
            base = min(first, limit)
        elif steps >= (math.log(limit) - math.log(first)) / math.log(self.factor):
            base = limit
        else:
            base = min(limit, first * self.factor**steps)
        return base * (1.0 + chance.random() * self.jitter)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}): write a number")
    return float(value)


def seconds(value: object, name: str = "delay") -> float:
    """``value`` in seconds; ``timedelta`` or a finite number that is not negative.

    Raises ``TypeError`` for any other type (``bool`` included) and ``ValueError`` for a
    negative, infinite or undefined number (rule 2.1).
    """
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(
            f"{name} is {value!r} ({type(value).__name__}): write seconds as a number, "
            "or a timedelta"
        )
    else:
        try:
            number = float(value)
        except OverflowError:
            raise ValueError(f"{name} is too large a number of seconds") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}: it must be a finite number of seconds")
    if number < 0:
        raise ValueError(f"{name} is {value!r}: it must not be negative")
    return number


Delay = float | timedelta | Backoff
"""A delay as a user gives it: seconds, a ``timedelta``, or a :class:`Backoff`."""

DEFAULT_BACKOFF: Final = Backoff()
"""What an unlisted exception waits (rule 2.3)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A handler's decision. Build it with :func:`ack`, :func:`retry`, :func:`retry_after`
    or :func:`drop`."""

    kind: Kind
    delay: float = 0.0
    backoff: Backoff | None = None

    def __repr__(self) -> str:
        if self.backoff is not None:
            return f"retry_after({self.backoff!r})"
        if self.kind is Kind.RETRY_AFTER:
            return f"retry_after({self.delay:g})"
        return f"{self.kind.value}()"


_ACK: Final = Outcome(Kind.ACK)
_RETRY: Final = Outcome(Kind.RETRY)
_DROP: Final = Outcome(Kind.DROP)
_FAIL_FAST: Final = Outcome(Kind.FAIL_FAST)


def ack() -> Outcome:
    """The message is done: settle it."""
    return _ACK


def drop() -> Outcome:
    """Settle the message without processing it; it never goes to ``dead_letter`` (rule 4.5)."""
    return _DROP


def retry() -> Outcome:
    """Deliver the message again at once, as long as attempts are left."""
    return _RETRY


def retry_after(delay: Delay) -> Outcome:
    """Deliver the message again, not earlier than ``delay``.

    ``delay`` is seconds, a ``timedelta``, or a :class:`Backoff` that is asked with the attempt
    number. Zero means :func:`retry`. Raises ``TypeError`` or ``ValueError`` for what is no
    finite, non-negative duration (rule 2.1).
    """
    if isinstance(delay, Backoff):
        return Outcome(Kind.RETRY_AFTER, backoff=delay)
    wait = seconds(delay)
    return Outcome(Kind.RETRY_AFTER, wait) if wait > 0 else _RETRY


def fail_fast() -> Outcome:
    """Leave the delivery unsettled and stop the service with a non-zero exit status.

    For ``on_error=`` and ``on_decode_error=`` (rule 2.3).
    """
    return _FAIL_FAST


class Retry(Exception):  # noqa: N818 - reads as the order it is: `raise Retry(after=30)`
    """Raise it in a handler to retry: at once, or ``after`` a delay (rule 2.3)."""

    def __init__(self, after: Delay | None = None) -> None:
        self.outcome = retry() if after is None else retry_after(after)
        super().__init__(repr(self.outcome))


class Drop(Exception):  # noqa: N818 - reads as the order it is: `raise Drop()`
    """Raise it in a handler to drop the message (rule 2.3)."""

    outcome = _DROP
