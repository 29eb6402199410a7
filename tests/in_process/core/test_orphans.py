"""Killers are buried and innocents run (rules 3.5, 3.6, 6.4)."""

from __future__ import annotations

import asyncio

import pytest

from surestream import Outcome, ack, retry
from surestream.contract import Abilities
from surestream.message import RETRY_COUNT_HEADER
from tests.in_process.core.service import Service, details, headers
from tests.in_process.core.sources import CLAIMING, CORE, LEAVING, NATIVE, STREAM

COUNT = RETRY_COUNT_HEADER


class Watch:
    """A handler that shows what runs beside what."""

    def __init__(self, seconds: float = 10) -> None:
        self.seconds = seconds
        self.running: set[int] = set()
        self.beside: list[tuple[int, set[int]]] = []

    async def __call__(self, order: int) -> None:
        self.beside.append((order, set(self.running)))
        self.running.add(order)
        await asyncio.sleep(self.seconds)
        self.running.discard(order)

    @property
    def order(self) -> list[int]:
        return [order for order, _ in self.beside]


@pytest.mark.rule("3.5")
@pytest.mark.parametrize("can", [STREAM, CLAIMING])
async def test_what_spent_its_attempts_in_crashes_is_buried_before_it_runs(
    service: Service, can: Abilities
) -> None:
    watch = Watch()
    source = service.on(watch, can, max_attempts=3, dead_letter="orders.dlq")
    service.bench.orphan(source, b"7", deaths=3, headers=(("a", b"1"),))
    async with service.test() as tb:
        await tb.advance(1)

        tb.assert_called(watch, times=0)
        tb.assert_settled(watch, "dead letter")
    (letter,) = service.bench.stored
    assert (headers(letter)["a"], details(letter)["reason"]) == ("1", "crashed")
    assert details(letter)["attempts"] == "3"
    assert headers(letter)[COUNT] == "3"


@pytest.mark.rule("3.5")
@pytest.mark.parametrize("can", [STREAM, CLAIMING, NATIVE])
async def test_a_killer_without_destination_is_rejected(service: Service, can: Abilities) -> None:
    watch = Watch()
    source = service.on(watch, can, max_attempts=2)
    service.bench.ready(source, b"7", count=2)
    async with service.test() as tb:
        await tb.advance(1)

        tb.assert_called(watch, times=0)
        tb.assert_settled(watch, "rejected")


@pytest.mark.rule("3.5")
@pytest.mark.parametrize("can", [STREAM, CLAIMING])
async def test_without_a_cap_nothing_is_ever_buried(service: Service, can: Abilities) -> None:
    watch = Watch(0)
    source = service.on(watch, can)
    service.bench.orphan(source, b"7", deaths=1000)
    async with service.test() as tb:
        await tb.advance(1)

        tb.assert_settled(watch, "ack")


@pytest.mark.rule("3.5")
async def test_on_a_stream_failures_by_the_header_do_not_add_to_crashes(
    service: Service,
) -> None:
    """It failed four times, and two workers died with it for other reasons."""
    watch = Watch(0)
    source = service.on(watch, max_attempts=5, dead_letter="orders.dlq")
    service.bench.orphan(source, b"7", deaths=2, headers=((COUNT, b"4"),))
    async with service.test() as tb:
        await tb.advance(1)

        assert [call.attempt for call in tb.calls(watch)] == [5]


@pytest.mark.rule("3.5")
@pytest.mark.parametrize("can", [LEAVING, CORE])
async def test_sources_that_cannot_tell_bury_nothing(service: Service, can: Abilities) -> None:
    watch = Watch(0)
    source = service.on(watch, can, max_attempts=2)
    service.bench.ready(source, b"7", count=9)
    async with service.test() as tb:
        await tb.advance(1)

        tb.assert_settled(watch, "ack")


