"""Stopping: what runs ends, what waits goes back, whatever fails (rules 2.4, 7.3, 7.4)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from surestream import (
    Outcome,
    Phase,
    ack,
    retry,
)
from surestream.testing import paused_clock
from tests.in_process.core.service import Service, until
from tests.in_process.core.sources import CLAIMING, CORE, NATIVE, STREAM

pytestmark = pytest.mark.rule("7.3")


async def sleeps(order: float) -> None:
    await asyncio.sleep(order)


@pytest.mark.case("SD-02")
async def test_a_running_handler_ends_and_settles_and_nothing_new_starts(
    service: Service,
) -> None:
    source = service.on(sleeps)
    for order in (b"3", b"1", b"1"):
        service.bench.ready(source, order)
    with paused_clock() as clock:
        async with service.test() as tb:
            await tb.advance(1)
            began = clock.seconds
        assert 2 <= clock.seconds - began < 3

    tb.assert_settled(sleeps, "ack")
    assert service.bench.returned == [("2", 0.0, False), ("3", 0.0, False)]
    group = service.bench.group(source)
    assert [entry.count for entry in group.orphans] == [0, 0]


@pytest.mark.case("SD-06")
@pytest.mark.rule("2.4")
async def test_a_handler_that_never_returns_is_cut_off_at_the_time_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Service(shutdown_timeout=3)
    source = service.on(sleeps, workers=5)
    for order in (b"1e9", b"0.5", b"0.5", b"0.5", b"0.5"):
        service.bench.ready(source, order)
    with paused_clock() as clock:
        async with service.test() as tb:
            await tb.advance(0.1)
            began = clock.seconds
        assert 3 <= clock.seconds - began < 4

    assert [one.how for one in tb.settlements(sleeps)] == ["ack"] * 4
    assert service.bench.returned == [("1", 0.0, False)]
    assert service.bench.group(source).orphans[0].count == 0
    told = [one.getMessage() for one in caplog.records]
    assert any(
        line.startswith("orders/g (sleeps at tests/in_process/core/service.py:")
        and line.endswith("): still running at shutdown_timeout, cut off")
        for line in told
    )


@pytest.mark.case("WC-15")
@pytest.mark.rule("2.4")
@pytest.mark.parametrize("can", [STREAM, CLAIMING, NATIVE])
async def test_a_run_that_was_cut_off_is_no_attempt(can: Any) -> None:
    service = Service(shutdown_timeout=1)
    source = service.on(sleeps, can, max_attempts=3, dead_letter="dead")
    service.bench.ready(source, b"1e9")
    with paused_clock():
        for _ in range(5):
            async with service.test() as tb:
                await tb.advance(1)
                assert [call.attempt for call in tb.calls(sleeps)] == [1]

    assert service.bench.stored == []
    group = service.bench.group(source)
    assert [entry.count for entry in (*group.ready, *group.orphans)] == [0]


@pytest.mark.rule("2.4")
async def test_what_a_handler_decides_when_it_is_cut_off_counts(service: Service) -> None:
    async def cleans_up(order: int) -> Outcome:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
        return ack()

    source = service.on(cleans_up)
    service.bench.ready(source, b"1")
    async with service.test() as tb:
        await tb.advance(1)

    tb.assert_settled(cleans_up, "ack")
    assert service.bench.returned == []


@pytest.mark.rule("2.4")
async def test_a_handler_that_cannot_be_cancelled_does_not_hold_the_stop(
    service: Service,
) -> None:
    release = asyncio.Event()

    async def stubborn(order: int) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    source = service.on(stubborn)
    service.bench.ready(source, b"1")
    with paused_clock() as clock:
        run = service.app.new_run()
        await run.start()
        await clock.settle()
        stopping = asyncio.create_task(run.stop())
        await clock.pass_until(stopping)
        assert clock.seconds < 35
        assert len(service.bench.group(source).held) == 1
        release.set()
        await clock.settle()


@pytest.mark.rule("2.4", "5.7")
async def test_where_nothing_can_go_back_the_loss_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Service(shutdown_timeout=1)
    source = service.on(sleeps, CORE, max_attempts=2)
    for order in (b"1e9", b"1", b"1"):
        service.bench.ready(source, order)
    async with service.test() as tb:
        await tb.advance(1)

    assert "orders/g 1: cut off by the stop" in caplog.text
    assert "orders/g: 1 messages are lost" in caplog.text
    assert "orders/g: 2 messages are lost" in caplog.text


@pytest.mark.rule("7.4")
@pytest.mark.parametrize("by_key", [None, "k"])
async def test_what_cannot_go_back_is_handled_first(service: Service, by_key: str | None) -> None:
    source = service.on(sleeps, CORE, max_attempts=2, workers=2, by_key=by_key)
    for _ in range(10):
        service.bench.ready(source, b"1")
    async with service.test() as tb:
        await tb.advance(0.5)

    assert [one.how for one in tb.settlements(sleeps)] == ["ack"] * 10
    assert service.bench.returned == []


async def test_a_thread_that_will_not_end_stays_unsettled() -> None:
    service = Service(shutdown_timeout=0.05)
    release = threading.Event()

    def stuck(order: int) -> None:
        release.wait(20)

    source = service.on(stuck)
    service.bench.ready(source, b"1")
    run = service.app.new_run()
    await run.start()
    await until(lambda: run.threads_busy == 1)
    await run.stop()

    assert service.bench.returned == []
    assert len(service.bench.group(source).held) == 1
    release.set()
    await until(lambda: run.threads_busy == 0)
    assert service.bench.written == []


async def test_a_thread_that_ends_in_time_is_settled(service: Service) -> None:
    release = threading.Event()

    def slow(order: int) -> None:
        release.wait(20)

    source = service.on(slow)
    service.bench.ready(source, b"1")
    run = service.app.new_run()
    await run.start()
    await until(lambda: run.threads_busy == 1)
    stopping = asyncio.create_task(run.stop())
    await until(lambda: run.health.phase is Phase.STOPPING)
    release.set()
    await stopping

    assert [ids for _, ids in service.bench.written] == [["1"]]


@pytest.mark.case("WC-07")
@pytest.mark.rule("3.1")
@pytest.mark.parametrize("can", [STREAM, CORE])
async def test_the_count_travels_with_the_message_through_restarts(
    service: Service, can: Any
) -> None:
    attempts: list[int] = []
    stop = asyncio.Event()

    async def fails(order: int) -> Outcome:
        if len(attempts) == 2:
            stop.set()
            await asyncio.sleep(0)
        attempts.append(len(attempts) + 1)
        return retry()

    source = service.on(fails, can, max_attempts=5, dead_letter="dead")
    service.bench.ready(source, b"1")
    with paused_clock() as clock:
        run = service.app.new_run()
        await run.start()
        stopping = asyncio.create_task(_stop_when(stop, run))
        await clock.pass_until(stopping)
        assert attempts == [1, 2, 3]
        async with service.test() as tb:
            await tb.advance(10)
            assert [call.attempt for call in tb.calls(fails)] == [4, 5]
    assert len(service.bench.at("dead")) == 1


async def _stop_when(asked: asyncio.Event, run: Any) -> None:
    await asked.wait()
    await run.stop()
