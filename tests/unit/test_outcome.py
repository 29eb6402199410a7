"""What a handler can decide, and which numbers it may decide with."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.outcome import (
    DEFAULT_BACKOFF,
    Backoff,
    Drop,
    Kind,
    Outcome,
    Retry,
    ack,
    drop,
    fail_fast,
    retry,
    retry_after,
    seconds,
)

WRONG_TYPES = [None, "30", b"30", Decimal("1.5"), Fraction(3, 2), True, False, 1j, [30], object()]
WRONG_NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    -5,
    -0.001,
    timedelta(microseconds=-1),
    timedelta.min,
    10**400,
    -(10**400),
]


class LargestChance(random.Random):
    """Draws just below one each time."""

    def random(self) -> float:
        return math.nextafter(1.0, 0.0)


class SmallestChance(random.Random):
    """Draws zero each time."""

    def random(self) -> float:
        return 0.0


@pytest.mark.case("CK-07")
@pytest.mark.rule("2.1")
@pytest.mark.parametrize("value", WRONG_TYPES, ids=repr)
def test_a_delay_of_a_wrong_type_is_refused_where_it_is_built(value: object) -> None:
    for build in (retry_after, Retry) if value is not None else (retry_after,):
        with pytest.raises(TypeError, match="write seconds as a number, or a timedelta") as caught:
            build(value)

        assert repr(value) in str(caught.value)
        assert type(value).__name__ in str(caught.value)


@pytest.mark.case("CK-07", "CK-08")
@pytest.mark.rule("2.1")
@pytest.mark.parametrize("value", WRONG_NUMBERS, ids=lambda value: repr(value)[:20])
def test_a_delay_that_cannot_be_waited_is_refused_where_it_is_built(value: object) -> None:
    for build in (retry_after, Retry):
        with pytest.raises(ValueError, match="delay is"):
            build(value)


def test_a_refused_delay_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ValueError, match=r"^delay is -5: it must not be negative$"):
        retry_after(-5)
    with pytest.raises(ValueError, match=r"^delay is nan: it must be a finite number of seconds$"):
        retry_after(math.nan)
    with pytest.raises(ValueError, match=r"^delay is too large a number of seconds$"):
        retry_after(10**400)


@pytest.mark.case("CK-08")
@pytest.mark.rule("2.1")
@pytest.mark.parametrize("value", [0, 0.0, -0.0, timedelta(0)], ids=repr)
def test_a_delay_of_zero_is_retry(value: float | timedelta) -> None:
    assert retry_after(value) == retry()
    assert retry_after(value).kind is Kind.RETRY
    assert Retry(after=value).outcome == retry()


@pytest.mark.case("CK-08", "CK-09")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(microseconds=1), 1e-6),
        (timedelta(milliseconds=1500), 1.5),
        (1.5, 1.5),
        (2, 2.0),
        (0.0004, 0.0004),
    ],
    ids=repr,
)
def test_fractions_of_a_second_are_kept(value: float | timedelta, expected: float) -> None:
    outcome = retry_after(value)

    assert outcome.kind is Kind.RETRY_AFTER
    assert outcome.delay == expected


@pytest.mark.case("CK-05")
@pytest.mark.parametrize(
    "value",
    [timedelta(days=25), timedelta(days=365 * 300), timedelta.max, 1e18, 10**300],
    ids=lambda value: repr(value)[:30],
)
def test_a_delay_of_many_years_is_kept(value: float | timedelta) -> None:
    outcome = retry_after(value)

    assert outcome.kind is Kind.RETRY_AFTER
    assert outcome.delay == seconds(value) >= 25 * 86400


def test_outcomes_of_one_kind_are_equal_and_cannot_be_changed() -> None:
    assert ack() == ack() != drop()
    assert retry_after(30) == retry_after(timedelta(seconds=30)) != retry_after(31)
    assert fail_fast().kind is Kind.FAIL_FAST
    with pytest.raises(AttributeError):
        ack().kind = Kind.DROP  # type: ignore[misc]


def test_outcomes_read_as_they_are_written() -> None:
    shown = [repr(outcome) for outcome in (ack(), retry(), retry_after(30), drop(), fail_fast())]

    assert shown == ["ack()", "retry()", "retry_after(30)", "drop()", "fail_fast()"]
    assert repr(retry_after(Backoff(5))).startswith("retry_after(Backoff(first=5.0, ")


@pytest.mark.rule("2.3")
def test_raising_is_the_same_as_returning() -> None:
    backoff = Backoff(first=2)

    assert Retry().outcome == retry()
    assert Retry(after=30).outcome == retry_after(30)
    assert Retry(after=backoff).outcome == retry_after(backoff)
    assert Drop().outcome == drop()
    assert str(Retry(after=30)) == "retry_after(30)"


def test_a_backoff_stays_with_the_outcome_until_the_attempt_is_known() -> None:
    backoff = Backoff(first=2)

    outcome = retry_after(backoff)

    assert outcome == Outcome(Kind.RETRY_AFTER, backoff=backoff)


# ── Backoff ──────────────────────────────────────────────────────────────────


@pytest.mark.rule("2.3")
def test_the_default_waits_one_second_doubling_up_to_a_minute() -> None:
    waits = [DEFAULT_BACKOFF.delay(attempt, SmallestChance()) for attempt in range(1, 10)]

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_backoff_takes_timedeltas() -> None:
    backoff = Backoff(first=timedelta(milliseconds=500), limit=timedelta(seconds=3), jitter=0)

    assert [backoff.delay(attempt, random.Random(1)) for attempt in (1, 2, 3, 4, 5)] == [
        0.5,
        1.0,
        2.0,
        3.0,
        3.0,
    ]


def test_a_factor_of_one_waits_the_same_each_time() -> None:
    backoff = Backoff(first=3, factor=1, jitter=0)

    assert {backoff.delay(attempt, random.Random(1)) for attempt in (1, 7, 2**31)} == {3.0}


def test_the_first_attempt_and_anything_before_it_wait_alike() -> None:
    backoff = Backoff(first=3, jitter=0)

    assert backoff.delay(0, random.Random(1)) == backoff.delay(1, random.Random(1)) == 3.0


def test_a_backoff_of_zero_does_not_wait() -> None:
    assert Backoff(first=0).delay(9, random.Random(1)) == 0.0


def test_a_backoff_that_begins_at_its_limit_never_grows_nor_fails() -> None:
    backoff = Backoff(first=60, limit=60, jitter=0)

    assert {backoff.delay(attempt, random.Random(1)) for attempt in (1, 2000, 2**31)} == {60.0}


@given(
    first=st.floats(1e-6, 1e6),
    factor=st.floats(1, 100),
    growth=st.floats(1, 1e9),
    jitter=st.floats(0, 2),
    attempt=st.integers(1, 2**31 + 1),
    seed=st.integers(),
)
def test_a_wait_is_never_shorter_than_declared_nor_longer_than_limit_and_jitter(
    first: float, factor: float, growth: float, jitter: float, attempt: int, seed: int
) -> None:
    limit = first * growth
    backoff = Backoff(first=first, factor=factor, limit=limit, jitter=jitter)
    declared = Backoff(first=first, factor=factor, limit=limit, jitter=0)

    bare = declared.delay(attempt, SmallestChance())
    drawn = backoff.delay(attempt, random.Random(seed))
    longest = backoff.delay(attempt, LargestChance())

    assert min(first, limit) <= bare <= limit
    assert bare <= drawn <= longest <= limit * (1 + jitter)


@given(
    first=st.floats(0.001, 100),
    factor=st.floats(1, 10),
    growth=st.floats(1, 1e6),
    attempt=st.integers(1, 5000),
)
def test_waits_never_shrink_from_one_attempt_to_the_next(
    first: float, factor: float, growth: float, attempt: int
) -> None:
    backoff = Backoff(first=first, factor=factor, limit=first * growth, jitter=0)

    earlier, later = (backoff.delay(number, SmallestChance()) for number in (attempt, attempt + 1))

    assert earlier <= later


@pytest.mark.case("CK-07")
@pytest.mark.parametrize("name", ["first", "limit"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1, timedelta(seconds=-1), 10**400])
def test_a_backoff_with_a_duration_that_cannot_be_waited_is_refused(
    name: str, value: object
) -> None:
    with pytest.raises(ValueError, match=rf"^Backoff\.{name} is "):
        Backoff(**{name: value})


@pytest.mark.case("CK-07")
@pytest.mark.parametrize("name", ["first", "limit"])
@pytest.mark.parametrize("value", WRONG_TYPES, ids=repr)
def test_a_backoff_with_a_duration_of_a_wrong_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"^Backoff\.{name} is "):
        Backoff(**{name: value})


@pytest.mark.parametrize("factor", [math.nan, math.inf, 0.99, 0, -2])
def test_a_factor_that_does_not_grow_is_refused(factor: float) -> None:
    with pytest.raises(ValueError, match=r"^Backoff\.factor is .*: it must be a number of 1 or"):
        Backoff(factor=factor)


@pytest.mark.parametrize("jitter", [math.nan, math.inf, -0.1])
def test_a_jitter_that_would_shorten_a_wait_is_refused(jitter: float) -> None:
    with pytest.raises(ValueError, match=r"^Backoff\.jitter is .*: it must be 0 or more"):
        Backoff(jitter=jitter)


@pytest.mark.parametrize("name", ["factor", "jitter"])
@pytest.mark.parametrize("value", [None, "2", 1j, True], ids=repr)
def test_a_factor_or_jitter_of_a_wrong_type_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"^Backoff\.{name} is "):
        Backoff(**{name: value})
