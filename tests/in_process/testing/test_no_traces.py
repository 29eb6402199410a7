"""TestApps beside each other, inside each other, and after their end (TH-07)."""

from __future__ import annotations

import asyncio
import socket
from datetime import timedelta
from typing import Any

import pytest

from surestream import App, DeclarationError, NotRunning
from surestream.memory import MemoryBroker
from surestream.testing import TestApp
from tests.in_process.testing.service import (
    BACKOFF,
    Processor,
    Refund,
    process_refund,
    service,
)

pytestmark = pytest.mark.case("TH-07")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise AssertionError("a test in process must not touch the network")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def state_of_loop() -> dict[str, object]:
    changing = {"_ready", "_scheduled", "_selector", "_timer_cancelled_count"}
    loop = asyncio.get_running_loop()
    return {name: value for name, value in vars(loop).items() if name not in changing}


@pytest.mark.usefixtures("no_network")
async def test_no_network_is_touched() -> None:
    async with TestApp(service(), state=Processor()) as tb:
        await tb.publish("refunds", Refund(1, "busy"))
        await tb.advance(4 * BACKOFF)

        tb.assert_called(process_refund, times=4)


async def test_the_loop_is_as_it_was() -> None:
    before, tasks = state_of_loop(), asyncio.all_tasks()

    async with TestApp(service(), state=Processor()) as tb:
        await tb.publish("refunds", Refund(1))

    assert state_of_loop() == before
    assert asyncio.all_tasks() == tasks


async def test_the_loop_is_as_it_was_after_an_error_inside() -> None:
    before, tasks = state_of_loop(), asyncio.all_tasks()

    async def test() -> None:
        async with TestApp(service(), state=Processor()) as tb:
            await tb.publish("refunds", Refund(1))
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        await test()

    assert state_of_loop() == before
    assert asyncio.all_tasks() == tasks


async def test_the_loop_is_as_it_was_after_a_refusal_at_start() -> None:
    before, tasks = state_of_loop(), asyncio.all_tasks()

    with pytest.raises(DeclarationError):
        await TestApp(service()).__aenter__()  # The state is missing.

    assert state_of_loop() == before
    assert asyncio.all_tasks() == tasks


async def test_time_goes_on_from_where_the_test_left_it() -> None:
    loop = asyncio.get_running_loop()
    async with TestApp(service(), state=Processor()) as tb:
        await tb.advance(timedelta(days=1))
        inside = loop.time()

    after = loop.time()
    await asyncio.sleep(0.001)

    assert inside <= after < loop.time() < inside + 5


async def test_the_app_runs_for_real_afterwards() -> None:
    app = service(lifespan=None)
    async with TestApp(app, state=Processor()) as tb:
        await tb.publish("refunds", Refund(1))
    broker = app.brokers[0]

    with pytest.raises(NotRunning):
        await broker.publish("refunds", Refund(2))
    run = app.new_run(state=Processor())
    await run.start()
    await broker.publish("refunds", Refund(2))
    await run.stop()

    tb.assert_called(process_refund)


async def test_an_app_that_runs_already_can_be_tested() -> None:
    processor = Processor()
    app = service()
    run = app.new_run(state=processor)
    await run.start()

    async with TestApp(app, state=Processor()) as tb:
        await tb.publish("refunds", Refund(1))
        tb.assert_called(process_refund)
        await run.publish(app.brokers[0], "refunds", Refund(2))
        await tb.settle()
        tb.assert_called(process_refund)

    assert processor.seen == [2]
    await run.stop()


async def test_two_tests_of_one_app_at_once_know_nothing_of_each_other() -> None:
    app = service()
    async with (
        TestApp(app, state=Processor()) as first,
        TestApp(app, state=Processor()) as second,
    ):
        await first.publish("refunds", Refund(1, "busy"))
        await second.advance(10)
        await second.publish("refunds", Refund(2))
        await first.advance(20)

        # They share the clock of the loop they run on, nothing else.
        assert [(call.value, call.at) for call in first.calls(process_refund)] == [
            (Refund(1, "busy"), 0.0),
            (Refund(1, "busy"), 30.0),
        ]
        assert [call.value for call in second.calls(process_refund)] == [Refund(2)]


async def test_tests_may_run_at_once_on_one_loop() -> None:
    async def one(number: int) -> list[float]:
        async with TestApp(service(), state=Processor()) as tb:
            await tb.publish("refunds", Refund(number, "busy"))
            await tb.advance(3 * BACKOFF)
            return [call.at for call in tb.calls(process_refund)]

    results = await asyncio.gather(*(one(number) for number in range(10)))

    assert results == [[0.0, 30.0, 60.0, 90.0]] * 10


async def test_a_test_inside_a_test() -> None:
    async with TestApp(service(), state=Processor()) as outer:
        await outer.publish("refunds", Refund(1, "busy"))
        async with TestApp(service(), state=Processor()) as inner:
            await inner.publish("refunds", Refund(2))
            await inner.advance(BACKOFF)
            assert inner.now == 30.0
            assert inner.calls(process_refund)[0].at == 0.0
        outer.assert_called(process_refund, times=2)
        await outer.advance(BACKOFF)
        outer.assert_called(process_refund, times=3)


async def test_loops_in_several_threads() -> None:
    app = service()

    def in_a_thread() -> list[float]:
        async def main() -> list[float]:
            async with TestApp(app, state=Processor()) as tb:
                await tb.publish("refunds", Refund(1, "busy"))
                await tb.advance(3 * BACKOFF)
                return [call.at for call in tb.calls(process_refund)]

        return asyncio.run(main())

    results = await asyncio.gather(*(asyncio.to_thread(in_a_thread) for _ in range(4)))

    assert results == [[0.0, 30.0, 60.0, 90.0]] * 4


async def test_a_test_that_is_cancelled_leaves_nothing() -> None:
    before = state_of_loop()
    entered = asyncio.Event()

    async def test() -> None:
        async with TestApp(service(), state=Processor()) as tb:
            entered.set()
            await tb.advance(timedelta(days=300))
            await asyncio.Event().wait()

    task = asyncio.create_task(test())
    await entered.wait()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert {k: v for k, v in state_of_loop().items() if k != "time"} == before


async def test_an_app_without_handlers() -> None:
    app = App("empty")
    app.add(MemoryBroker())

    async with TestApp(app) as tb:
        await tb.publish("nobody", b"hears")
        await tb.advance(1)

        tb.assert_published("nobody")
        tb.assert_nothing_waits()
