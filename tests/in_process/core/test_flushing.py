"""Acknowledgements are written in time, and nobody starves (rules 7.6, 2.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from surestream import Outcome, ack, drop, retry
from surestream.contract import Abilities
from tests.in_process.core.service import Service, spend
from tests.in_process.core.sources import CORE, NATIVE, STREAM, BenchSource
from tests.in_process.core.transports import BenchSubscription

pytestmark = pytest.mark.rule("7.6")


def fill(service: Service, source: BenchSource, count: int, payload: bytes = b"1") -> None:
    for _ in range(count):
        service.bench.ready(source, payload)


class Timed:
    """A handler that computes for so many seconds without letting go of the loop, and notes by
    the clock of the test when each of its runs ended."""

    def __init__(self, seconds: Callable[[int], float], outcome: Outcome | None = None) -> None:
        self.seconds = seconds
        self.outcome = outcome or ack()
        self.ended: list[float] = []

    async def __call__(self, order: int) -> Outcome:
        spend(self.seconds(order))
        self.ended.append(asyncio.get_running_loop().time())
        return self.outcome


def lateness(service: Service, timed: Timed) -> list[float]:
    """Seconds between the end of each acknowledged run and its acknowledgement."""
    written = {int(one): at for at, ids in service.bench.written for one in ids}
    return [written[number] - timed.ended[number - 1] for number in sorted(written)]


async def test_handlers_that_never_suspend_are_acknowledged_in_batches_of_64(
    service: Service,
) -> None:
    instant = Timed(lambda order: 0.0)
    source = service.on(instant)
    fill(service, source, 300)
    async with service.test() as tb:
        tb.assert_settled(instant, *["ack"] * 300)

    sizes = [len(ids) for _, ids in service.bench.written]
    assert max(sizes) == 64
    assert sizes[:2] == [64, 64]


@pytest.mark.parametrize("each", [0.00001, 0.0001, 0.0005, 0.0015])
async def test_nothing_waits_longer_than_two_milliseconds_and_one_run(
    service: Service, each: float
) -> None:
    busy = Timed(lambda order: each)
    source = service.on(busy)
    fill(service, source, 300)
    async with service.test() as tb:
        await tb.settle()

    late = lateness(service, busy)
    assert len(late) == 300
    assert max(late) <= 0.002 + each


async def test_a_slow_handler_is_acknowledged_when_it_is_done(service: Service) -> None:
    blocks = Timed(lambda order: 5.0)
    source = service.on(blocks)
    fill(service, source, 5)
    async with service.test() as tb:
        await tb.settle()

    assert max(lateness(service, blocks)) < 0.001


async def test_what_was_done_before_a_handler_suspends_does_not_wait_for_it(
    service: Service,
) -> None:
    async def sleeps(order: int) -> None:
        if order == 2:
            await asyncio.sleep(60)

    source = service.on(sleeps)
    for payload in (b"1", b"1", b"2"):
        service.bench.ready(source, payload)
    async with service.test() as tb:
        await tb.settle()
        assert [ids for _, ids in service.bench.written] == [["1", "2"]]
        await tb.advance(60)
    assert len(service.bench.written) == 2


@pytest.mark.parametrize("other", [drop(), retry(), Outcome(ack().kind)])
@pytest.mark.parametrize("each", [0.0, 0.01])
async def test_what_was_done_before_does_not_wait_for_other_outcomes(
    service: Service, other: Outcome, each: float
) -> None:
    ended: list[float] = []

    async def mixed(order: int) -> Outcome:
        if order == 1:
            ended.append(asyncio.get_running_loop().time())
            return ack()
        spend(each)
        return other

    source = service.on(mixed, max_attempts=1)
    service.bench.ready(source, b"1")
    fill(service, source, 200, b"2")
    async with service.test() as tb:
        await tb.settle()

    first = next(at for at, ids in service.bench.written if "1" in ids)
    assert first - ended[0] <= each


async def test_what_was_done_before_does_not_wait_for_undecodable_ones(service: Service) -> None:
    ended: list[float] = []

    async def typed(order: int) -> None:
        ended.append(asyncio.get_running_loop().time())

    source = service.on(typed)
    service.bench.ready(source, b"1")
    fill(service, source, 500, b"bad")
    async with service.test() as tb:
        await tb.settle()

    assert service.bench.written[0][1] == ["1"]


async def test_an_empty_queue_writes_what_is_done(service: Service) -> None:
    async def handle(order: int) -> None:
        pass

    service.on(handle)
    async with service.test() as tb:
        for _ in range(3):
            await tb.publish("orders", 1)
        assert len(service.bench.written) == 3


# -- fairness -----------------------------------------------------------------------------------

FLOODS = [
    pytest.param(b"1", ack(), id="acknowledged"),
    pytest.param(b"1", drop(), id="dropped"),
    pytest.param(b"1", retry(), id="rejected"),
    pytest.param(b"bad", ack(), id="undecodable"),
]


@pytest.mark.case("HL-03")
@pytest.mark.parametrize("can", [STREAM, NATIVE, CORE])
@pytest.mark.parametrize(("payload", "outcome"), FLOODS)
@pytest.mark.parametrize("each", [0.0, 0.001])
async def test_a_flood_that_never_suspends_does_not_starve_the_others(
    service: Service, can: Abilities, payload: bytes, outcome: Outcome, each: float
) -> None:
    flood = Timed(lambda order: each, outcome)
    seen: list[int] = []

    async def quiet(order: int) -> None:
        seen.append(len(tb.settlements(flood)))

    source = service.on(flood, can, max_attempts=1)
    calm = service.on(quiet, topic="calm")
    timers: list[float] = []

    async def tick() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(20):
            due = loop.time() + 0.01
            await asyncio.sleep(0.01)
            timers.append(loop.time() - due)

    async with service.test() as tb:
        fill(service, source, 2000, payload)
        fill(service, calm, 20)
        ticking = asyncio.create_task(tick())
        await tb.advance(10)
        await ticking

        assert len(tb.settlements(flood)) == 2000
        assert len(seen) == 20
    assert max(seen) < 1000
    # A timer, the task it wakes, and what runs before each of them: three turns of the loop.
    assert max(timers) <= 3 * (0.002 + each)


@pytest.mark.case("HL-03")
@pytest.mark.rule("6.1")
@pytest.mark.parametrize("can", [STREAM, NATIVE, CORE])
async def test_a_poison_message_without_cap_slows_down_and_good_ones_pass(
    service: Service, can: Abilities
) -> None:
    async def handle(order: int) -> Outcome:
        return retry() if order == 666 else ack()

    source = service.on(handle, can)
    service.bench.ready(source, b"666")
    fill(service, source, 100)
    async with service.test() as tb:
        await tb.settle()
        good = [call for call in tb.calls(handle) if call.value == 1]
        assert len(good) == 100
        await tb.advance(60)

        at = [call.at for call in tb.calls(handle) if call.value == 666]
    assert [round(one, 1) for one in at[:9]] == [0, 0, 0, 0, 0.1, 0.3, 0.7, 1.5, 2.5]
    assert len(at) <= 70


@pytest.mark.rule("5.2")
async def test_a_flood_of_retries_is_bounded_by_what_is_being_stored(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies under way are waited for, so that memory does not grow with the backlog."""

    async def fails(order: int) -> Outcome:
        return retry()

    under_way = most = 0
    replace = BenchSubscription.replace

    async def slowly(self: BenchSubscription, delivery: Any, successor: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return await replace(self, delivery, successor)

    monkeypatch.setattr(BenchSubscription, "replace", slowly)
    source = service.on(fails, max_attempts=2)
    fill(service, source, 2000)
    async with service.test() as tb:
        await tb.advance(5)

        assert len(tb.settlements(fails)) == 4000
    assert 64 <= most <= 256 + 64
