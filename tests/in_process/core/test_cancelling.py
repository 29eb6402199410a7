"""Cancellation that is no failure, cancellation that is one, orders to stop (rule 2.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from surestream import Attempt, Outcome, ServiceFailed, ack, drop
from tests.in_process.core.service import Service, until

pytestmark = pytest.mark.rule("2.4")


class BusyError(Exception):
    pass


def raising(error: BaseException) -> Callable[..., Any]:
    async def handle(order: int) -> None:
        raise error

    return handle


async def test_a_cancelled_error_of_the_handlers_own_is_an_exception_like_others(
    service: Service,
) -> None:
    async def handle(order: int, attempt: Attempt) -> None:
        if attempt.number == 1:
            raise asyncio.CancelledError
        if attempt.number == 2:
            await asyncio.sleep(1)
            raise asyncio.CancelledError

    service.on(handle, max_attempts=3)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(60)
        await tb.publish("orders", 2)
        await tb.advance(60)

        tb.assert_settled(handle, "copy", "copy", "ack", "copy", "copy", "ack")


async def test_the_end_of_a_task_that_a_handler_awaits_is_an_exception_like_others(
    service: Service,
) -> None:
    async def handle(order: int) -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    service.on(handle, on_error={asyncio.CancelledError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.publish("orders", 2)

        tb.assert_settled(handle, "drop", "drop")


@pytest.mark.parametrize("when", ["awaits", "returns", "raises", "drops", "sleeps first"])
@pytest.mark.parametrize("timeout", [None, 60])
async def test_a_handler_that_cancels_its_own_task_does_not_end_the_worker(
    service: Service, when: str, timeout: float | None
) -> None:
    async def handle(order: int) -> Outcome:
        if order == 1:
            if when == "sleeps first":
                await asyncio.sleep(1)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if when == "raises":
                raise BusyError
            if when in ("awaits", "sleeps first"):
                await asyncio.sleep(1)
            if when == "drops":
                return drop()
        else:
            await asyncio.sleep(1)
        return ack()

    service.on(handle, on_error={BusyError: drop()}, timeout=timeout, max_attempts=5)
    async with service.test() as tb:
        for order in range(1, 5):
            await tb.publish("orders", order)
        await tb.advance(600)
        await tb.publish("orders", 9)
        await tb.advance(10)

        handled = [call.value for call in tb.calls(handle) if repr(call.outcome) == "ack()"]
        assert {2, 3, 4, 9} <= set(handled)
        assert tb.run.health.ready


async def test_a_cancelled_error_is_no_end_where_the_starting_task_is_gone(
    service: Service,
) -> None:
    """A fixture starts the service in a task that ends at once."""

    async def handle(order: int) -> None:
        if order == 1:
            raise asyncio.CancelledError

    service.on(handle, on_error={asyncio.CancelledError: drop()})
    run = service.app.new_run(in_process=True)
    await asyncio.create_task(run.start())

    await run.publish(service.broker, "orders", 1)
    await run.publish(service.broker, "orders", 2)
    await until(lambda: [ids for _, ids in service.bench.written] == [["1"], ["2"]])
    await asyncio.create_task(run.stop())


@pytest.mark.parametrize("order_to_stop", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("suspends", [True, False])
async def test_an_order_to_stop_the_process_stops_the_service_with_it(
    service: Service, order_to_stop: BaseException, suspends: bool
) -> None:
    async def handle(order: int) -> None:
        if order == 1:
            return
        if suspends:
            await asyncio.sleep(0)
        raise order_to_stop

    source = service.on(handle)
    for order in (b"1", b"2", b"3"):
        service.bench.ready(source, order)

    with pytest.raises(type(order_to_stop)) as stopped:
        async with service.test() as tb:
            pass

    assert stopped.value is order_to_stop
    tb.assert_settled(handle, "ack")
    assert [entry.id for entry in service.bench.group(source).held] == ["2"]
    assert service.bench.returned == [("3", 0.0, False)]


def worker_of(service: Service) -> asyncio.Task[object]:
    (worker,) = (task for task in asyncio.all_tasks() if "orders/g worker" in task.get_name())
    return worker


async def test_a_worker_that_is_cancelled_while_the_service_runs_goes_on(
    service: Service,
) -> None:
    async def handle(order: int) -> None:
        await asyncio.sleep(order)

    service.on(handle, on_error={asyncio.CancelledError: drop()})
    async with service.test() as tb:
        worker_of(service).cancel()
        await tb.publish("orders", 1)
        worker_of(service).cancel()
        await tb.publish("orders", 0)

        tb.assert_settled(handle, "drop", "ack")


@pytest.mark.rule("7.5")
async def test_a_worker_that_is_cancelled_when_nobody_runs_the_service_ends_it_loudly(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """As the end of ``asyncio.run`` does; it must not go on for ever, nor be silently dead."""
    service.on(raising(BusyError()))
    run = service.app.new_run(in_process=True)
    await asyncio.create_task(run.start())

    worker_of(service).cancel()
    await asyncio.wait([worker_of(service)])
    await run.until_asked()
    with pytest.raises(ServiceFailed, match="orders/g worker 0 was cancelled from outside"):
        await run.stop()

    assert "shop/1.2.0: stopping: SureStreamError" in caplog.text
