"""Delays: never early, exact, of any length (rules 2.1, 5.5 to 5.7)."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from surestream import Backoff, Outcome, ack, retry_after
from surestream.contract import Abilities
from surestream.message import MARK_HEADER, RETRY_COUNT_HEADER
from tests.in_process.core.service import Service, headers
from tests.in_process.core.sources import CLAIMING, CORE, NATIVE, PARKING, STREAM

HELD = dataclasses.replace(STREAM, recovers=False, lease=None)
"""Nothing else goes on: years pass in an instant."""
OWN_TIMER = [HELD, CORE]
EVERY = [HELD, CORE, dataclasses.replace(PARKING, recovers=False, lease=None), NATIVE]
NAMES = ["held", "timer", "parked", "native"]


class Waits:
    """A handler that asks for delays, one after another, then acknowledges."""

    def __init__(self, *delays: Any) -> None:
        self.delays = list(delays)

    async def __call__(self, order: int) -> Outcome:
        return retry_after(self.delays.pop(0)) if self.delays else ack()


@pytest.mark.case("TH-09", "CK-09")
@pytest.mark.parametrize("can", EVERY, ids=NAMES)
@pytest.mark.parametrize("delay", [30, 30.0, 1.5, timedelta(milliseconds=1500), timedelta(days=3)])
async def test_nothing_before_the_instant_and_exactly_one_after(
    service: Service, can: Abilities, delay: Any
) -> None:
    waits = Waits(delay)
    service.on(waits, can)
    wait = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(wait - timedelta(milliseconds=1))
        tb.assert_called(waits, times=1)
        await tb.advance(timedelta(milliseconds=1))
        tb.assert_called(waits, times=2)
        await tb.advance(timedelta(days=1))

        tb.assert_called(waits, times=2)
        tb.assert_nothing_waits()


@pytest.mark.case("CK-10")
@pytest.mark.parametrize("can", OWN_TIMER)
async def test_delays_below_a_millisecond_are_waited_and_not_spun(
    service: Service, can: Abilities
) -> None:
    waits = Waits(0.0004)
    other = Waits(0.0007)
    service.on(waits, can)
    service.on(other, can, "others")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.publish("others", 1)
        await tb.advance(0.0003)
        tb.assert_called(waits, times=1)
        await tb.advance(0.0002)
        tb.assert_called(waits, times=2)
        tb.assert_called(other, times=1)
        await tb.advance(0.0003)

        tb.assert_called(other, times=2)


@pytest.mark.case("CK-08")
@pytest.mark.rule("2.1", "3.3")
@pytest.mark.parametrize("can", EVERY, ids=NAMES)
@pytest.mark.parametrize("zero", [0, 0.0, timedelta(0), Backoff(first=0, limit=0)])
async def test_zero_is_a_retry_that_counts(service: Service, can: Abilities, zero: Any) -> None:
    waits = Waits(zero, zero, zero)
    service.on(waits, can, max_attempts=3, dead_letter="dead")
    async with service.test() as tb:
        await tb.publish("orders", 1)

        assert [call.at for call in tb.calls(waits)] == [0, 0, 0]
        assert len(service.bench.at("dead")) == 1


@pytest.mark.case("CK-08")
async def test_a_microsecond_is_a_delay(service: Service) -> None:
    waits = Waits(timedelta(microseconds=1))
    service.on(waits, max_attempts=3)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        tb.assert_called(waits, times=1)
        await tb.advance(0.000_001)

        tb.assert_called(waits, times=2)


@pytest.mark.case("CK-05")
@pytest.mark.rule("2.1")
@pytest.mark.parametrize("can", OWN_TIMER, ids=["held", "timer"])
@pytest.mark.parametrize(
    "delay", [timedelta(days=25), timedelta(days=365 * 300), timedelta.max, 1e18]
)
async def test_a_delay_of_many_years_is_kept(
    service: Service, can: Abilities, delay: Any, caplog: pytest.LogCaptureFixture
) -> None:
    waits = Waits(delay)
    service.on(waits, can)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(timedelta(days=24))

        tb.assert_called(waits)
        (parked,) = tb.parked()
        assert parked.due >= 25 * 86400
        cut = delay != timedelta(days=25)
        assert ("is cut to the 3.16e+09 s that are possible" in caplog.text) is cut


@pytest.mark.case("CK-05")
async def test_a_month_passes_and_the_message_comes(service: Service) -> None:
    waits = Waits(timedelta(days=31))
    service.on(waits, HELD)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(timedelta(days=31))

        tb.assert_called(waits, times=2)


@pytest.mark.rule("6.1")
async def test_a_backoff_is_asked_with_the_attempt(service: Service) -> None:
    backoff = Backoff(first=1, factor=3, limit=20, jitter=0)
    waits = Waits(*[backoff] * 5)
    service.on(waits, max_attempts=9)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(100)

        assert [call.at for call in tb.calls(waits)] == [0, 1, 4, 13, 33, 53]


@pytest.mark.rule("2.1")
async def test_claiming_has_one_delay_and_warns_of_none(service: Service) -> None:
    waits = Waits(1, 60)
    service.on(waits, CLAIMING)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(200)

        # An orphan is looked for every five seconds here.
        assert service.bench.returned == [("1", 30.0, True), ("1", 30.0, True)]


@pytest.mark.rule("5.5", "5.7")
@pytest.mark.parametrize("can", OWN_TIMER, ids=["held", "timer"])
async def test_the_original_is_held_through_the_timer_where_that_is_possible(
    service: Service, can: Abilities
) -> None:
    waits = Waits(60)
    source = service.on(waits, can)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(59)

        assert len(service.bench.group(source).held) == (1 if can is HELD else 0)
        (parked,) = tb.parked()
        assert parked.how == ("held" if can is HELD else "timer")
        assert parked.due == 60.0
        assert len(service.bench.stored) == 1


async def test_messages_come_in_the_order_they_are_due(service: Service) -> None:
    async def by_number(order: int) -> Outcome:
        return retry_after(order)

    service.on(by_number, max_attempts=2)
    async with service.test() as tb:
        for seconds in (5, 3, 4, 3):
            await tb.publish("orders", seconds)
        await tb.advance(10)

        again = [call for call in tb.calls(by_number) if call.attempt == 2]
        assert [(call.value, call.at) for call in again] == [(3, 3), (3, 3), (4, 4), (5, 5)]


@pytest.mark.rule("6.1", "4.7")
async def test_a_marked_copy_that_lost_its_count_is_slowed_down(service: Service) -> None:
    """Somebody strips our headers; the cap cannot hold, the brake does."""

    class Again:
        async def __call__(self, order: int) -> Outcome:
            return retry_after(0)

    again = Again()
    source = service.on(again, max_attempts=5)
    async with service.test() as tb:
        for _ in range(4):
            entry = service.bench.ready(source, b"1", headers=((MARK_HEADER, b"orders:g"),))
            entry.marked = True
        await tb.settle()
        assert [call.attempt for call in tb.calls(again)] == [1, 1, 1, 1]
        assert {one.due for one in tb.parked()} == {0.1}


@pytest.mark.rule("3.1")
async def test_a_promoted_delay_counts_header_and_server(service: Service) -> None:
    """Claiming with a delay set does not forget what was spent."""

    waits = Waits(5, 5, 5, 5)
    both = dataclasses.replace(CLAIMING, delay=PARKING.delay, fixed_delay=None)
    service.on(waits, both, max_attempts=4, dead_letter="dead")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(100)

        assert [call.attempt for call in tb.calls(waits)] == [1, 2, 3, 4]
    (letter,) = service.bench.at("dead")
    assert headers(letter)[RETRY_COUNT_HEADER] == "4"
