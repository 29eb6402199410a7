"""What never comes to rest ends in an error that says what it was."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading

import pytest

from surestream.testing import NotSettled, paused_clock
from surestream.testing import clock as clock_module


async def runs_for_ever() -> None:
    for _ in itertools.count():
        await asyncio.sleep(0)


async def ticks_for_ever() -> None:
    for _ in itertools.count():
        await asyncio.sleep(0.000_01)


async def test_a_task_that_never_rests_is_named() -> None:
    task = asyncio.create_task(runs_for_ever())

    with paused_clock() as clock:
        with pytest.raises(NotSettled) as error:
            await clock.settle(patience=0.05)
        task.cancel()
        await clock.settle()

    assert "never comes to rest at +0:00:00" in str(error.value)
    assert "runs_for_ever" in str(error.value)
    assert "test_not_settled.py" in str(error.value)


async def test_a_callback_that_sets_itself_again_and_again_is_named() -> None:
    loop = asyncio.get_running_loop()
    going = True

    def again() -> None:
        if going:
            loop.call_soon(again)

    again()

    with paused_clock() as clock, pytest.raises(NotSettled, match="again"):
        await clock.settle(patience=0.05)
    going = False


async def test_time_that_gets_nowhere_is_told_with_what_ran() -> None:
    task = asyncio.create_task(ticks_for_ever())

    with paused_clock() as clock:
        with pytest.raises(NotSettled, match="ticks_for_ever"):
            await clock.advance(1_000_000, patience=0.05)
        reached = clock.seconds
        task.cancel()
        await clock.settle()

    assert 0 < reached < 1_000_000


async def test_a_thread_that_does_not_end_is_named() -> None:
    release = threading.Event()

    def stuck_handler() -> None:
        release.wait(5)

    with paused_clock() as clock:
        task = asyncio.create_task(asyncio.to_thread(stuck_handler))
        with pytest.raises(NotSettled, match=r"threads are still under way.*stuck_handler"):
            await clock.settle(patience=0.05)
        release.set()
        await clock.settle()

    assert task.done()


async def test_waiting_for_what_never_comes_names_who_waits() -> None:
    nothing = asyncio.get_running_loop().create_future()

    async def waits_for_nothing() -> None:
        await nothing

    with paused_clock() as clock:
        task = asyncio.create_task(waits_for_nothing())
        with pytest.raises(NotSettled, match="no timer is set") as error:
            await clock.pass_until(task, patience=0.05)
        task.cancel()
        await clock.settle()

    assert "waits_for_nothing" in str(error.value)


async def test_others_who_wait_are_not_failed_with_the_impatient() -> None:
    release = threading.Event()

    with paused_clock() as clock:
        thread = asyncio.create_task(asyncio.to_thread(release.wait, 5))
        patient = asyncio.create_task(clock.settle(patience=5))
        with pytest.raises(NotSettled):
            await clock.settle(patience=0.05)
        release.set()
        await patient

    assert thread.done()


async def test_a_test_that_sleeps_by_itself_is_told_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_module, "FORGOTTEN", 0.01)

    async def sleeps() -> None:
        await asyncio.sleep(0.02)

    with paused_clock() as clock, caplog.at_level(logging.WARNING, "surestream.testing"):
        task = asyncio.create_task(sleeps())
        await asyncio.sleep(0)
        # A future that the world outside completes: the loop waits in real time.
        woken = asyncio.get_running_loop().create_future()
        timer = threading.Timer(
            0.1, lambda: woken.get_loop().call_soon_threadsafe(woken.set_result, None)
        )
        timer.start()
        await woken
        task.cancel()
        await clock.settle()
    timer.join()

    assert len(caplog.records) == 1
    assert "await tb.advance(...)" in caplog.text
    assert "sleeps at" in caplog.text
