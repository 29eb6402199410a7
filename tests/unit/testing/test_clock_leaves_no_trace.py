"""After the last one left, a loop is as it was, and goes on from where it stands (TH-07)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import uvloop

from surestream.clock import wall_time
from surestream.errors import DeclarationError
from surestream.testing import paused_clock

pytestmark = pytest.mark.case("TH-07")


def attributes() -> dict[str, object]:
    """What is set on the running loop itself, but for what changes as it runs."""
    changing = {"_ready", "_scheduled", "_selector", "_timer_cancelled_count"}
    loop = asyncio.get_running_loop()
    selector = vars(vars(loop)["_selector"])
    kept = {name: value for name, value in vars(loop).items() if name not in changing}
    return kept | {"select": selector.get("select")}


async def test_nothing_is_patched_afterwards() -> None:
    before = attributes()

    with paused_clock() as clock:
        inside = attributes()
        await clock.settle()

    assert inside != before
    assert attributes() == before


async def test_nothing_is_patched_after_an_error() -> None:
    before = attributes()

    with pytest.raises(RuntimeError, match="inside"), paused_clock():
        raise RuntimeError("inside")

    assert attributes() == before


async def test_a_loop_that_is_ahead_stays_ahead_and_goes_on() -> None:
    loop = asyncio.get_running_loop()
    before = attributes()
    with paused_clock() as clock:
        await clock.advance(timedelta(days=3))
        inside = loop.time()

    after = loop.time()
    await asyncio.sleep(0.01)

    assert inside <= after < inside + 1
    assert 0.01 <= loop.time() - after < 1
    # Nothing but the time itself differs.
    assert {k: v for k, v in attributes().items() if k != "time"} == before


async def test_timers_set_meanwhile_neither_all_fire_nor_hang() -> None:
    loop = asyncio.get_running_loop()
    fired: list[str] = []
    loop.call_later(3_600 * 24 + 0.02, fired.append, "set before")
    with paused_clock() as clock:
        await clock.advance(timedelta(days=1))
        soon = loop.call_later(0.02, fired.append, "soon")
        later = loop.call_later(30, fired.append, "later")

    at_once = list(fired)
    await asyncio.sleep(0.04)

    assert at_once == []
    assert sorted(fired) == ["set before", "soon"]
    assert 29 < later.when() - loop.time() < 30
    soon.cancel()
    later.cancel()


async def test_pausing_again_goes_on_from_there() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()

    for _ in range(50):
        with paused_clock() as clock:
            await clock.advance(10)

    assert 500 <= loop.time() - start < 501


async def test_nested_clocks_are_one() -> None:
    loop = asyncio.get_running_loop()
    with paused_clock() as outer:
        await outer.advance(10)
        with paused_clock() as inner:
            await inner.advance(5)
            assert inner is outer
        still = loop.time()
        await outer.settle(linger=0.01)
        assert loop.time() == still
        assert outer.seconds == 15.0


async def test_those_who_share_a_clock_may_leave_in_any_order() -> None:
    loop = asyncio.get_running_loop()
    first, second = paused_clock(), paused_clock()
    first.__enter__()
    clock = second.__enter__()
    first.__exit__(None, None, None)

    still = loop.time()
    await clock.settle(linger=0.01)

    assert loop.time() == still
    second.__exit__(None, None, None)
    await asyncio.sleep(0.001)
    assert loop.time() > still


async def test_two_loops_in_two_threads_have_two_clocks() -> None:
    def other_thread() -> tuple[float, float]:
        async def main() -> tuple[float, float]:
            with paused_clock() as clock:
                await clock.advance(7)
                return clock.seconds, wall_time()

        return asyncio.run(main())

    with paused_clock() as clock:
        result = await asyncio.to_thread(other_thread)
        await clock.advance(1)

        assert result == (7.0, wall_time() + 6)
        assert clock.seconds == 1.0


async def test_dates_follow_the_clock_and_are_the_same_in_every_run() -> None:
    with paused_clock() as clock:
        await clock.advance(30.5)
        date = datetime.fromtimestamp(wall_time(), UTC)

    assert date == datetime(2025, 1, 1, 0, 0, 30, 500_000, tzinfo=UTC)
    assert abs(wall_time() - time.time()) < 1


async def test_a_job_of_another_thread_that_outlives_the_clock() -> None:
    release = threading.Event()
    with paused_clock():
        job = asyncio.create_task(asyncio.to_thread(release.wait, 5))
        await asyncio.sleep(0)

    release.set()

    assert await job is True


@pytest.mark.rule("8.1")
def test_uvloop_is_refused_with_what_to_write() -> None:
    async def main() -> None:
        with pytest.raises(DeclarationError) as refused, paused_clock():
            pass
        assert "uvloop.Loop" in str(refused.value)
        assert "keeps a time of its own" in str(refused.value)
        assert "loop_factory=asyncio.SelectorEventLoop" in str(refused.value)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[float | None]]:
    """Begin to count the turns of the running loop: a list of how long it would wait in each."""

    def count() -> list[float | None]:
        waits: list[float | None] = []
        selector = vars(asyncio.get_running_loop())["_selector"]
        select = selector.select

        def counted(timeout: float | None) -> object:
            waits.append(timeout)
            return select(timeout)

        monkeypatch.setattr(selector, "select", counted)
        return waits

    return count


async def test_a_loop_whose_time_nobody_moves_does_not_turn(
    turns: Callable[[], list[float | None]],
) -> None:
    waits = turns()
    loop = asyncio.get_running_loop()
    with paused_clock():
        timer = loop.call_later(0.0001, lambda: None)
        await loop.run_in_executor(None, threading.Event().wait, 0.1)
        timer.cancel()

    assert len(waits) < 20


async def test_what_stood_before_the_selector_stands_there_again(
    turns: Callable[[], list[float | None]],
) -> None:
    waits = turns()
    with paused_clock() as clock:
        await clock.advance(1)
    waits.clear()

    await asyncio.sleep(0)

    assert waits


def test_a_jump_is_no_slow_callback_in_debug_mode(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        limit = loop.slow_callback_duration
        with paused_clock() as clock:
            await clock.advance(3600)
        assert loop.slow_callback_duration == limit

    asyncio.run(main(), debug=True)

    assert "took" not in caplog.text
