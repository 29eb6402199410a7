"""More successors under way than are let to be: workers wait, and all of them go on (rule 5.2)."""

from __future__ import annotations

import asyncio

import pytest

from surestream import App, Attempt, Outcome, ack, retry, subscriber
from surestream.redis import RedisBroker, RedisStream
from surestream.testing import TestApp

MESSAGES = 1500


@pytest.mark.rule("5.2")
async def test_every_worker_goes_on_after_a_crowd_of_retries() -> None:
    runs: list[int] = []

    @subscriber(RedisStream("tasks", group="g"))
    async def handle(number: int, attempt: Attempt) -> Outcome:
        runs.append(number)
        return retry() if attempt.number == 1 else ack()

    app = App("crowd")
    redis = app.add(RedisBroker())
    redis.include(handle, max_attempts=3, workers=8)

    async with TestApp(app) as tb:
        await tb.publish_many("tasks", range(MESSAGES))
        (consumer,) = tb.run.subscriptions
        settling = consumer.settling
        # Two at once must both be let go, however the futures they wait for are kept.
        settling.storing += 1000
        waiting = [asyncio.create_task(settling.eased()) for _ in range(3)]
        await tb.settle()
        assert not any(one.done() for one in waiting)
        settling.storing -= 999
        settling._one_less()
        await tb.settle()
        assert all(one.done() for one in waiting)
    assert sorted(runs) == sorted([*range(MESSAGES)] * 2)
