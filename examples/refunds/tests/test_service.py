"""The refunds service in process: no server, and the clock moves only when a test says so."""

from __future__ import annotations

import logging
from datetime import timedelta
from types import ModuleType

import pytest

from examples.refunds import manual, service
from examples.refunds.processor import Processor
from examples.refunds.service import BACKOFF, Refund
from surestream import RETRY_COUNT_HEADER
from surestream.testing import TestApp

MILLISECOND = timedelta(milliseconds=1)
# Spelled as no encoder of ours would: what ends as a dead letter has to be these very bytes.
BY_HAND = b'{ "id": 1, "card": "down", "amount_cents": 500 }'


@pytest.fixture(params=[service, manual], ids=["decorators", "manual"])
def form(request: pytest.FixtureRequest) -> ModuleType:
    """The service in one of its two forms."""
    module: ModuleType = request.param
    return module


async def test_a_refund_is_paid_and_done(form: ModuleType) -> None:
    processor = Processor()
    async with TestApp(form.app, state=processor) as tb:
        await tb.publish("refunds", Refund(1, "4000 1234", 500))

        tb.assert_settled(form.process_refund, "ack")
        tb.assert_nothing_waits()
    assert processor.paid == {1: 500}


async def test_without_an_answer_it_is_tried_again_at_once(form: ModuleType) -> None:
    async with TestApp(form.app) as tb:
        await tb.publish("refunds", BY_HAND)

        # No time has passed, and all five deliveries are spent.
        tb.assert_settled(form.process_refund, "copy", "copy", "copy", "copy", "dead letter")
        assert [call.attempt for call in tb.calls(form.process_refund)] == [1, 2, 3, 4, 5]
        assert {call.at for call in tb.calls(form.process_refund)} == {0}
        tb.assert_nothing_waits()


async def test_a_dead_letter_has_the_bytes_that_arrived_and_the_count(form: ModuleType) -> None:
    async with TestApp(form.app) as tb:
        await tb.publish("refunds", BY_HAND, headers={"tenant": "north"})

        (dead,) = tb.published("refunds.dlq")
        assert dead.payload == BY_HAND
        assert dead.headers[RETRY_COUNT_HEADER] == "5"
        assert dead.headers["tenant"] == "north"


async def test_a_busy_processor_is_left_alone_for_exactly_the_backoff(form: ModuleType) -> None:
    async with TestApp(form.app) as tb:
        await tb.publish("refunds", Refund(1, "busy-once", 500))
        tb.assert_called(form.process_refund, times=1)

        await tb.advance(BACKOFF - MILLISECOND)
        tb.assert_called(form.process_refund, times=1)

        await tb.advance(MILLISECOND)
        tb.assert_settled(form.process_refund, "parked", "ack")
        tb.assert_nothing_waits()


async def test_a_processor_that_stays_busy_costs_five_deliveries(form: ModuleType) -> None:
    async with TestApp(form.app) as tb:
        await tb.publish("refunds", Refund(1, "busy", 500))

        await tb.advance(4 * BACKOFF - MILLISECOND)
        tb.assert_published("refunds.dlq", times=0)

        await tb.advance(MILLISECOND)
        tb.assert_settled(form.process_refund, *["parked"] * 4, "dead letter")
        (dead,) = tb.published("refunds.dlq")
        assert dead.headers[RETRY_COUNT_HEADER] == "5"


async def test_a_declined_refund_is_dropped_and_goes_nowhere(form: ModuleType) -> None:
    async with TestApp(form.app) as tb:
        await tb.publish("refunds", Refund(1, "closed", 500))
        await tb.advance(20 * BACKOFF)

        tb.assert_settled(form.process_refund, "drop")
        tb.assert_published("refunds.dlq", times=0)


async def test_what_is_no_refund_is_kept_beside_the_stream(form: ModuleType) -> None:
    broken = b'{"id": 1, "card": "4000 1234", "amount_cents": "a lot"}'
    async with TestApp(form.app) as tb:
        await tb.publish("refunds", broken)

        tb.assert_called(form.process_refund, times=0)
        (kept,) = tb.published("refunds.undecodable")
        assert kept.payload == broken
        tb.assert_published("refunds.dlq", times=0)


async def test_the_reviewer_reads_how_often_it_was_tried(
    form: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="refunds"):
        async with TestApp(form.app) as tb:
            await tb.publish("refunds", Refund(7, "down", 500))

            (call,) = tb.calls(form.review)
            assert call.value == Refund(7, "down", 500)
            tb.assert_settled(form.review, "ack")
    assert "refund 7 needs a person to look at it, tried 5 times" in caplog.messages


async def test_both_forms_give_the_same() -> None:
    assert await everything_that_happens(service) == await everything_that_happens(manual)


async def everything_that_happens(form: ModuleType) -> list[object]:
    """One refund of each kind, from its arrival to its end."""
    cards = ["4000 1234", "busy-once", "busy", "down", "closed"]
    async with TestApp(form.app) as tb:
        for number, card in enumerate(cards, start=1):
            await tb.publish("refunds", Refund(number, card, 500))
        await tb.publish("refunds", b"no refund")
        await tb.advance(5 * BACKOFF)
        tb.assert_nothing_waits()
        return [
            *((one.at, one.payload, one.attempt, one.how) for one in tb.settlements(form.review)),
            *(
                (one.at, one.payload, one.attempt, one.how)
                for one in tb.settlements(form.process_refund)
            ),
            *((one.at, one.address, one.kind, one.payload) for one in tb.published()),
        ]
