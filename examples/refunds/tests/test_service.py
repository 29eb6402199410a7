"""The refunds service: each check runs in process, where the clock moves only when a test says so,
and once more on a real Redis."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from types import ModuleType

import pytest

from examples.refunds import manual, service
from examples.refunds.processor import Processor
from examples.refunds.service import Refund
from surestream import RETRY_COUNT_HEADER
from surestream.testing import Live, TestApp

MILLISECOND = timedelta(milliseconds=1)
# Spelled as no encoder of ours would: what ends as a dead letter has to be these very bytes.
BY_HAND = b'{ "id": 1, "card": "down", "amount_cents": 500 }'


@pytest.fixture(params=[service, manual], ids=["decorators", "manual"])
def form(request: pytest.FixtureRequest) -> ModuleType:
    """The service in one of its two forms."""
    module: ModuleType = request.param
    return module


@pytest.fixture
def processor() -> Processor:
    """The card processor, which remembers what it paid."""
    return Processor()


@pytest.fixture(params=["in-process", "on-redis"])
def live(request: pytest.FixtureRequest, form: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Live:
    """The switch: where the service runs."""
    if request.param == "in-process":
        return False
    # There a delay takes as long as it is.
    monkeypatch.setattr(service, "BACKOFF", timedelta(seconds=0.2))
    return {form.redis: request.getfixturevalue("redis_url")}


@pytest.fixture
async def tb(form: ModuleType, processor: Processor, live: Live) -> AsyncIterator[TestApp]:
    """The running service."""
    async with TestApp(form.app, state=processor, live=live) as tb:
        yield tb


async def test_a_refund_is_paid_and_done(
    tb: TestApp, form: ModuleType, processor: Processor
) -> None:
    await tb.publish("refunds", Refund(1, "4000 1234", 500))

    tb.assert_settled(form.process_refund, "ack")
    tb.assert_nothing_waits()
    assert processor.paid == {1: 500}


async def test_without_an_answer_it_is_tried_again_at_once(tb: TestApp, form: ModuleType) -> None:
    await tb.publish("refunds", BY_HAND)

    tb.assert_settled(form.process_refund, "copy", "copy", "copy", "copy", "dead letter")
    assert [call.attempt for call in tb.calls(form.process_refund)] == [1, 2, 3, 4, 5]
    tb.assert_nothing_waits()


async def test_a_dead_letter_has_the_bytes_that_arrived_and_the_count(tb: TestApp) -> None:
    await tb.publish("refunds", BY_HAND, headers={"tenant": "north"})

    (dead,) = tb.published("refunds.dlq")
    assert dead.payload == BY_HAND
    assert dead.headers[RETRY_COUNT_HEADER] == "5"
    assert dead.headers["tenant"] == "north"


async def test_a_busy_processor_gets_its_refund_again_after_the_backoff(
    tb: TestApp, form: ModuleType
) -> None:
    await tb.publish("refunds", Refund(1, "busy-once", 500))
    await tb.advance(service.BACKOFF)

    tb.assert_settled(form.process_refund, "parked", "ack")
    first, second = tb.calls(form.process_refund)
    assert second.at - first.at >= service.BACKOFF.total_seconds()
    tb.assert_nothing_waits()


async def test_a_processor_that_stays_busy_costs_five_deliveries(
    tb: TestApp, form: ModuleType
) -> None:
    await tb.publish("refunds", Refund(1, "busy", 500))
    await tb.advance(4 * service.BACKOFF)

    tb.assert_settled(form.process_refund, *["parked"] * 4, "dead letter")
    (dead,) = tb.published("refunds.dlq")
    assert dead.headers[RETRY_COUNT_HEADER] == "5"


async def test_a_declined_refund_is_dropped_and_goes_nowhere(tb: TestApp, form: ModuleType) -> None:
    await tb.publish("refunds", Refund(1, "closed", 500))
    await tb.advance(2 * service.BACKOFF)

    tb.assert_settled(form.process_refund, "drop")
    tb.assert_published("refunds.dlq", times=0)


async def test_what_is_no_refund_is_kept_beside_the_stream(tb: TestApp, form: ModuleType) -> None:
    broken = b'{"id": 1, "card": "4000 1234", "amount_cents": "a lot"}'
    await tb.publish("refunds", broken)

    tb.assert_called(form.process_refund, times=0)
    (kept,) = tb.published("refunds.undecodable")
    assert kept.payload == broken
    tb.assert_published("refunds.dlq", times=0)


async def test_the_reviewer_reads_how_often_it_was_tried(
    tb: TestApp, form: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="refunds"):
        await tb.publish("refunds", Refund(7, "down", 500))

    (call,) = tb.calls(form.review)
    assert call.value == Refund(7, "down", 500)
    tb.assert_settled(form.review, "ack")
    assert "refund 7 needs a person to look at it, tried 5 times" in caplog.messages


async def test_several_at_once_do_not_get_in_each_others_way(
    tb: TestApp, form: ModuleType, processor: Processor
) -> None:
    cards = ["4000 1234", "busy-once", "down", "closed", "4000 5678"]
    await tb.publish_many("refunds", [Refund(n, card, 100 * n) for n, card in enumerate(cards)])
    await tb.advance(service.BACKOFF)

    assert processor.paid == {0: 0, 1: 100, 4: 400}
    assert [call.value for call in tb.calls(form.review)] == [Refund(2, "down", 200)]
    tb.assert_nothing_waits()


async def test_the_backoff_is_exact_to_the_millisecond(form: ModuleType) -> None:
    async with TestApp(form.app) as tb:
        await tb.publish("refunds", Refund(1, "busy", 500))
        await tb.advance(4 * service.BACKOFF - MILLISECOND)
        tb.assert_called(form.process_refund, times=4)

        await tb.advance(MILLISECOND)

        tb.assert_called(form.process_refund, times=5)


async def test_an_urgent_refund_is_back_in_its_place_after_the_backoff(form: ModuleType) -> None:
    async with TestApp(form.app) as tb:
        await tb.publish("refunds.priority", BY_HAND)
        for tries in range(1, 5):
            await tb.advance(service.BACKOFF - MILLISECOND)
            tb.assert_called(form.process_priority_refund, times=tries)
            await tb.advance(MILLISECOND)

        calls = tb.calls(form.process_priority_refund)
        assert [call.attempt for call in calls] == [1, 2, 3, 4, 5]
        assert len({call.id for call in calls}) == 1
        tb.assert_settled(form.process_priority_refund, *["given back"] * 4, "dead letter")
        (dead,) = tb.published("refunds.dlq")
        assert (dead.payload, dead.headers[RETRY_COUNT_HEADER]) == (BY_HAND, "5")
        tb.assert_published("refunds.priority", times=1)


async def test_both_forms_give_the_same() -> None:
    assert await everything_that_happens(service) == await everything_that_happens(manual)


async def everything_that_happens(form: ModuleType) -> list[object]:
    """One refund of each kind, from its arrival to its end."""
    cards = ["4000 1234", "busy-once", "busy", "down", "closed"]
    async with TestApp(form.app) as tb:
        for stream in ("refunds", "refunds.priority"):
            await tb.publish_many(stream, [Refund(n, card, 500) for n, card in enumerate(cards)])
        await tb.publish("refunds", b"no refund")
        await tb.advance(5 * service.BACKOFF)
        tb.assert_nothing_waits()
        return [
            *((one.at, one.payload, one.attempt, one.how) for one in tb.settlements(form.review)),
            *(
                (one.at, one.payload, one.attempt, one.how)
                for handler in (form.process_refund, form.process_priority_refund)
                for one in tb.settlements(handler)
            ),
            *((one.at, one.address, one.kind, one.payload) for one in tb.published()),
        ]
