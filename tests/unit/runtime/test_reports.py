"""Log lines: bounded, in one line, safe against forged text (SE-03)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.runtime.reports import CUT, Limited, cut, span
from surestream.testing import PausedClock, paused_clock


@pytest.fixture
async def clock() -> Iterator[PausedClock]:
    with paused_clock() as clock:
        yield clock


@pytest.mark.case("SE-03")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("a\nb", "a\\nb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("ä", "\\xe4"),
        (b"\x00\n", "b'\\\\x00\\\\n'"),
        (7, "7"),
        ("", ""),
    ],
)
def test_untrusted_text_becomes_one_harmless_line(value: Any, shown: str) -> None:
    assert cut(value) == shown


@pytest.mark.case("SE-03")
@given(st.text() | st.binary())
def test_nothing_forges_a_line_or_grows_without_bound(value: str | bytes) -> None:
    shown = cut(value)

    assert shown.isprintable()
    assert len(shown) <= CUT


@pytest.mark.parametrize("value", ["x" * 1_000_000, "\n" * 150, b"x" * 1_000_000])
def test_what_is_cut_ends_with_an_ellipsis(value: Any) -> None:
    assert cut(value).endswith("…")


@pytest.mark.rule("5.2")
async def test_two_lines_a_second_pass_and_the_others_are_counted(
    clock: PausedClock, caplog: pytest.LogCaptureFixture
) -> None:
    limited = Limited()
    for number in range(1000):
        limited(logging.ERROR, "fault %d", number)
    await clock.advance(1)
    limited(logging.ERROR, "fault %d", 1000)

    assert [one.getMessage() for one in caplog.records] == [
        "fault 0",
        "fault 1",
        "fault 1000 (998 lines like this left out)",
    ]


@pytest.mark.parametrize(
    ("wait", "shown"),
    [
        (0, "0 ms"),
        (0.0004, "0 ms"),
        (0.25, "250 ms"),
        (0.999, "999 ms"),
        (1, "1 s"),
        (1.5, "1.5 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3600, "60 min"),
        (7200, "2 h"),
        (86_400, "24 h"),
        (2_160_000, "25 days"),
        (3.16224e9, "36,600 days"),
    ],
)
def test_durations_are_told_as_people_do(wait: float, shown: str) -> None:
    assert span(wait) == shown
