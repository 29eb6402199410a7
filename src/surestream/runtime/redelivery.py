"""The rules of redelivery as one pure function.

An outcome, what the mount declares, what the source can do and the counters give a plan. No
transport and no other part of the runtime decides what a retry means.
"""

from __future__ import annotations

from dataclasses import dataclass

from surestream.contract import Abilities, Counter, DelayMeans, RetryMeans
from surestream.message import Outgoing
from surestream.outcome import Kind

__all__ = [
    "Acknowledge",
    "Copy",
    "Counters",
    "DeadLetter",
    "Discard",
    "GiveBack",
    "Leave",
    "Park",
    "Plan",
    "Quarantine",
    "Reason",
    "Reply",
    "Terms",
    "brake",
    "count_attempt",
    "decide",
    "on_arrival",
    "spent",
]

BRAKE_FROM = 4
BRAKE_FIRST = 0.1
BRAKE_LIMIT = 1.0


@dataclass(frozen=True)
class Terms:
    """What the mount site declares about redelivery."""

    max_attempts: int | None = None
    dead_letter: str | None = None
    has_retry_to: bool = False


@dataclass(frozen=True)
class Counters:
    """Everything that is known about how often a message was tried.

    ``header``: attempts spent by the retry-count header. ``server``: the server's (lease's)
    count, this delivery included. ``promoted``: it came back out of the delay set, so both
    count (rule 3.1). ``died``: the attempts that its dead-letter details name, where it died at
    another address than the one it is read from now (rule 3.8). ``deaths``: how often it was
    dead-lettered by this very subscription before (rule 6.1). ``count_lost``: it came back
    without the count it left with (rule 6.1).
    """

    header: int = 0
    server: int = 1
    promoted: bool = False
    died: int = 0
    deaths: int = 0
    count_lost: bool = False


class Reason:
    """Why a message was given up; travels in the dead-letter details."""

    SPENT = "attempts-spent"
    CRASHED = "crashed"
    NO_CAP = "no-retries-declared"
    REFUSED = "copy-refused"
    REPLY_REFUSED = "reply-refused"


@dataclass(frozen=True)
class Acknowledge:
    """Settle: done."""


@dataclass(frozen=True)
class Discard:
    """Settle without a successor: dropped, rejected at the cap, or gone because the source has
    no way to give it again (``lost``)."""

    attempts_spent: bool = False
    lost: bool = False


@dataclass(frozen=True)
class GiveBack:
    """The broker hands the same message out again, after ``after`` seconds."""

    after: float = 0.0


@dataclass(frozen=True)
class Leave:
    """Leave it unacknowledged until the next session."""


@dataclass(frozen=True)
class Copy:
    """Publish a copy with ``count`` attempts spent, after ``after`` seconds of the runtime's
    timer; the original is settled after that, or first where ``settle_first`` (rule 5.7)."""

    count: int
    after: float = 0.0
    settle_first: bool = False


@dataclass(frozen=True)
class Park:
    """Have the broker store the message for ``after`` seconds, ``count`` attempts spent."""

    count: int
    after: float


@dataclass(frozen=True)
class DeadLetter:
    """Publish to the declared address with ``count`` attempts spent; ``after`` is the brake of
    a dead letter that is sent round and round (rule 6.1)."""

    count: int
    reason: str
    after: float = 0.0


@dataclass(frozen=True)
class Quarantine:
    """Store the undecodable message as it came in (rule 2.6)."""

    address: str


@dataclass(frozen=True)
class Reply:
    """Publish what the handler returned, then settle: done."""

    message: Outgoing


Plan = Acknowledge | Discard | GiveBack | Leave | Copy | Park | DeadLetter | Quarantine | Reply


def count_attempt(counters: Counters, counter: Counter) -> int:
    """The number of this delivery for the cap of its subscription (rules 3.1 and 3.8)."""
    if counter is Counter.SERVER:
        return counters.server + (counters.header if counters.promoted else 0)
    return max(counters.header - counters.died, 0) + 1


