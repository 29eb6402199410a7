"""``RedisStream.claiming`` in a whole service (section 6, row *claiming*; rules 3.1, 3.5, 3.6)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from surestream import (
    RETRY_COUNT_HEADER,
    Backoff,
    DeclarationError,
    Delivery,
    Outcome,
    ack,
    drop,
    retry,
    retry_after,
)
from surestream.redis import DurableZset, RedisStream
from tests.in_process.claiming.service import Service, left_behind, pending

MIN_IDLE = timedelta(seconds=30)
SOURCE = RedisStream.claiming("orders", min_idle=MIN_IDLE, group="g")
DELAYED = RedisStream.claiming(
    "orders", min_idle=MIN_IDLE, group="g", delayed_retry=DurableZset("orders.delayed")
)
CAPPED = {"max_attempts": 5, "dead_letter": "orders.dlq"}


async def always_retry(order: bytes) -> Outcome:
    return retry()


async def test_a_retry_brings_the_same_entry_back_after_exactly_min_idle() -> None:
    service = Service()
    process = service.on(SOURCE, always_retry, **CAPPED)
    async with service.running() as (tb, _):
        await tb.publish("orders", b"1")
        for attempt in range(1, 5):
            await tb.advance(29.999)
            tb.assert_called(process, times=attempt)
            await tb.advance(0.001)
            tb.assert_called(process, times=attempt + 1)

        calls = tb.calls(process)
        assert [call.at for call in calls] == [0, 30, 60, 90, 120]
        assert [call.attempt for call in calls] == [1, 2, 3, 4, 5]
        assert len({call.id for call in calls}) == 1
        tb.assert_settled(process, *["given back"] * 4, "dead letter")


@pytest.mark.rule("3.2")
async def test_the_dead_letter_carries_the_true_number() -> None:
    service = Service()
    service.on(SOURCE, always_retry, **CAPPED)
    async with service.running() as (tb, _):
        await tb.publish("orders", b"1", headers={"tenant": "north"})
        await tb.advance(120)

        (dead,) = tb.published("orders.dlq")
        assert dead.payload == b"1"
        assert dead.headers[RETRY_COUNT_HEADER] == "5"
        assert dead.headers["x-surestream-dead-attempts"] == "5"
        assert dead.headers["tenant"] == "north"
        tb.assert_nothing_waits()


@pytest.mark.rule("3.1")
async def test_a_header_of_somebody_else_does_not_count() -> None:
    service = Service()
    process = service.on(SOURCE, always_retry, **CAPPED)
    async with service.running() as (tb, _):
        await tb.publish("orders", b"1", headers={RETRY_COUNT_HEADER: "4"})
        await tb.advance(600)

        assert [call.attempt for call in tb.calls(process)] == [1, 2, 3, 4, 5]
        (dead,) = tb.published("orders.dlq")
        assert dead.headers[RETRY_COUNT_HEADER] == "5"


@pytest.mark.case("CK-01")
@pytest.mark.parametrize("delay", [1, 90])
async def test_every_delay_is_min_idle(delay: float, caplog: pytest.LogCaptureFixture) -> None:
    async def once(order: bytes, delivery: Delivery) -> Outcome:
        return retry_after(delay) if delivery.attempt == 1 else ack()

    service = Service()
    process = service.on(SOURCE, once, **CAPPED)
    async with service.running() as (tb, _):
        await tb.publish("orders", b"1")
        await tb.advance(100)

        assert [(call.at, call.attempt) for call in tb.calls(process)] == [(0, 1), (30, 2)]
        assert len({call.id for call in tb.calls(process)}) == 1
    cut = [line for line in caplog.messages if "is cut to" in line]
    assert len(cut) == (1 if delay > 30 else 0)


async def test_an_exception_that_is_not_listed_is_back_after_min_idle_too() -> None:
    async def fails(order: bytes) -> None:
        raise RuntimeError("no")

    service = Service()
    process = service.on(SOURCE, fails, **CAPPED)
    async with service.running() as (tb, _):
        await tb.publish("orders", b"1")
        await tb.advance(600)

        assert [call.at for call in tb.calls(process)] == [0, 30, 60, 90, 120]
        assert len(tb.published("orders.dlq")) == 1


async def test_without_a_cap_it_comes_back_for_ever_and_no_faster() -> None:
    """Rule 6.1: the brake of 6.1 is shorter than min_idle."""
    service = Service()
    process = service.on(SOURCE, always_retry)
    async with service.running() as (tb, _):
        await tb.publish("orders", b"1")
        await tb.advance(600)

        assert [call.at for call in tb.calls(process)] == [30 * n for n in range(21)]


@pytest.mark.rule("3.4")
async def test_a_destination_without_a_cap_takes_the_first_retry() -> None:
    service = Service()
    service.on(SOURCE, always_retry, dead_letter="orders.dlq")
    async with service.running() as (tb, _):
        await tb.publish("orders", b"1")

        (dead,) = tb.published("orders.dlq")
        assert dead.headers[RETRY_COUNT_HEADER] == "1"


@pytest.mark.rule("3.4")
async def test_a_cap_without_a_destination_rejects() -> None:
    service = Service()
    process = service.on(SOURCE, always_retry, max_attempts=2)
    async with service.running() as (tb, link):
        await tb.publish("orders", b"1")
        await tb.advance(600)

        tb.assert_settled(process, "given back", "rejected")
        assert await pending(link) == []


async def test_ack_and_drop_are_what_they_always_are() -> None:
    async def process(order: bytes, delivery: Delivery) -> Outcome:
        if delivery.attempt == 1:
            return retry()
        return ack() if order == b"1" else drop()

    service = Service()
    service.on(SOURCE, process, **CAPPED)
    async with service.running() as (tb, link):
        await tb.publish("orders", b"1")
        await tb.publish("orders", b"2")
        await tb.advance(600)

        assert await pending(link) == []
        tb.assert_published("orders.dlq", times=0)


@pytest.mark.rule("4.2")
def test_a_place_for_copies_is_refused() -> None:
    service = Service()
    service.on(SOURCE, always_retry, retry_to="elsewhere")

    async def start() -> None:
        async with service.running():
            pass

    with pytest.raises(DeclarationError, match="makes no copies"):
        asyncio.run(start())


# ── crashes ─────────────────────────────────────────────────────────────────


@pytest.mark.case("WC-03")
@pytest.mark.rule("3.5")
async def test_what_was_spent_in_crashes_is_dead_before_its_handler_runs() -> None:
    service = Service()
    process = service.on(SOURCE, always_retry, **CAPPED)
    async with service.running() as (tb, link):
        await left_behind(link, "1", times=5)
        await tb.advance(31)

        tb.assert_called(process, times=0)
        (dead,) = tb.published("orders.dlq")
        assert dead.headers[RETRY_COUNT_HEADER] == "5"
        assert dead.headers["x-surestream-dead-reason"] == "crashed"


async def test_a_crash_counts_as_a_delivery() -> None:
    service = Service()
    process = service.on(SOURCE, always_retry, **CAPPED)
    async with service.running() as (tb, link):
        await left_behind(link, "1", times=3)
        await tb.advance(600)

        assert [call.attempt for call in tb.calls(process)] == [4, 5]
        assert len(tb.published("orders.dlq")) == 1


# ── with a delay set ────────────────────────────────────────────────────────


@pytest.mark.case("DU-01")
async def test_with_a_delay_set_every_delay_is_exact() -> None:
    async def once(order: bytes, delivery: Delivery) -> Outcome:
        return retry_after(float(order)) if delivery.attempt == 1 else ack()

    service = Service()
    process = service.on(DELAYED, once, **CAPPED)
    async with service.running() as (tb, link):
        await tb.publish("orders", b"95.5")
        await tb.publish("orders", b"1.25")
        assert await pending(link) == []
        await tb.advance(100)

        assert [(call.at, call.attempt) for call in tb.calls(process)] == [
            (0, 1),
            (0, 1),
            (1.25, 2),
            (95.5, 2),
        ]
        assert await link.call("XLEN", "orders") == 2


@pytest.mark.rule("3.1")
async def test_what_was_spent_before_the_delay_is_not_forgotten() -> None:
    """An entry that came back out of the delay set counts header and server together."""

    async def by_turns(order: bytes, delivery: Delivery) -> Outcome:
        return retry_after(2) if delivery.attempt % 2 else retry()

    service = Service()
    process = service.on(DELAYED, by_turns, **CAPPED)
    async with service.running() as (tb, link):
        await tb.publish("orders", b"1")
        await tb.advance(600)

        calls = tb.calls(process)
        assert [call.attempt for call in calls] == [1, 2, 3, 4, 5]
        assert [call.at for call in calls] == [0, 2, 32, 34, 64]
        (dead,) = tb.published("orders.dlq")
        assert dead.headers[RETRY_COUNT_HEADER] == "5"
        assert await pending(link) == []


async def test_a_backoff_is_asked_with_the_attempt() -> None:
    async def fails(order: bytes) -> Outcome:
        return retry_after(Backoff(first=1, factor=10, limit=1000, jitter=0))

    service = Service()
    process = service.on(DELAYED, fails, **CAPPED)
    async with service.running() as (tb, _):
        await tb.publish("orders", b"1")
        await tb.advance(2000)

        assert [call.at for call in tb.calls(process)] == [0, 1, 11, 111, 1111]


# ── side by side ────────────────────────────────────────────────────────────


@pytest.mark.case("TH-02")
async def test_a_plain_and_a_claiming_reader_of_one_group_run_a_message_once() -> None:
    async def process(order: bytes) -> None:
        await asyncio.sleep(45)

    service = Service()
    one = service.on(RedisStream("orders", group="g", recover_after=0.5), process)
    other = service.on(RedisStream.claiming("orders", min_idle=60, group="g"), process)
    async with service.running() as (tb, link):
        await tb.publish("orders", b"1")
        await tb.advance(600)

        assert len(tb.calls(one)) + len(tb.calls(other)) == 1
        assert await pending(link) == []


@pytest.mark.rule("6.2")
async def test_a_handler_that_runs_longer_than_min_idle_keeps_its_entry() -> None:
    async def process(order: bytes) -> None:
        await asyncio.sleep(200)

    service = Service()
    mounted = service.on(SOURCE, process, **CAPPED)
    service.on(SOURCE, process, **CAPPED)
    async with service.running() as (tb, link):
        await tb.publish("orders", b"1")
        await tb.advance(190)
        assert await pending(link) != []
        await tb.advance(600)

        tb.assert_called(mounted, times=1)
        assert await pending(link) == []


@pytest.mark.rule("6.3")
@pytest.mark.parametrize("workers", [1, 3])
async def test_claimed_ones_are_half_at_most_while_new_ones_wait(workers: int) -> None:
    async def process(order: bytes) -> None:
        await asyncio.sleep(1)

    service = Service()
    mounted = service.on(SOURCE, process, workers=workers, **CAPPED)
    async with service.running() as (tb, link):
        await left_behind(link, *(f"old {number}" for number in range(30)))
        await tb.advance(29)
        tb.assert_called(mounted, times=0)
        # New ones for longer than the old ones will take, which are due in a second.
        for number in range(90):
            await link.call("XADD", "orders", "*", "_payload", f"new {number}")
        await tb.advance(200)

        order = "".join("o" if call.payload[:3] == b"old" else "n" for call in tb.calls(mounted))
        assert (order.count("o"), order.count("n")) == (30, 90)
        while_both = order[order.index("o") : order.rindex("o") + 1]
        # By turns: each worker one of the old, one of the new.
        assert while_both.count("n") >= 30 - workers
        assert max(map(len, while_both.split("n"))) <= workers
        assert max(map(len, while_both.split("o"))) <= 2 * workers


@pytest.mark.rule("3.6")
async def test_a_last_chance_runs_with_no_other_redelivered_one_beside_it() -> None:
    running: set[bytes] = set()
    beside: list[set[bytes]] = []

    async def process(order: bytes, delivery: Delivery) -> Outcome:
        if delivery.attempt > 1:
            running.add(order)
            if delivery.attempt == 5:
                beside.append(set(running))
            await asyncio.sleep(1)
            if delivery.attempt == 5:
                beside.append(set(running))
            running.discard(order)
        return retry()

    service = Service()
    mounted = service.on(SOURCE, process, workers=4, **CAPPED)
    async with service.running() as (tb, link):
        for number in range(6):
            await tb.publish("orders", b"%d" % number)
        await tb.advance(600)

        assert len(tb.published("orders.dlq")) == 6
        assert [len(together) for together in beside] == [1] * 12
        assert len(tb.calls(mounted)) == 30
        assert await pending(link) == []
