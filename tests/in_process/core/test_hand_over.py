"""Delays that wait in memory outlive a graceful stop (rule 5.8)."""

from __future__ import annotations

import dataclasses
import gc
import logging
from typing import Any

import pytest

from surestream import Delivery, Outcome, ack, retry_after
from surestream.clock import wall_time
from surestream.message import DEAD_PREFIX, NOT_BEFORE_HEADER, RETRY_COUNT_HEADER, Outgoing
from surestream.testing import paused_clock
from tests.in_process.core.bench import BenchDelivery
from tests.in_process.core.service import Service, headers
from tests.in_process.core.sources import CORE, NATIVE, STREAM, BenchSource

pytestmark = pytest.mark.rule("5.8")

HELD = dataclasses.replace(STREAM, recovers=False, lease=None)
COUNT = RETRY_COUNT_HEADER


async def later(order: int) -> Outcome:
    return retry_after(60)


def due(message: Outgoing) -> float:
    """Seconds from now until a handed-over copy is due."""
    return int(headers(message)[NOT_BEFORE_HEADER]) / 1000 - wall_time()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


@pytest.mark.case("SD-11", "WC-07")
@pytest.mark.rule("3.1", "5.5")
async def test_a_delay_is_handed_over_and_the_next_process_waits_for_the_rest(
    service: Service, log: pytest.LogCaptureFixture
) -> None:
    source = service.on(later, HELD, max_attempts=3, dead_letter="dead")
    with paused_clock() as clock:
        async with service.test() as tb:
            await tb.publish("orders", 1)
            await tb.advance(20)
            began = clock.seconds
        assert clock.seconds - began < 1
        (_, copy) = service.bench.stored
        assert (copy.address, copy.payload, headers(copy)[COUNT]) == ("orders", b"1", "1")
        assert 40 <= due(copy) < 40.01
        assert service.bench.group(source).held == {}
        assert "orders/g: of the delays that waited in memory 1 were handed over" in log.text

        async with service.test() as tb:
            tb.assert_called(later, times=0)
            (parked,) = tb.parked()
            assert parked.how == "hand-over"
            await tb.advance(39.9)
            tb.assert_called(later, times=0)
            await tb.advance(0.2)
            (call,) = tb.calls(later)
            assert (call.attempt, call.headers[COUNT]) == (2, "1")
            await tb.advance(60)

            assert [call.attempt for call in tb.calls(later)] == [2, 3]
            tb.assert_nothing_waits()
    (letter,) = service.bench.at("dead")
    assert headers(letter)[COUNT] == "3"
    assert NOT_BEFORE_HEADER not in headers(letter)


async def test_a_second_stop_before_it_is_due_spends_nothing(service: Service) -> None:
    source = service.on(later, HELD, max_attempts=2)
    with paused_clock():
        async with service.test() as tb:
            await tb.publish("orders", 1)
        for _ in range(5):
            async with service.test() as tb:
                await tb.advance(5)
                tb.assert_called(later, times=0)
        assert [entry.count for entry in service.bench.group(source).ready] == [0]
        assert len(service.bench.stored) == 2
        async with service.test() as tb:
            await tb.advance(60)
            assert [call.attempt for call in tb.calls(later)] == [2]


@pytest.mark.parametrize(
    ("header", "waits"),
    [
        pytest.param(b"%d", True, id="in a minute"),
        pytest.param(b"-%d", False, id="negative"),
        pytest.param(b"soon", False, id="no number"),
        pytest.param(b"", False, id="empty"),
        pytest.param(b"9" * 5000, False, id="5 kB of digits"),
        pytest.param(b"0", False, id="long ago"),
    ],
)
async def test_only_a_date_is_believed(service: Service, header: bytes, waits: bool) -> None:
    source = service.on(later, HELD, max_attempts=2)
    with paused_clock():
        if b"%d" in header:
            header = header % int((wall_time() + 60) * 1000)
        async with service.test() as tb:
            service.bench.ready(source, b"1", headers=((NOT_BEFORE_HEADER, header),))
            await tb.settle()

            tb.assert_called(later, times=0 if waits else 1)


