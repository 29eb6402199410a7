"""``workers=n``, ``by_key=``, ``def`` handlers in threads, context variables (rule 7.6)."""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from surestream import Delivery, Outcome, ack, drop, retry
from surestream.contract import Abilities
from tests.in_process.core.service import Service
from tests.in_process.core.sources import CORE, STREAM, BenchSource, Place

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@pytest.mark.parametrize("workers", [1, 3])
async def test_so_many_messages_are_handled_at_a_time(service: Service, workers: int) -> None:
    running = most = 0

    async def slow(order: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    source = service.on(slow, workers=workers)
    for order in range(9):
        service.bench.ready(source, b"%d" % order)
    async with service.test() as tb:
        await tb.advance(9 / workers)

        assert most == workers
        tb.assert_settled(slow, *["ack"] * 9)
        assert [call.value for call in tb.calls(slow)] == list(range(9))


def of_customer(delivery: Delivery) -> object:
    return delivery.headers.get("customer")


@pytest.mark.parametrize("by_key", ["customer", "Customer", of_customer])
async def test_messages_of_one_key_run_one_after_another_and_others_beside_them(
    service: Service, by_key: Any
) -> None:
    running: dict[int, int] = {}
    order_of: dict[int, list[int]] = {}
    together = 0

    async def slow(order: int) -> None:
        nonlocal together
        key = order % 5
        running[key] = running.get(key, 0) + 1
        assert running[key] == 1
        order_of.setdefault(key, []).append(order)
        together = max(together, sum(running.values()))
        await asyncio.sleep(1)
        running[key] -= 1

    source = service.on(slow, workers=4, by_key=by_key)
    for order in range(40):
        sent = (("customer", b"c%d" % (order % 5)),)
        service.bench.ready(source, b"%d" % order, headers=sent)
    async with service.test() as tb:
        await tb.advance(41)

        tb.assert_settled(slow, *["ack"] * 40)
    assert together > 1
    assert all(orders == sorted(orders) for orders in order_of.values())


async def test_messages_without_a_key_are_spread_over_the_workers(service: Service) -> None:
    async def slow(order: int) -> None:
        await asyncio.sleep(1)

    source = service.on(slow, workers=4, by_key="customer")
    for order in range(8):
        service.bench.ready(source, b"%d" % order)
    async with service.test() as tb:
        await tb.advance(2)

        tb.assert_settled(slow, *["ack"] * 8)


async def test_a_key_function_that_raises_loses_nothing_and_is_told(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(delivery: Delivery) -> object:
        raise LookupError("no key")

    async def handle(order: int) -> None:
        pass

    service.on(handle, workers=2, by_key=broken)
    async with service.test() as tb:
        await tb.publish("orders", 1)

        tb.assert_settled(handle, "ack")
    assert "by_key raised for <BenchDelivery 1 of orders/g>: it goes to any lane" in caplog.text


async def test_a_key_that_is_no_text_is_a_key(service: Service) -> None:
    async def handle(order: int) -> None:
        pass

    service.on(handle, workers=2, by_key=lambda delivery: ("a", 1, "\ud800"))
    async with service.test() as tb:
        await tb.publish("orders", 1)

        tb.assert_settled(handle, "ack")


# -- threads ------------------------------------------------------------------------------------


async def test_def_handlers_run_in_threads_beside_each_other(service: Service) -> None:
    barrier = threading.Barrier(3, timeout=10)

    def blocks(order: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        barrier.wait()

    source = service.on(blocks, workers=3)
    for order in range(3):
        service.bench.ready(source, b"%d" % order)
    async with service.test() as tb:
        tb.assert_settled(blocks, *["ack"] * 3)


@pytest.mark.rule("2.3", "2.4")
@pytest.mark.parametrize(
    ("error", "how"),
    [
        (LookupError("no"), "drop"),
        (asyncio.CancelledError(), "drop"),
        (StopIteration(), "drop"),
        (GeneratorExit(), "drop"),
    ],
)
async def test_what_a_thread_raises_is_an_outcome(
    service: Service, error: BaseException, how: str
) -> None:
    def breaks(order: int) -> None:
        raise error

    service.on(breaks, on_error=lambda error, attempt: drop())
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.publish("orders", 2)

        tb.assert_settled(breaks, how, how)


@pytest.mark.rule("2.4")
async def test_an_order_to_stop_from_a_thread_stops_the_service(service: Service) -> None:
    def quits(order: int) -> None:
        raise SystemExit(4)

    source = service.on(quits)
    service.bench.ready(source, b"1")
    with pytest.raises(SystemExit) as stopped:
        async with service.test():
            pass

    assert stopped.value.code == 4
    assert len(service.bench.group(source).held) == 1


async def test_what_a_thread_decides_counts(service: Service) -> None:
    def decides(order: int) -> Outcome:
        return [ack(), drop(), retry()][order]

    service.on(decides, max_attempts=1)
    async with service.test() as tb:
        for order in range(3):
            await tb.publish("orders", order)

        tb.assert_settled(decides, "ack", "drop", "rejected")


# -- context variables --------------------------------------------------------------------------


@pytest.mark.rule("7.6")
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("suspends", [True, False])
async def test_handlers_do_not_see_each_others_context_variables(
    service: Service, workers: int, suspends: bool
) -> None:
    before: list[str] = []
    after: list[bool] = []

    async def sets(order: int) -> None:
        before.append(tenant.get())
        tenant.set(f"tenant {order}")
        if suspends:
            await asyncio.sleep(0.1)
            await asyncio.create_task(asyncio.sleep(0.1))
        after.append(tenant.get() == f"tenant {order}")

    tenant.set("the starter")
    source = service.on(sets, workers=workers)
    for order in range(12):
        service.bench.ready(source, b"%d" % order)
    async with service.test() as tb:
        await tb.advance(10)

    assert before == ["the starter"] * 12
    assert after == [True] * 12
    assert tenant.get() == "the starter"


@pytest.mark.rule("7.6")
async def test_a_token_can_be_reset_after_a_wait(service: Service) -> None:
    async def sets(order: int) -> None:
        token = tenant.set("mine")
        try:
            async with asyncio.timeout(5):
                await asyncio.sleep(1)
        finally:
            tenant.reset(token)

    service.on(sets, timeout=10)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(1)

        tb.assert_settled(sets, "ack")


@pytest.mark.rule("7.6")
async def test_threads_and_tasks_see_the_handlers_own_context(service: Service) -> None:
    seen: list[str] = []

    def threaded(order: int) -> None:
        seen.append(tenant.get())
        tenant.set("of the thread")

    async def spawns(order: int) -> None:
        tenant.set("of the handler")

        async def child() -> None:
            seen.append(tenant.get())

        async with asyncio.TaskGroup() as group:
            group.create_task(child())

    service.on(threaded)
    service.on(spawns, topic="other")
    async with service.test() as tb:
        for _ in range(2):
            await tb.publish("orders", 1)
            await tb.publish("other", 1)

    assert seen == ["nobody", "of the handler"] * 2


@pytest.mark.rule("7.6")
async def test_a_handler_that_raises_after_a_wait_keeps_the_context_in_its_clean_up(
    service: Service,
) -> None:
    seen: list[str] = []

    async def breaks(order: int) -> None:
        tenant.set("mine")
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(tenant.get())

    service.on(breaks, timeout=1, on_error=lambda error, attempt: drop())
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(2)

    assert seen == ["mine"]


# -- facts of the broker ------------------------------------------------------------------------


@pytest.mark.case("TH-03")
async def test_rivals_share_and_other_groups_get_everything(service: Service) -> None:
    async def first(order: int) -> None:
        pass

    async def rival(order: int) -> None:
        pass

    async def other(order: int, place: Delivery) -> None:
        assert place[Place] == "orders"

    service.on(first)
    service.on(rival)
    service.on(other, source=BenchSource("orders", group="audit"))
    async with service.test() as tb:
        for order in range(10):
            await tb.publish("orders", order)

        shared = itertools.chain(tb.calls(first), tb.calls(rival))
        assert sorted(call.value for call in shared) == list(range(10))
        assert [call.value for call in tb.calls(other)] == list(range(10))


@pytest.mark.parametrize("can", [STREAM, CORE])
async def test_memory_does_not_depend_on_the_backlog(service: Service, can: Abilities) -> None:
    async def slow(order: bytes) -> None:
        await asyncio.sleep(1)

    source = service.on(slow, can, max_attempts=2)
    for _ in range(2000):
        service.bench.ready(source, b"x")
    async with service.test() as tb:
        await tb.advance(5)

        assert len(service.bench.group(source).ready) >= 2000 - 2 * 128 - 6
        tb.run.context.servers.clear()
        service.bench.group(source).ready.clear()
        await tb.advance(300)


async def test_large_messages_are_read_fewer_at_a_time(service: Service) -> None:
    async def slow(order: bytes) -> None:
        await asyncio.sleep(1)

    source = service.on(slow)
    for _ in range(300):
        service.bench.ready(source, bytes(1024 * 1024))
    async with service.test() as tb:
        await tb.advance(140)

        assert service.bench.asked[0] == 128
        assert set(service.bench.asked[1:]) == {4}
        service.bench.group(source).ready.clear()
        await tb.advance(300)