@pytest.mark.rule("3.6", "6.4")
@pytest.mark.parametrize("workers", [1, 4])
async def test_orphans_are_taken_only_as_fast_as_workers_are_free(
    service: Service, workers: int
) -> None:
    watch = Watch()
    source = service.on(watch, workers=workers, max_attempts=9)
    for order in range(10):
        service.bench.orphan(source, b"%d" % order)
    async with service.test() as tb:
        await tb.advance(5)
        assert len(watch.running) == workers
        assert len(service.bench.group(source).held) == workers
        assert len(service.bench.group(source).orphans) == 10 - workers
        await tb.advance(200)

        assert sorted(watch.order) == list(range(10))
        tb.assert_settled(watch, *["ack"] * 10)


@pytest.mark.rule("3.6")
@pytest.mark.parametrize("can", [STREAM, CLAIMING])
async def test_a_last_chance_runs_with_no_other_redelivered_one_beside_it(
    service: Service, can: Abilities
) -> None:
    watch = Watch()
    source = service.on(watch, can, workers=4, max_attempts=3, dead_letter="dead")
    for order in (10, 11):
        service.bench.orphan(source, b"%d" % order, deaths=1)
    service.bench.orphan(source, b"666", deaths=2)
    for order in (12, 13):
        service.bench.orphan(source, b"%d" % order, deaths=1)
    for order in (1, 2):
        service.bench.ready(source, b"%d" % order)
    async with service.test() as tb:
        await tb.advance(100)

        assert sorted(watch.order) == [1, 2, 10, 11, 12, 13, 666]
        tb.assert_settled(watch, *["ack"] * 7)
    alone = dict(watch.beside)[666]
    assert alone <= {1, 2}
    assert all(666 not in beside for order, beside in watch.beside if order > 9)
    # It was given back with the count it had before.
    assert {spent for _, _, spent in service.bench.returned} == {False}


@pytest.mark.rule("3.6")
async def test_fresh_messages_go_on_beside_a_last_chance(service: Service) -> None:
    watch = Watch()
    source = service.on(watch, workers=2, max_attempts=2)
    service.bench.orphan(source, b"666", deaths=1)
    async with service.test() as tb:
        for order in range(4):
            await tb.publish("orders", order)
        await tb.advance(10)

        assert dict(watch.beside)[0] == {666}


@pytest.mark.rule("3.6")
async def test_a_last_chance_that_fails_lets_the_next_one_run(service: Service) -> None:
    async def fails(order: int) -> Outcome:
        return retry()

    source = service.on(fails, CLAIMING, workers=3, max_attempts=2, dead_letter="dead")
    for order in (1, 2, 3):
        service.bench.orphan(source, b"%d" % order, deaths=1)
    async with service.test() as tb:
        await tb.advance(30)

        assert [call.attempt for call in tb.calls(fails)] == [2, 2, 2]
        tb.assert_settled(fails, *["dead letter"] * 3)


@pytest.mark.rule("3.6")
@pytest.mark.parametrize("by_key", [None, "customer"])
@pytest.mark.parametrize("can", [STREAM, CLAIMING, NATIVE])
async def test_with_cap_one_nothing_is_read_ahead(
    service: Service, can: Abilities, by_key: str | None
) -> None:
    watch = Watch()
    source = service.on(watch, can, workers=2, by_key=by_key, max_attempts=1)
    for order in range(6):
        sent = (("customer", b"c%d" % (order % 3)),)
        service.bench.ready(source, b"%d" % order, headers=sent)
    async with service.test() as tb:
        for _ in range(8):
            await tb.advance(9)
            # What is held is what runs: a crash now would take nobody else with it.
            assert len(service.bench.group(source).held) == len(watch.running)
            await tb.advance(1)

        tb.assert_settled(watch, *["ack"] * 6)
    assert max(service.bench.asked) <= 2


