"""Replies on Redis streams: what travels with them, and where they may not go."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from surestream import Delivery, Outcome, Subscriber, ack, retry
from surestream.redis import DurableZset, RedisBroker, RedisSource, RedisStream
from surestream.redis.in_process import InProcessRedis
from surestream.redis.link import Link
from surestream.testing import TestApp
from tests.in_process.core.service import Service

ORDERS = RedisStream("orders", group="g")
CLAIMED = RedisStream.claiming("orders", min_idle=30, group="g")


class Receipt(msgspec.Struct):
    order: int


async def process(order: int) -> Receipt:
    return Receipt(order)


def service_of(
    handler: Callable[..., Any], source: RedisSource = ORDERS, **options: Any
) -> tuple[Service, RedisBroker]:
    service = Service()
    broker = service.app.add(RedisBroker())
    broker.include(Subscriber(source, handler), **options)
    return service, broker


class Look:
    """A connection of the test's own to the in-process server."""

    def __init__(self, tb: TestApp, broker: RedisBroker) -> None:
        server = tb.run.context.servers[broker]
        assert isinstance(server, InProcessRedis)
        self._link = Link(server.connection_factory(), name="look")

    async def __aenter__(self) -> Link:
        await self._link.open()
        return self._link

    async def __aexit__(self, *error: object) -> None:
        await self._link.close()


async def fields(link: Link, key: str) -> list[list[bytes]]:
    rows: Any = await link.call("XRANGE", key, "-", "+")
    return [row[1] for row in rows]


@pytest.mark.rule("4.10")
@pytest.mark.parametrize("source", [ORDERS, CLAIMED], ids=["plain", "claiming"])
async def test_nothing_of_the_message_travels_with_its_reply(source: RedisSource) -> None:
    """Neither headers nor what a foreign producer wrote beside payload and headers."""
    service, broker = service_of(process, source, reply_to="receipts")
    message = ("_payload", "7", "h:tenant", "acme", "h:x-ruststream-retry-count", "2", "odd", "x")
    async with service.test() as tb, Look(tb, broker) as link:
        await link.call("XADD", "orders", "*", *message)
        await tb.settle()

        assert await fields(link, "receipts") == [[b"_payload", b'{"order":7}']]
        pending: Any = await link.call("XPENDING", "orders", "g")
        assert pending[0] == 0
        tb.assert_settled(process, "ack")


@pytest.mark.rule("4.7", "4.10")
async def test_a_reply_to_its_own_stream_is_no_copy(caplog: pytest.LogCaptureFixture) -> None:
    """It has no mark: other groups read it, and it stays."""
    seen: list[int] = []

    async def next_step(step: int) -> int | Outcome:
        return step + 1 if step < 3 else ack()

    async def watch(step: int) -> None:
        seen.append(step)

    service, broker = service_of(next_step, RedisStream("steps", group="g"), reply_to="steps")
    broker.include(Subscriber(RedisStream("steps", group="watch"), watch))
    async with service.test() as tb, Look(tb, broker) as link:
        await tb.publish("steps", 1)

        assert seen == [1, 2, 3]
        tb.assert_settled(next_step, "ack", "ack", "ack")
        assert await fields(link, "steps") == [[b"_payload", b"%d" % step] for step in (1, 2, 3)]
    assert "reply_to='steps' is read by steps/g itself" in caplog.text


@pytest.mark.rule("4.7")
async def test_the_reply_of_a_copy_deletes_the_copy() -> None:
    async def second(order: int, delivery: Delivery) -> Receipt | Outcome:
        return retry() if delivery.attempt == 1 else Receipt(order)

    service, broker = service_of(second, max_attempts=3, reply_to="receipts")
    async with service.test() as tb, Look(tb, broker) as link:
        await tb.publish("orders", 7)

        tb.assert_settled(second, "copy", "ack")
        assert await fields(link, "orders") == [[b"_payload", b"7"]]
        assert await fields(link, "receipts") == [[b"_payload", b'{"order":7}']]


@pytest.mark.rule("5.2")
async def test_a_key_of_another_type_holds_the_message_until_it_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    service, broker = service_of(process, reply_to="receipts", max_attempts=2, dead_letter="dlq")
    async with service.test() as tb, Look(tb, broker) as link:
        await link.call("SET", "receipts", "text")
        await tb.publish("orders", 7)
        await tb.advance(300)
        tb.assert_called(process, times=1)
        assert tb.settlements(process) == []

        await link.call("DEL", "receipts")
        await tb.advance(6)

        tb.assert_called(process, times=1)
        tb.assert_settled(process, "ack")
        assert await fields(link, "receipts") == [[b"_payload", b'{"order":7}']]
        assert await link.call("EXISTS", "dlq") == 0
    assert "key 'receipts' holds a string, and a stream is needed there" in caplog.text


@pytest.mark.rule("4.4")
@pytest.mark.parametrize("address", ["orders.delayed", "orders.delayed.unreadable"])
async def test_an_address_that_is_another_structure_is_refused(address: str) -> None:
    delayed = RedisStream("orders", group="g", delayed_retry=DurableZset("orders.delayed"))
    service, _ = service_of(process, delayed, reply_to=address)

    with pytest.raises(ValueError, match="is used as a sorted set and as a stream"):
        async with service.test():
            pass
