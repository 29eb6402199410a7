"""Handlers grouped in a module, included with a prefix and shared settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from surestream import (
    App,
    DeclarationError,
    Delivery,
    HandlerTimeout,
    Outcome,
    Redelivery,
    Router,
    Subscriber,
    ack,
    drop,
    retry,
    retry_after,
    subscriber,
)
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.redis import DurableZset, RedisBroker, RedisSource, RedisStream
from surestream.testing import TestApp


class Receipt(msgspec.Struct):
    order: int


@subscriber(RedisStream("orders", group="g", delayed_retry=DurableZset("orders.delayed")))
async def process(order: int) -> Outcome:
    return retry_after(30) if order == 0 else retry() if order < 0 else ack()


@subscriber(RedisStream("orders.dlq", group="g"))
async def review(order: int) -> None: ...


@subscriber(MemoryTopic("orders"))
async def remember(order: int) -> Receipt:
    return Receipt(order)


# -- prefixes -----------------------------------------------------------------------------


async def test_a_prefix_stands_before_everything_that_the_group_names() -> None:
    router = Router[RedisSource](prefix="eu.", policy=Redelivery(max_attempts=2))
    router.include(process, dead_letter="orders.dlq", quarantine="orders.bad")
    router.include(review)
    app = App("shop")
    broker = app.add(RedisBroker())
    broker.include_router(router)

    async with TestApp(app) as tb:
        await tb.publish("eu.orders", 0)
        assert [message.address for message in tb.published(kind="delay")] == ["eu.orders"]
        await tb.advance(30)
        await tb.publish("eu.orders", b"no number")

        tb.assert_called(process, times=2)
        tb.assert_called(review, times=1)
        (letter,) = tb.published(kind="dead letter")
        assert letter.address == "eu.orders.dlq"
        (bad,) = tb.published(kind="quarantine")
        assert bad.address == "eu.orders.bad"
    mounted = broker.mounts[0]
    assert mounted.source == RedisStream(
        "eu.orders", group="g", delayed_retry=DurableZset("eu.orders.delayed")
    )


async def test_the_default_quarantine_follows_its_stream() -> None:
    router = Router[RedisSource](prefix="eu.")
    router.include(review)
    router.include(process, quarantine=None)
    broker = RedisBroker()
    broker.include_router(router)

    assert [mounted.quarantine for mounted in broker.mounts] == ["eu.orders.dlq.undecodable", None]


async def test_prefixes_of_nested_routers_add_up_the_outer_one_first() -> None:
    inner = Router[MemoryTopic](prefix="shop.")
    inner.include(remember, reply_to="receipts", dead_letter="orders.dlq", max_attempts=3)
    outer = Router[MemoryTopic](prefix="eu.")
    outer.include_router(inner)
    broker = MemoryBroker()
    broker.include_router(outer)

    (mounted,) = broker.mounts
    assert mounted.source == MemoryTopic("eu.shop.orders")
    assert mounted.reply_to == "eu.shop.receipts"
    assert mounted.terms.dead_letter == "eu.shop.orders.dlq"


async def test_retry_to_and_reply_to_take_it_and_functions_are_left_alone() -> None:
    def elsewhere(delivery: Delivery) -> str:
        return "elsewhere"

    @subscriber(RedisStream("plain", group="g"))
    async def answer(order: int) -> Receipt:
        return Receipt(order)

    router = Router[RedisSource](prefix="eu.")
    router.include(answer, retry_to="plain", reply_to="receipts")
    router.include(answer, retry_to=elsewhere, reply_to=elsewhere)
    broker = RedisBroker()
    broker.include_router(router)

    one, two = broker.mounts
    assert (one.retry_to, one.reply_to) == ("eu.plain", "eu.receipts")
    assert (two.retry_to, two.reply_to) == (elsewhere, elsewhere)


async def test_without_a_prefix_a_source_is_left_as_it_is() -> None:
    router = Router[RedisSource]()
    router.include(process)
    broker = RedisBroker()
    broker.include_router(router)

    assert broker.mounts[0].source is process.source


async def test_a_test_asks_for_the_handler_as_it_was_decorated() -> None:
    app = App("shop")
    broker = app.add(MemoryBroker())
    for prefix in ("eu.", "us."):
        router = Router[MemoryTopic](prefix=prefix)
        router.include(remember, reply_to="receipts")
        broker.include_router(router)

    async with TestApp(app) as tb:
        await tb.publish("eu.orders", 1)
        await tb.publish("us.orders", 2)

        assert [call.value for call in tb.calls(remember)] == [1, 2]
        tb.assert_published("eu.receipts", kind="reply")
        tb.assert_published("us.receipts", kind="reply")
        with pytest.raises(DeclarationError, match="does not include it"):
            tb.calls(Subscriber(MemoryTopic("orders", group="other"), remember.handler))


# -- one router, several times ------------------------------------------------------------


async def test_one_router_on_two_brokers() -> None:
    router = Router[MemoryTopic](policy=Redelivery(max_attempts=3))
    router.include(remember, reply_to="receipts")
    app = App("shop")
    one, two = app.add(MemoryBroker()), app.add(MemoryBroker())
    one.include_router(router)
    two.include_router(router)

    async with TestApp(app) as tb:
        await tb.publish("orders", 1, broker=one)
        await tb.publish("orders", 2, broker=two)
        await tb.publish("orders", 3, broker=two)

        assert [call.value for call in tb.calls(remember)] == [1, 2, 3]
    assert one.mounts[0] is not two.mounts[0]


async def test_one_router_twice_with_different_prefixes() -> None:
    router = Router[MemoryTopic]()
    router.include(remember, reply_to="receipts", dead_letter="orders.dlq", max_attempts=2)
    broker = MemoryBroker()
    for prefix in ("eu.", "us."):
        outer = Router[MemoryTopic](prefix=prefix)
        outer.include_router(router)
        broker.include_router(outer)

    assert [
        (mounted.source.name, mounted.reply_to, mounted.terms.dead_letter)
        for mounted in broker.mounts
    ] == [
        ("eu.orders", "eu.receipts", "eu.orders.dlq"),
        ("us.orders", "us.receipts", "us.orders.dlq"),
    ]


# -- shared settings ----------------------------------------------------------------------


async def test_a_policy_holds_for_every_handler() -> None:
    router = Router[MemoryTopic](
        policy=Redelivery(on_error={KeyError: drop()}, dead_letter="dlq"), prefix="eu."
    )
    router.include(remember, reply_to="receipts", max_attempts=4)
    router.include(remember, Redelivery(max_attempts=5), reply_to="receipts")
    broker = MemoryBroker()
    broker.include_router(router)

    one, two = broker.mounts
    assert (one.terms.max_attempts, two.terms.max_attempts) == (4, 5)
    assert one.terms.dead_letter == two.terms.dead_letter == "eu.dlq"
    assert one.errors(KeyError(), 1) == drop()


def test_workers_timeout_and_middleware_are_for_those_that_set_none() -> None:
    async def one(delivery: Delivery, call_next: Callable[..., Any]) -> object: ...
    async def two(delivery: Delivery, call_next: Callable[..., Any]) -> object: ...

    router = Router[MemoryTopic](workers=8, timeout=timedelta(seconds=20), middleware=[one])
    router.include(remember, reply_to="a")
    router.include(remember, reply_to="a", workers=2, timeout=5, middleware=[two])
    broker = MemoryBroker()
    broker.include_router(router)

    assert [(m.workers, m.timeout, m.middleware) for m in broker.mounts] == [
        (8, 20.0, (one,)),
        (2, 5.0, (one, two)),
    ]


def test_those_of_an_outer_router_hold_where_the_inner_one_sets_none() -> None:
    bare = Router[MemoryTopic]()
    bare.include(remember, reply_to="a")
    own = Router[MemoryTopic](workers=2, timeout=5)
    own.include(remember, reply_to="a")
    outer = Router[MemoryTopic](workers=8, timeout=20)
    outer.include_router(bare)
    outer.include_router(own)
    broker = MemoryBroker()
    broker.include_router(outer)

    assert [(m.workers, m.timeout) for m in broker.mounts] == [(8, 20.0), (2, 5.0)]


@pytest.mark.rule("2.5")
async def test_its_timeout_and_workers_hold_when_it_runs() -> None:
    under_way = 0
    most = 0

    async def slow(order: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            await asyncio.sleep(60)
        finally:
            under_way -= 1

    router = Router[MemoryTopic](
        workers=3, timeout=10, policy=Redelivery(on_error={HandlerTimeout: drop()})
    )
    router.include(Subscriber(MemoryTopic("slow"), slow))
    app = App("shop")
    app.add(MemoryBroker()).include_router(router)
    async with TestApp(app) as tb:
        for order in range(5):
            await tb.publish("slow", order)
        await tb.advance(20)

        assert most == 3
        tb.assert_settled(slow, *["drop"] * 5)
