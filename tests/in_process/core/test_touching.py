"""What a living process holds stays its own (rule 6.2)."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from surestream import BrokerRefused, Outcome, retry, retry_after
from surestream.delivery import Delivery
from tests.in_process.core.service import Service
from tests.in_process.core.sources import CORE, STREAM, BenchSource
from tests.in_process.core.transports import BenchSubscription

pytestmark = pytest.mark.rule("6.2")


def touched(service: Service) -> list[tuple[float, list[str]]]:
    """When, in seconds after the first message, what was touched."""
    first = service.bench.touched[0][0] if service.bench.touched else 0.0
    return [(round(at - first, 3), sorted(ids)) for at, ids in service.bench.touched]


async def slow(order: int) -> None:
    await asyncio.sleep(order)


async def test_what_runs_and_what_is_queued_is_touched_every_third_of_the_lease(
    service: Service,
) -> None:
    source = service.on(slow)
    for order in (b"110", b"1"):
        service.bench.ready(source, order)
    async with service.test() as tb:
        await tb.advance(39.9)
        assert service.bench.touched == []
        await tb.advance(110)

        tb.assert_settled(slow, "ack", "ack")
    assert touched(service) == [
        (0.0, ["1", "2"]),
        (20.0, ["1", "2"]),
        (40.0, ["1", "2"]),
        (60.0, ["1", "2"]),
    ]


async def test_quick_handlers_are_never_touched(service: Service) -> None:
    service.on(slow)
    async with service.test() as tb:
        for _ in range(30):
            await tb.publish("orders", 5)
        await tb.advance(0)
        await tb.advance(400)

        assert len(tb.settlements(slow)) == 30
    # Those at the end of the queue waited long, and were.
    assert all("1" not in ids for _, ids in touched(service))


@pytest.mark.rule("5.5")
async def test_an_original_is_touched_as_long_as_its_delay_lasts(service: Service) -> None:
    async def later(order: int) -> Outcome:
        return retry_after(7200)

    service.on(later, max_attempts=2, hold_limit=60)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(7199)

        assert len(service.bench.touched) in (358, 359)
        assert all(ids == ["1"] for _, ids in service.bench.touched)
        await tb.advance(1)
        tb.assert_called(later, times=2)


@pytest.mark.rule("5.2")
async def test_an_original_is_touched_while_its_successor_cannot_be_stored(
    service: Service,
) -> None:
    async def again(order: int) -> Outcome:
        return retry()

    service.on(again, max_attempts=1, dead_letter="dead")
    service.bench.refuses = lambda message: (
        BrokerRefused("full") if message.address == "dead" else None
    )
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(130)

        assert len(service.bench.touched) == 5


async def test_a_handler_beyond_the_hold_limit_is_left_to_others_with_one_warning(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.on(slow, hold_limit=50, workers=2)
    async with service.test() as tb:
        await tb.publish("orders", 500)
        await tb.publish("orders", 400)
        await tb.advance(600)

        assert touched(service) == [(0.0, ["1", "2"])]
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert sorted(warnings) == [
        f"orders/g {n}: its handler has run longer than hold_limit=50 s; another worker may "
        "take it over (timeout= is the better tool)"
        for n in (1, 2)
    ]


async def test_a_source_without_lease_touches_nothing(service: Service) -> None:
    service.on(slow, CORE, max_attempts=2)
    async with service.test() as tb:
        await tb.publish("orders", 500)
        await tb.advance(600)

    assert service.bench.touched == []


async def test_the_smallest_lease_of_one_group_counts(service: Service) -> None:
    short = dataclasses.replace(STREAM, lease=6.0)
    service.on(slow)

    async def other(order: int) -> None:
        pass

    service.on(other, source=BenchSource("orders", short))
    service.bench.ready(BenchSource("orders"), b"20")
    async with service.test() as tb:
        await tb.advance(19)

        assert service.bench.touched[0][1] == ["1"]
        assert [at for at, _ in touched(service)] == [0, 2, 4, 6, 8, 10, 12, 14]


@pytest.mark.parametrize("error", [BrokerRefused("no"), ZeroDivisionError("a bug")])
async def test_a_failed_touch_is_tried_again_at_the_next_sweep(
    service: Service, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    tries: list[int] = []

    async def touch(self: BenchSubscription, deliveries: list[Delivery]) -> None:
        tries.append(len(deliveries))
        raise error

    monkeypatch.setattr(BenchSubscription, "touch", touch)
    service.on(slow)
    async with service.test() as tb:
        await tb.publish("orders", 150)
        await tb.advance(130)

        assert tries == [1, 1, 1, 1, 1]
        await tb.advance(20)
        tb.assert_settled(slow, "ack")
