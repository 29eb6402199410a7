"""A successor that cannot be stored holds its original, within bounds (rules 5.1, 5.2)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from surestream import BrokerRefused, ConnectionLost, Outcome, ack, retry, retry_after
from surestream.contract import Abilities
from surestream.message import Outgoing
from tests.in_process.core.service import Service
from tests.in_process.core.sources import CLAIMING, CORE, PARKING, STREAM, BenchSource


async def again(order: int) -> Outcome:
    return retry() if order < 1000 else ack()


async def later(order: int) -> Outcome:
    return retry_after(5)


def held(service: Service, source: BenchSource) -> int:
    return len(service.bench.group(source).held)


@pytest.mark.rule("5.1", "5.2")
@pytest.mark.parametrize("can", [STREAM, PARKING])
@pytest.mark.parametrize("handler", [again, later])
@pytest.mark.parametrize("fault", [BrokerRefused("OOM: memory is full"), ConnectionLost("gone")])
async def test_the_original_is_held_until_its_successor_is_stored_and_no_handler_runs_again(
    service: Service, can: Abilities, handler: Any, fault: Exception
) -> None:
    source = service.on(handler, can, max_attempts=9)
    service.bench.ready(source, b"1")
    service.bench.refuses = lambda message: fault
    async with service.test() as tb:
        await tb.advance(59)
        tb.assert_called(handler, times=1)
        assert held(service, source) == 1
        assert tb.settlements(handler) == []

        service.bench.take_all()
        await tb.advance(6)

        how = "parked" if (can is PARKING and handler is later) else "copy"
        assert [one.how for one in tb.settlements(handler)][:1] == [how]
        assert tb.run.health.ready


@pytest.mark.case("HL-08")
@pytest.mark.rule("5.2")
async def test_a_dead_letter_address_that_is_down_is_asked_at_intervals(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[float] = []

    def refuse(message: Outgoing) -> Exception | None:
        if message.address != "orders.dlq":
            return None
        asked.append(asyncio.get_running_loop().time())
        return BrokerRefused("not now")

    service.bench.refuses = refuse
    source = service.on(again, max_attempts=1, dead_letter="orders.dlq")
    async with service.test() as tb:
        for order in range(50):
            await tb.publish("orders", order)
        await tb.advance(10)
        first = len(asked)
        await tb.advance(60)
        await tb.publish("orders", 1000)
        assert held(service, source) == 50
        assert [one.how for one in tb.settlements(again)] == ["ack"]

        # Each of them was tried a few times, then every five to six seconds.
        assert first <= 50 * 9
        assert len(asked) - first <= 50 * 13
        lines = [one for one in caplog.records if "held unsettled" in one.getMessage()]
        assert len(lines) <= 2 * 71
        assert lines[0].getMessage() == (
            f"orders/g 1 is held unsettled: not now; trying again in "
            f"{lines[0].getMessage().rpartition('in ')[2]}"
        )
        assert lines[-1].levelno == logging.ERROR

        service.bench.take_all()
        await tb.advance(6)
        assert len(service.bench.at("orders.dlq")) == 50
        assert held(service, source) == 0
        tb.assert_nothing_waits()


@pytest.mark.rule("5.2")
@pytest.mark.parametrize("can", [STREAM, CLAIMING])
async def test_at_the_bound_intake_pauses_and_health_says_why(
    service: Service, can: Abilities
) -> None:
    async def again_at_once(order: int) -> Outcome:
        return retry()

    source = service.on(
        again_at_once, can, max_attempts=1, dead_letter="orders.dlq", max_unsettled=3
    )
    service.bench.refuse("orders.dlq")
    for order in range(10):
        service.bench.ready(source, b"%d" % order)
    async with service.test() as tb:
        await tb.advance(30)

        tb.assert_called(again_at_once, times=3)
        assert str(tb.run.health) == ("degraded: orders/g: too many messages wait for a successor")

        service.bench.take_all()
        await tb.advance(10)
        assert tb.run.health.ready
        assert {call.value for call in tb.calls(again_at_once)} >= set(range(10))
    assert held(service, source) == 0


@pytest.mark.rule("5.2", "6.4")
async def test_while_intake_pauses_nothing_is_taken_over_either(service: Service) -> None:
    source = service.on(again, max_attempts=9, max_unsettled=2)
    service.bench.refuse("orders")
    for order in (b"1", b"2"):
        service.bench.ready(source, order)
    async with service.test() as tb:
        service.bench.orphan(source, b"1000")
        await tb.advance(30)
        tb.assert_called(again, times=2)

        service.bench.take_all()
        await tb.advance(10)
        assert 1000 in {call.value for call in tb.calls(again)}


@pytest.mark.rule("5.2")
async def test_bytes_are_bounded_too(service: Service) -> None:
    async def raw(order: bytes) -> Outcome:
        return retry()

    source = service.on(raw, max_attempts=1, dead_letter="orders.dlq")
    service.bench.refuse("orders.dlq")
    large = bytes(16 * 1024 * 1024)
    for _ in range(6):
        service.bench.ready(source, large)
    async with service.test() as tb:
        await tb.advance(1)

        tb.assert_called(raw, times=4)
        assert tb.run.health.degraded
        service.bench.take_all()
        await tb.advance(10)
        tb.assert_called(raw, times=6)


@pytest.mark.rule("5.2")
async def test_a_refusal_for_good_is_one_error_a_gauge_and_a_degraded_health(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    source = service.on(again, max_attempts=1, dead_letter="orders.dlq")
    service.bench.refuse("orders.dlq", "no such name", permanent=True)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.publish("orders", 1000)
        await tb.advance(3600)

        assert held(service, source) == 1
        assert str(tb.run.health) == "degraded: orders/g: 1 messages are refused"
        errors = [one for one in caplog.records if "held unsettled" in one.getMessage()]
        assert [one.levelname for one in errors] == ["ERROR"]

        service.bench.take_all()
        await tb.advance(61)
        assert tb.run.health.ready
        assert len(service.bench.at("orders.dlq")) == 1


@pytest.mark.rule("5.2", "4.3")
async def test_a_copy_without_a_destination_is_held_where_it_is_refused_for_good(
    service: Service,
) -> None:
    source = service.on(again, max_attempts=5)
    service.bench.ready(source, b"1")
    service.bench.refuse("orders", "too large", permanent=True)
    async with service.test() as tb:
        await tb.advance(600)

        tb.assert_called(again)
        assert held(service, source) == 1
        assert tb.run.health.degraded


@pytest.mark.rule("5.7")
async def test_a_copy_without_original_is_held_in_memory_while_it_cannot_be_stored(
    service: Service,
) -> None:
    service.on(later, CORE, max_attempts=2, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        service.bench.down = True
        await tb.advance(60)
        tb.assert_called(later)
        service.bench.down = False
        await tb.advance(6)

        tb.assert_called(later, times=2)


@pytest.mark.rule("5.2")
async def test_a_fault_of_our_own_is_told_and_tried_again(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    source = service.on(again, max_attempts=1, dead_letter="orders.dlq")
    service.bench.refuses = lambda message: (
        ZeroDivisionError("a bug") if message.address == "orders.dlq" else None
    )
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(5)
        assert held(service, source) == 1
        assert "ZeroDivisionError: a bug" in caplog.text
        lines = [one for one in caplog.records if one.levelno >= logging.ERROR]
        assert len(lines) <= 2 * 6
        service.bench.take_all()
        await tb.advance(6)

        tb.assert_settled(again, "dead letter")


@pytest.mark.rule("5.4")
async def test_a_worker_that_was_overtaken_stores_nothing_and_may_acknowledge(
    service: Service,
) -> None:
    release = asyncio.Event()

    async def slow(order: int) -> Outcome:
        await release.wait()
        return retry() if order else ack()

    source = service.on(slow, workers=2, max_attempts=9)
    async with service.test() as tb:
        await tb.publish("orders", 0)
        await tb.publish("orders", 1)
        for entry in list(service.bench.group(source).held):
            entry.holder = None  # another took it over
        release.set()
        await tb.settle()

        assert {one.how for one in tb.settlements(slow)} == {"ack", "overtaken"}
        assert [one.stored.name for one in tb.settlements(slow) if one.stored] == ["OVERTAKEN"]
    assert len(service.bench.stored) == 2
