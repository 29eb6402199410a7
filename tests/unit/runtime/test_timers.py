"""Delays that wait in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.runtime.delays import Timers
from surestream.testing import PausedClock, paused_clock


@pytest.fixture
async def clock() -> Iterator[PausedClock]:
    with paused_clock() as clock:
        yield clock


async def test_entries_ring_when_they_are_due_in_order(clock: PausedClock) -> None:
    rung: list[tuple[str, float]] = []
    timers: Timers[str] = Timers(lambda entry: rung.append((entry, clock.seconds)))
    for entry, wait in (("late", 5.0), ("soon", 1.0), ("too", 1.0), ("now", 0.0)):
        timers.add(wait, entry)
    assert len(timers) == 4

    await clock.advance(10)

    assert rung == [("now", 0.0), ("soon", 1.0), ("too", 1.0), ("late", 5.0)]
    assert len(timers) == 0


async def test_an_earlier_entry_moves_the_alarm(clock: PausedClock) -> None:
    rung: list[float] = []
    timers: Timers[int] = Timers(lambda entry: rung.append(clock.seconds))
    timers.add(100, 1)
    await clock.advance(10)
    timers.add(1, 2)

    await clock.advance(1)

    assert rung == [11.0]


async def test_a_wait_of_many_years_sets_no_long_timer(clock: PausedClock) -> None:
    timers: Timers[int] = Timers(lambda entry: None)
    timers.add(1e18, 1)

    handles = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    assert max(handle.when() - clock._tell() for handle in handles) <= 86_400


async def test_taking_all_leaves_nothing_and_tells_what_is_left_to_wait(
    clock: PausedClock,
) -> None:
    timers: Timers[str] = Timers(lambda entry: None)
    timers.add(30, "second")
    timers.add(20, "first")
    await clock.advance(5)

    taken = timers.take_all()

    assert [(round(wait, 6), entry) for wait, entry in taken] == [(15, "first"), (25, "second")]
    assert list(timers) == []
    await clock.advance(100)


async def test_what_is_rung_may_add_again(clock: PausedClock) -> None:
    rung: list[float] = []

    def again(entry: int) -> None:
        rung.append(clock.seconds)
        if entry:
            timers.add(1, entry - 1)

    timers: Timers[int] = Timers(again)
    timers.add(1, 3)

    await clock.advance(10)

    assert rung == [1, 2, 3, 4]


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_nothing_rings_early_and_everything_rings(waits: list[float]) -> None:
    async def run() -> None:
        with paused_clock() as clock:
            rung: list[tuple[float, float]] = []
            timers: Timers[float] = Timers(lambda wait: rung.append((wait, clock.seconds)))
            for wait in waits:
                timers.add(wait, wait)
            await clock.advance(1e6 + 1)
            assert sorted(wait for wait, _ in rung) == sorted(waits)
            assert all(at >= wait - 2e-6 for wait, at in rung)

    asyncio.run(run())
