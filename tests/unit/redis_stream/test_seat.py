"""Marks and entry ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.redis.seat import id_below, id_order, mark_text, read_mark
from surestream.redis.settlement import microseconds

NUMBERS = st.integers(0, 2**64 - 1)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_mark_is_read_as_it_was_written(key: str, group: str) -> None:
    """Rule 4.7."""
    try:
        mark = mark_text(key, group)
    except UnicodeEncodeError:
        return  # no key of a server

    assert mark.isascii()
    assert read_mark(mark) == (key, group)


@given(st.binary(max_size=30))
def test_any_bytes_are_a_mark_or_none(raw: bytes) -> None:
    named = read_mark(raw)

    assert named is None or len(named) == 2


@given(NUMBERS, NUMBERS)
def test_below_an_id_there_is_nothing_between(milliseconds: int, sequence: int) -> None:
    """Rule 6.6."""
    entry = b"%d-%d" % (milliseconds, sequence)

    below = id_order(id_below(entry))

    order = below[0] * 2**64 + below[1]
    assert order == max(milliseconds * 2**64 + sequence - 1, 0)


@pytest.mark.case("CK-09")
@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (1.1, 1_100_000),
        (0.1, 100_000),
        (0.3, 300_000),
        (1e-9, 1),
        (1.0000004, 1_000_001),
        (30, 30_000_000),
    ],
)
def test_delays_in_microseconds_are_never_less_than_asked(delay: float, expected: int) -> None:
    assert microseconds(delay) == expected


@given(st.integers(1, 10**12))
def test_whole_milliseconds_stay_whole(milliseconds: int) -> None:
    assert microseconds(milliseconds / 1000) == milliseconds * 1000
