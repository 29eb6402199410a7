"""What the rules ask for, worked out from their text: sections 2, 3, 4.5, 5.6, 5.7 and 6.

Deliberately slow and literal, one branch per sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from surestream.outcome import Kind
from surestream.runtime.redelivery import (
    Acknowledge,
    Copy,
    Counters,
    DeadLetter,
    Discard,
    GiveBack,
    Leave,
    Park,
    Plan,
    Reason,
    Terms,
)
from tests.unit.redelivery.rows import Row

BRAKE_OF_ROUND = {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.1, 5: 0.2, 6: 0.4, 7: 0.8}
"""6.1: from the fourth round on, 100 ms, doubling; 1 s from then on."""


@dataclass(frozen=True)
class Case:
    """One delivery: where, what was declared, what is known of it, what the handler decided."""

    row: Row
    kind: Kind
    delay: float
    cap: int | None
    dead_letter: bool
    counters: Counters

    @property
    def terms(self) -> Terms:
        return Terms(self.cap, "dead" if self.dead_letter else None)


def brake_of(rounds: int) -> float:
    return BRAKE_OF_ROUND.get(rounds, 1.0)


def attempt_of(case: Case) -> int:
    """3.1 and 3.8: the number of this delivery."""
    known = case.counters
    if case.row.counts == "server":
        if known.promoted:
            return known.header + known.server
        return known.server
    return known.header - known.died + 1


def spent_of(case: Case) -> int:
    """3.2 and 3.8: the attempts spent that a copy or a dead letter carries."""
    if case.row.counts == "server":
        return attempt_of(case)
    return case.counters.header + 1


def rounds_of(case: Case) -> int:
    """6.1: which round of this message the retry that was just asked for begins."""
    if case.row.counts == "header" and case.row.uncapped == "same message":
        # No copy is made that could carry the count on; the lease sees each hand-over.
        return max(attempt_of(case), case.counters.server)
    return attempt_of(case)


def expected_plan(case: Case) -> Plan:
    """What happens once the handler has decided."""
    if case.kind is Kind.ACK:
        return Acknowledge()
    if case.kind is Kind.DROP:
        return Discard()
    again_after_death = brake_of(case.counters.deaths + 1)
    if case.cap is not None and attempt_of(case) >= case.cap:
        if case.dead_letter:
            return DeadLetter(spent_of(case), Reason.SPENT, again_after_death)
        return Discard(attempts_spent=True)  # 3.4
    if case.cap is None and case.dead_letter:  # 3.4
        return DeadLetter(spent_of(case), Reason.NO_CAP, again_after_death)
    if case.kind is Kind.RETRY_AFTER and case.delay > 0:  # 2.1: zero means retry()
        return _later(case)
    return _at_once(case)


def _later(case: Case) -> Plan:
    wait = min(case.delay, case.row.abilities.max_delay)  # 2.1
    match case.row.later:
        case "timer holding":
            return Copy(spent_of(case), wait, settle_first=False)
        case "timer":  # 5.7 and 5.6: nothing can be held back, or no longer
            return Copy(spent_of(case), wait, settle_first=True)
        case "stored delay":
            return Park(spent_of(case), wait)
        case "same message":
            return GiveBack(wait)
        case "min_idle":  # shorter is rounded up, longer is cut down
            fixed = case.row.abilities.fixed_delay
            assert fixed is not None
            return GiveBack(fixed)


def _at_once(case: Case) -> Plan:
    pause = brake_of(rounds_of(case)) if case.cap is None else 0.0
    if case.counters.count_lost:
        pause = max(pause, brake_of(4))
    match case.row.capped if case.cap is not None else case.row.uncapped:
        case "copy":
            holds = case.row.later in ("timer holding", "stored delay")
            return Copy(spent_of(case), pause, settle_first=pause > 0 and not holds)
        case "same message":
            return GiveBack(pause)
        case "same message after min_idle":
            fixed = case.row.abilities.fixed_delay
            assert fixed is not None
            return GiveBack(fixed)
        case "next session":
            return Leave()
        case "gone":
            return Discard(lost=True)


def expected_on_arrival(case: Case) -> Plan | None:
    """3.5: what has spent its attempts in crashes never reaches the handler."""
    if case.cap is None or not case.row.tells_crashes or case.counters.server <= 1:
        return None
    tries = attempt_of(case) if case.row.counts == "server" else case.counters.server
    if tries <= case.cap:
        return None
    if not case.dead_letter:
        return Discard(attempts_spent=True)
    # Rule 3.8: its own dead letter keeps raising the header that it came with.
    before = case.counters.died if case.row.counts == "header" else 0
    return DeadLetter(case.cap + before, Reason.CRASHED, brake_of(case.counters.deaths + 1))
