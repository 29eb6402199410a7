"""The same test body runs in process and against what is really there (rule 8.3)."""

from __future__ import annotations

import asyncio

import pytest

from surestream import Delivery, Outcome, Subscriber, retry_after
from surestream.memory import MemoryTopic
from surestream.testing import NotSettled, TestApp
from tests.in_process.testing.service import Processor, Refund, review_refund, service, under_test

SHORT = 0.3


async def briefly_busy(refund: Refund, delivery: Delivery) -> Outcome | None:
    return retry_after(SHORT) if delivery.attempt < 3 else None


@pytest.mark.rule("8.3")
@pytest.mark.case("TH-10")
@pytest.mark.parametrize("live", [False, True], ids=["in process", "live"])
async def test_one_body_two_ways(live: bool) -> None:
    app = service(Subscriber(MemoryTopic("busy"), briefly_busy))
    async with TestApp(app, state=Processor(), live=live) as tb:
        await tb.publish("refunds", Refund(1, "down"))
        await tb.publish("busy", Refund(2))
        await tb.advance(SHORT)
        await tb.advance(SHORT)

        assert [call.attempt for call in tb.calls(briefly_busy)] == [1, 2, 3]
        tb.assert_settled(briefly_busy, "given back", "given back", "ack")
        tb.assert_called(review_refund)
        tb.assert_published("refunds.dlq", kind="dead letter")
        tb.assert_nothing_waits()


@pytest.mark.rule("8.3")
async def test_live_what_does_not_come_to_rest_is_told() -> None:
    release = asyncio.Event()

    async def waits(refund: Refund) -> None:
        await release.wait()

    async with under_test(Subscriber(MemoryTopic("waits"), waits), live=True, patience=0.4) as tb:
        with pytest.raises(NotSettled, match=r"at work after 0\.4 s: waits/default 1 waits runs"):
            await tb.publish("waits", Refund(1))
        release.set()