@pytest.mark.parametrize(("hours", "called"), [(23.9, 0), (24.1, 1), (24 * 365, 1)])
async def test_more_than_a_day_ahead_is_not_believed(
    service: Service, hours: float, called: int
) -> None:
    source = service.on(later, HELD, max_attempts=2)
    with paused_clock():
        date = b"%d" % int((wall_time() + hours * 3600) * 1000)
        async with service.test() as tb:
            service.bench.ready(source, b"1", headers=((NOT_BEFORE_HEADER, date),))
            await tb.settle()
            tb.assert_called(later, times=called)


async def test_a_delay_of_days_is_handed_over_for_as_long_as_it_is_believed(
    service: Service,
) -> None:
    async def in_days(order: int) -> Outcome:
        return retry_after(3 * 86400)

    service.on(in_days, HELD, max_attempts=5)
    with paused_clock():
        async with service.test() as tb:
            await tb.publish("orders", 1)
        async with service.test() as tb:
            await tb.advance(86_400 - 61)
            tb.assert_called(in_days, times=0)
            await tb.advance(2)
            tb.assert_called(in_days)


async def test_without_hand_over_the_original_goes_back(
    service: Service, log: pytest.LogCaptureFixture
) -> None:
    source = service.on(later, HELD, max_attempts=2, hand_over=False)
    async with service.test() as tb:
        await tb.publish("orders", 1)

    assert len(service.bench.stored) == 1
    assert len(service.bench.group(source).ready) == 1
    assert "0 were handed over, 1 given back, 0 lost" in log.text


async def test_without_hand_over_what_was_settled_first_is_lost_and_counted(
    service: Service, log: pytest.LogCaptureFixture
) -> None:
    service.on(later, CORE, max_attempts=2, hand_over=False)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.publish("orders", 2)

    (line,) = [one for one in log.records if "waited in memory" in one.getMessage()]
    assert "0 were handed over, 0 given back, 2 lost" in line.getMessage()
    assert line.levelname == "WARNING"


@pytest.mark.case("SD-11")
async def test_where_nothing_stays_the_reader_unsubscribes_before_it_hands_over(
    service: Service, log: pytest.LogCaptureFixture
) -> None:
    source = BenchSource("orders", CORE, keeps=False)
    service.on(later, source=source, max_attempts=2)
    async with service.test() as tb:
        await tb.publish("orders", 1)

    assert len(service.bench.stored) == 2
    assert not service.bench.group(source).ready
    assert "0 were handed over, 0 given back, 1 lost" in log.text


async def test_a_sibling_that_runs_receives_it(service: Service) -> None:
    source = BenchSource("orders", CORE, keeps=False)
    service.on(later, source=source, max_attempts=2)
    with paused_clock():
        async with service.test() as sibling:
            async with service.test() as tb:
                await tb.publish("orders", 1)
                first, second = tb.calls(later), sibling.calls(later)
                assert len(first) + len(second) == 1
            await sibling.advance(61)

            assert sibling.calls(later)[-1].attempt == 2


@pytest.mark.rule("5.2")
async def test_a_hand_over_that_fails_is_tried_again_within_the_time_that_is_left(
    service: Service,
) -> None:
    source = service.on(later, HELD, max_attempts=2)
    with paused_clock():
        async with service.test() as tb:
            await tb.publish("orders", 1)
            tries = iter(range(3))
            service.bench.refuses = lambda message: (
                ConnectionError("gone") if next(tries, None) is not None else None
            )

    assert len(service.bench.stored) == 2
    assert service.bench.group(source).held == {}


@pytest.mark.rule("5.2", "7.3")
async def test_a_hand_over_that_never_succeeds_leaves_the_original_unsettled(
    service: Service, log: pytest.LogCaptureFixture
) -> None:
    source = service.on(later, HELD, max_attempts=2)
    with paused_clock() as clock:
        async with service.test() as tb:
            await tb.publish("orders", 1)
            service.bench.refuse("orders", "memory is full")
            began = clock.seconds

    assert clock.seconds - began < 32
    assert len(service.bench.stored) == 1
    assert [entry.id for entry in service.bench.group(source).ready] == ["1"]
    assert "orders/g: 1 messages stay unsettled" in log.text