def spent(counters: Counters, counter: Counter) -> int:
    """Attempts spent once this delivery failed: what a copy or dead letter carries (rule 3.2)."""
    if counter is Counter.SERVER:
        return count_attempt(counters, counter)
    return counters.header + 1


def brake(rounds: int) -> float:
    """Seconds that round number ``rounds`` of one message has to wait (rule 6.1)."""
    if rounds < BRAKE_FROM:
        return 0.0
    return min(BRAKE_LIMIT, BRAKE_FIRST * 2.0 ** min(rounds - BRAKE_FROM, 10))


def on_arrival(terms: Terms, abilities: Abilities, counters: Counters) -> Plan | None:
    """The plan for a delivery whose attempts went in crashes, before any handler runs
    (rule 3.5); ``None`` where the handler shall run."""
    cap = terms.max_attempts
    if cap is None or counters.server <= 1:
        return None
    if abilities.counter is Counter.SERVER:
        crashed = count_attempt(counters, Counter.SERVER) > cap
    else:
        crashed = abilities.counts_crashes and counters.server > cap
    if not crashed:
        return None
    if terms.dead_letter is None:
        return Discard(attempts_spent=True)
    # What it spent before it died at another address stays counted (rule 3.8).
    count = cap + (counters.died if abilities.counter is Counter.HEADER else 0)
    return DeadLetter(count, Reason.CRASHED, after=brake(counters.deaths + 1))


def decide(
    kind: Kind, delay: float, terms: Terms, abilities: Abilities, counters: Counters
) -> Plan:
    """What happens to a delivery whose handler decided ``kind`` (``delay`` in seconds).

    The table of rule section 6, the cap of rule 3.3, the dead letter of 4.5, the brake of 6.1.
    """
    if kind is Kind.ACK:
        return Acknowledge()
    if kind is Kind.DROP:
        return Discard()
    attempt = count_attempt(counters, abilities.counter)
    count = spent(counters, abilities.counter)
    if terms.max_attempts is not None and attempt >= terms.max_attempts:
        if terms.dead_letter is None:
            return Discard(attempts_spent=True)
        return DeadLetter(count, Reason.SPENT, after=brake(counters.deaths + 1))
    if terms.max_attempts is None and terms.dead_letter is not None:
        return DeadLetter(count, Reason.NO_CAP, after=brake(counters.deaths + 1))
    wait = min(delay, abilities.max_delay) if kind is Kind.RETRY_AFTER else 0.0
    if wait <= 0:
        return _at_once(terms, abilities, counters, attempt, count)
    return _later(abilities, wait, count)


def _at_once(
    terms: Terms, abilities: Abilities, counters: Counters, attempt: int, count: int
) -> Plan:
    capped = terms.max_attempts is not None
    means = abilities.capped_retry if capped else abilities.retry
    # What is given back carries no count of its own: the server saw every hand-over.
    rounds = max(attempt, counters.server) if means is RetryMeans.GIVE_BACK else attempt
    pause = 0.0 if capped else brake(rounds)
    if counters.count_lost:
        pause = max(pause, BRAKE_FIRST)
    if means is RetryMeans.GIVE_BACK:
        if abilities.fixed_delay is not None:
            return GiveBack(abilities.fixed_delay)
        return GiveBack(pause)
    if means is RetryMeans.COPY:
        return Copy(count, pause, settle_first=pause > 0 and abilities.delay is DelayMeans.TIMER)
    if means is RetryMeans.LEAVE:
        return Leave()
    return Discard(lost=True)


def _later(abilities: Abilities, wait: float, count: int) -> Plan:
    if abilities.delay is DelayMeans.PARKED:
        return Park(count, wait)
    if abilities.delay is DelayMeans.NATIVE:
        return GiveBack(wait if abilities.fixed_delay is None else abilities.fixed_delay)
    return Copy(count, wait, settle_first=abilities.delay is DelayMeans.TIMER)
