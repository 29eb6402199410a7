"""`decide`, `on_arrival` and `count_attempt` against the rules: every row of section 6, every
outcome, every declaration, all counters."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surestream.outcome import Kind
from surestream.runtime.redelivery import Counters, count_attempt, decide, on_arrival
from tests.unit.redelivery.model import (
    Case,
    attempt_of,
    expected_on_arrival,
    expected_plan,
)
from tests.unit.redelivery.rows import MIN_IDLE, ROWS, Row

CAPS = (None, 1, 2, 5, 2**31)
KINDS = (Kind.ACK, Kind.RETRY, Kind.RETRY_AFTER, Kind.DROP)
YEARS = 366 * 86400.0

counts = st.one_of(st.integers(0, 12), st.sampled_from([2**31 - 2, 2**31 - 1, 2**31]))
delays = st.one_of(
    st.just(0.0),
    st.floats(1e-9, MIN_IDLE * 4),
    st.floats(YEARS, 1e300),
)


@st.composite
def counters(draw: st.DrawFn) -> Counters:
    """What headers and server may say. Details that name more attempts than the header are not
    believed where they are read (3.8, `test_counters.py`)."""
    header = draw(counts)
    return Counters(
        header=header,
        server=max(draw(counts), 1),
        promoted=draw(st.booleans()),
        died=draw(st.one_of(st.just(0), st.integers(0, header))),
        deaths=draw(st.integers(0, 12)),
        count_lost=draw(st.booleans()),
    )


cases = st.builds(
    Case,
    row=st.sampled_from(ROWS),
    kind=st.sampled_from(KINDS),
    delay=delays,
    cap=st.one_of(st.sampled_from(CAPS), st.integers(1, 12)),
    dead_letter=st.booleans(),
    counters=counters(),
)


@pytest.mark.rule("3.1", "3.3", "3.4", "4.5", "6.1")
@given(case=cases)
@settings(max_examples=1500)
def test_decide_does_what_the_rules_ask(case: Case) -> None:
    plan = decide(case.kind, case.delay, case.terms, case.row.abilities, case.counters)

    assert plan == expected_plan(case)


@pytest.mark.rule("3.5")
@given(case=cases)
@settings(max_examples=1500)
def test_arrival_buries_exactly_what_was_spent_in_crashes(case: Case) -> None:
    plan = on_arrival(case.terms, case.row.abilities, case.counters)

    assert plan == expected_on_arrival(case)


@pytest.mark.rule("3.1", "3.8")
@given(case=cases)
@settings(max_examples=800)
def test_attempts_are_counted_as_the_rules_say(case: Case) -> None:
    attempt = count_attempt(case.counters, case.row.abilities.counter)

    assert attempt == attempt_of(case)
    assert attempt >= 1


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_combination_near_the_caps(row: Row) -> None:
    """The grid that random search could miss: all counts around all small caps."""
    wrong: list[str] = []
    for kind, delay, cap, dead, header, server in itertools.product(
        KINDS, (0.0, 0.05, 30.0, 300.0), CAPS, (False, True), range(7), range(1, 8)
    ):
        case = Case(row, kind, delay, cap, dead, Counters(header=header, server=server))
        plan = decide(kind, delay, case.terms, row.abilities, case.counters)
        if plan != expected_plan(case):
            wrong.append(f"{case}: {plan} instead of {expected_plan(case)}")
        arrival = on_arrival(case.terms, row.abilities, case.counters)
        if arrival != expected_on_arrival(case):
            wrong.append(f"{case}: {arrival} instead of {expected_on_arrival(case)}")

    assert not wrong, f"{len(wrong)} differ, such as {wrong[0]}"
