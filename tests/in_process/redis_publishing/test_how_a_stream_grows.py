"""How many entries a stream keeps, with and without ``delete_acknowledged`` (case MG-01)."""

from __future__ import annotations

import msgspec
import pytest

from surestream import App, Attempt, Outcome, Subscriber, ack, drop, retry, retry_after
from surestream.redis import DurableZset, RedisBroker, RedisStream
from surestream.testing import TestApp
from tests.in_process.redis_publishing.looking import length

MESSAGES = 200


class Refund(msgspec.Struct):
    id: int


async def process(refund: Refund, attempt: Attempt) -> Outcome:
    """Every fifth is retried twice: at once, after a delay, or until it is dead."""
    if refund.id % 5 or attempt.number == 3:
        return drop() if refund.id % 7 == 0 else ack()
    if refund.id % 10 == 0:
        return retry()
    return retry_after(10)


@pytest.mark.case("MG-01")
@pytest.mark.parametrize("delete", [True, False], ids=["deleting", "keeping"])
@pytest.mark.parametrize("parked", [True, False], ids=["parked", "timed"])
async def test_a_stream_holds_what_is_still_to_be_done(delete: bool, parked: bool) -> None:
    # given
    app = App("refunds")
    redis = app.add(RedisBroker())
    delays = DurableZset("refunds.delayed") if parked else None
    source = RedisStream(
        "refunds", group="refunds", delayed_retry=delays, delete_acknowledged=delete
    )
    redis.include(Subscriber(source, process), max_attempts=5, dead_letter="refunds.dlq")

    async with TestApp(app) as tb:
        # when
        for number in range(MESSAGES):
            await redis.publish("refunds", Refund(number))
        await tb.settle()
        waiting = MESSAGES // 10 if not parked else 0
        assert await length(tb, redis, "refunds") == (waiting if delete else MESSAGES)
        await tb.advance(10)
        await tb.advance(10)

        # then copies never stay, originals only where they shall
        tb.assert_called(process, times=MESSAGES + 2 * MESSAGES // 5)
        assert await length(tb, redis, "refunds") == (0 if delete else MESSAGES)
