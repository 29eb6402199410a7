"""What a TestApp shows of a delay is the same whoever keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from surestream import App, Broker, Delivery, Headers, Outcome, Subscriber, retry_after
from surestream.contract import Source
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.message import RETRY_COUNT_HEADER
from surestream.redis.broker import RedisBroker
from surestream.redis.sources import DurableZset, RedisStream
from surestream.testing import TestApp
from tests.in_process.testing.service import BACKOFF, Refund

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Keeper:
    """A broker, the source whose delays it keeps, and how tests see them kept."""

    broker: type[Broker[Any]]
    source: Source
    dead_source: Source
    how: str
    settled: str

    def app(self, handler: Any, **options: Any) -> App:
        app = App("delays")
        broker = app.add(self.broker())
        broker.include(Subscriber(self.source, handler), **options)
        broker.include(Subscriber(self.dead_source, review))
        return app


KEEPERS = [
    pytest.param(
        Keeper(MemoryBroker, MemoryTopic("work"), MemoryTopic("dead"), "given back", "given back"),
        id="memory",
    ),
    pytest.param(
        Keeper(
            RedisBroker,
            RedisStream("work", group="g"),
            RedisStream("dead", group="g"),
            "held",
            "copy",
        ),
        id="stream, timer",
    ),
    pytest.param(
        Keeper(
            RedisBroker,
            RedisStream("work", group="g", delayed_retry=DurableZset("work.delayed")),
            RedisStream("dead", group="g"),
            "parked",
            "parked",
        ),
        id="stream, set",
    ),
]


async def review(refund: Refund, headers: Headers) -> None:
    """Read the dead letters."""


async def always_busy(refund: Refund) -> Outcome:
    """Ask for a delay whenever it is called."""
    return retry_after(BACKOFF)


@pytest.mark.case("TH-01", "TH-10")
@pytest.mark.parametrize("keeper", KEEPERS)
async def test_four_deliveries_one_dead_letter_then_silence(keeper: Keeper) -> None:
    app = keeper.app(always_busy, max_attempts=4, dead_letter="dead")
    async with TestApp(app) as tb:
        await tb.publish("work", Refund(1))
        for _ in range(10):
            await tb.advance(BACKOFF)

        assert [(call.attempt, call.at) for call in tb.calls(always_busy)] == [
            (1, 0.0),
            (2, 30.0),
            (3, 60.0),
            (4, 90.0),
        ]
        tb.assert_settled(always_busy, *[keeper.settled] * 3, "dead letter")
        (dead,) = tb.published("dead")
        assert dead.headers[RETRY_COUNT_HEADER] == "4"
        (reviewed,) = tb.calls(review)
        assert (reviewed.value, reviewed.at) == (Refund(1), 90.0)
        tb.assert_nothing_waits()


@pytest.mark.case("TH-09", "TH-10")
@pytest.mark.parametrize("keeper", KEEPERS)
async def test_nothing_a_millisecond_before_and_exactly_one_after(keeper: Keeper) -> None:
    async with TestApp(keeper.app(always_busy, max_attempts=20)) as tb:
        await tb.advance(0.012)
        await tb.publish("work", Refund(1))
        for delivery in range(1, 10):
            await tb.advance(BACKOFF - MILLISECOND)
            tb.assert_called(always_busy, times=delivery)
            await tb.advance(MILLISECOND)
            tb.assert_called(always_busy, times=delivery + 1)


@pytest.mark.case("CK-10", "TH-10")
@pytest.mark.parametrize("keeper", KEEPERS)
async def test_delays_of_less_than_a_millisecond(keeper: Keeper) -> None:
    async def soon(refund: Refund, delivery: Delivery) -> Outcome | None:
        return retry_after(0.0004 if refund.id == 1 else 0.0007) if delivery.attempt == 1 else None

    async with TestApp(keeper.app(soon, max_attempts=5)) as tb:
        await tb.publish("work", Refund(1))
        await tb.publish("work", Refund(2))

        await tb.advance(0.0003)
        tb.assert_called(soon, times=2)
        await tb.advance(0.0002)
        await tb.advance(0.003)
        tb.assert_called(soon, times=4)
        tb.assert_nothing_waits()


@pytest.mark.parametrize("keeper", KEEPERS)
async def test_what_waits_is_shown_with_its_time(keeper: Keeper) -> None:
    async with TestApp(keeper.app(always_busy, max_attempts=5)) as tb:
        await tb.publish("work", Refund(1))
        await tb.advance(10)
        await tb.publish("work", Refund(2))

        first, second = tb.parked()
        assert (first.due, second.due) == (30.0, 40.0)
        assert (first.how, first.payload) == (keeper.how, b'{"id":1,"card":"good"}')
        await tb.advance(20)
        assert [waiting.due for waiting in tb.parked()] == [40.0, 60.0]


@pytest.mark.case("TH-03")
@pytest.mark.parametrize("kind", ["memory", "stream"])
async def test_a_group_gets_each_message_once(kind: str) -> None:
    async def one(refund: Refund) -> None: ...
    async def two(refund: Refund) -> None: ...
    async def other(refund: Refund) -> None: ...

    app = App("groups")
    if kind == "memory":
        broker: Broker[Any] = app.add(MemoryBroker())
        source: Any = MemoryTopic
    else:
        broker, source = app.add(RedisBroker()), RedisStream
    broker.include(Subscriber(source("work", group="first"), one))
    broker.include(Subscriber(source("work", group="first"), two))
    broker.include(Subscriber(source("work", group="second"), other))

    async with TestApp(app) as tb:
        for number in range(10):
            await tb.publish("work", Refund(number))

        first = [call.value for handler in (one, two) for call in tb.calls(handler)]
        assert sorted(refund.id for refund in first if isinstance(refund, Refund)) == [*range(10)]
        tb.assert_called(other, times=10)