@pytest.mark.rule("5.2")
@pytest.mark.parametrize("can", [HELD, CORE])
async def test_a_copy_that_can_never_be_stored_dies_at_the_stop(service: Service, can: Any) -> None:
    def nowhere(delivery: object) -> str:
        raise LookupError

    wild = BenchSource("devices/*", can, wild=True)
    service.on(later, source=wild, max_attempts=2, retry_to=nowhere, dead_letter="dead")
    async with service.test() as tb:
        await tb.publish("devices/1", 1)

    assert [one.address for one in service.bench.stored] == ["devices/1", "dead"]


async def test_topics_hand_over_five_hundred_and_the_log_counts_the_rest(
    service: Service, log: pytest.LogCaptureFixture
) -> None:
    source = BenchSource("orders", HELD, kind="topic")
    service.on(later, source=source, max_attempts=2)
    for _ in range(600):
        service.bench.ready(source, b"1")
    async with service.test() as tb:
        await tb.settle()

    assert len(service.bench.stored) == 500
    assert "500 were handed over, 100 given back, 0 lost" in log.text


@pytest.mark.rule("6.1", "7.4")
async def test_a_dead_letter_that_waits_for_its_brake_is_not_run_again(
    service: Service,
) -> None:
    async def fails(order: int) -> Outcome:
        return retry_after(1)

    source = service.on(fails, NATIVE, max_attempts=2, dead_letter="dead")
    died = (
        (COUNT, b"2"),
        (DEAD_PREFIX + "source", b"orders"),
        (DEAD_PREFIX + "deaths", b"9"),
    )
    with paused_clock():
        async with service.test() as tb:
            service.bench.ready(source, b"1", count=1, headers=died)
            await tb.settle()
            tb.assert_called(fails)
            assert service.bench.at("dead") == []
        async with service.test() as tb:
            await tb.advance(5)
            tb.assert_called(fails, times=0)
    assert len(service.bench.at("dead")) == 1


@pytest.mark.case("MG-05")
@pytest.mark.parametrize("can", [HELD, CORE], ids=["held", "timer"])
async def test_fifty_thousand_delays_are_handed_over_within_the_grace_time(
    service: Service, can: Any, log: pytest.LogCaptureFixture
) -> None:
    async def in_an_hour(order: bytes) -> Outcome:
        return retry_after(3600)

    source = service.on(in_an_hour, can, max_attempts=2)
    for _ in range(50_000):
        service.bench.ready(source, b"x")
    run = service.app.new_run()
    log.set_level(logging.WARNING, "surestream.dispatch")
    with paused_clock() as clock:
        await run.start()
        await clock.settle()
        assert len(run.subscriptions[0].settling.timers) == 50_000
        log.set_level(logging.INFO, "surestream.dispatch")
        began = clock.seconds
        await run.stop()
        assert clock.seconds - began < 30
        assert len(run.subscriptions[0].settling.timers) == 0
    assert len(service.bench.stored) == 50_000
    assert all(NOT_BEFORE_HEADER in dict(one.headers) for one in service.bench.stored)
    assert "50000 were handed over, 0 given back, 0 lost" in log.text


@pytest.mark.case("MG-05")
@pytest.mark.parametrize("can", [HELD, CORE], ids=["held", "timer"])
async def test_delays_that_have_fired_leave_nothing_in_memory(service: Service, can: Any) -> None:
    async def once_more(order: bytes, delivery: Delivery) -> Outcome:
        return retry_after(3600) if delivery.attempt == 1 else ack()

    def alive() -> int:
        gc.collect()
        return sum(isinstance(each, BenchDelivery) for each in gc.get_objects())

    before = alive()
    source = service.on(once_more, can, max_attempts=2)
    for _ in range(1000):
        service.bench.ready(source, b"x")
    with paused_clock() as clock:
        async with service.app.running() as run:
            await clock.advance(60)
            assert alive() >= before + 1000
            await clock.advance(3600)
            assert alive() <= before + 2
            assert list(run.subscriptions[0].held()) == []
    assert len(service.bench.stored) == 1000