@pytest.mark.rule("3.6")
async def test_with_cap_one_what_came_for_a_worker_that_took_an_orphan_goes_back(
    service: Service,
) -> None:
    watch = Watch()
    source = service.on(watch, max_attempts=1)
    async with service.test() as tb:
        # The reader waits for one message, the worker is free: an orphan takes it.
        service.bench.orphan(source, b"1", deaths=0)
        await tb.advance(5)
        assert watch.running == {1}
        await tb.publish("orders", 2)
        assert len(service.bench.group(source).held) == 1
        assert [spent for _, _, spent in service.bench.returned] == [False]
        await tb.advance(20)

        assert watch.order == [1, 2]


@pytest.mark.rule("3.6")
async def test_sources_that_bury_nothing_read_ahead_whatever_the_cap(service: Service) -> None:
    watch = Watch()
    source = service.on(watch, LEAVING, max_attempts=1)
    for order in range(6):
        service.bench.ready(source, b"%d" % order)
    async with service.test() as tb:
        await tb.advance(0)

        assert len(service.bench.group(source).held) == 6


@pytest.mark.rule("6.4")
@pytest.mark.parametrize(("next_in", "looks"), [(None, 13), (1.5, 41), (600.0, 1)])
async def test_the_next_look_is_when_the_transport_says(
    service: Service, next_in: float | None, looks: int
) -> None:
    service.on(Watch())
    service.bench.next_in = next_in
    async with service.test() as tb:
        await tb.advance(60)

        assert service.bench.recovers == looks


@pytest.mark.rule("6.4")
async def test_a_failed_look_is_told_and_repeated(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(0)
    source = service.on(watch)
    async with service.test() as tb:
        service.bench.orphan(source, b"1")
        service.bench.down = True
        await tb.advance(60)
        assert 13 <= service.bench.recovers <= 62
        service.bench.down = False
        await tb.advance(5)

        tb.assert_settled(watch, "ack")
    assert "orders/g: cannot look for orphans: the bench is down" in caplog.text


@pytest.mark.rule("6.4")
@pytest.mark.parametrize("deaths", [0, 1])
@pytest.mark.parametrize("customers", ["01010101", "00001111", "00110101"])
async def test_orphans_of_one_key_run_in_the_lane_of_their_key(
    service: Service, deaths: int, customers: str
) -> None:
    """Also one whose reply was lost, which the server counts once (``deaths=0``)."""
    watch = Watch()
    source = service.on(watch, workers=4, by_key="customer", max_attempts=3)
    for order in range(8):
        sent = (("customer", customers[order].encode()),)
        service.bench.orphan(source, b"%d" % order, deaths=deaths, headers=sent)
    service.bench.orphan(source, b"666", deaths=2)
    async with service.test() as tb:
        for _ in range(30):
            await tb.advance(10)
            # Nothing is taken that cannot run: a crash now would cost it an attempt.
            assert len(service.bench.group(source).held) == len(watch.running)

        tb.assert_settled(watch, *["ack"] * 9)
    for order, beside in watch.beside:
        if order < 8:
            mine = customers[order]
            assert all(customers[other] != mine for other in beside if other < 8)
    for customer in "01":
        ran = [order for order in watch.order if order < 8 and customers[order] == customer]
        assert ran == sorted(ran)


@pytest.mark.rule("6.4", "2.6")
async def test_an_undecodable_orphan_does_not_block_the_others(service: Service) -> None:
    watch = Watch(0)
    source = service.on(watch, max_attempts=2)
    service.bench.orphan(source, b"bad")
    service.bench.orphan(source, b"1")
    async with service.test() as tb:
        await tb.advance(10)

        tb.assert_settled(watch, "drop", "ack")


@pytest.mark.rule("7.3")
async def test_at_the_stop_nothing_is_taken_over_any_more(service: Service) -> None:
    async def handle(order: int) -> Outcome:
        return ack()

    source = service.on(handle)
    async with service.test() as tb:
        await tb.advance(1)
        service.bench.orphan(source, b"1")

    tb.assert_called(handle, times=0)
    assert len(service.bench.group(source).orphans) == 1
