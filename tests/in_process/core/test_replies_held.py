"""A reply that cannot be stored holds its message (rules 5.1, 5.2, 5.4)."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

from surestream import (
    ConnectionLost,
    Delivery,
    drop,
)
from surestream.delivery import Origin
from tests.in_process.core.bench import BenchDelivery
from tests.in_process.core.service import Service, details, headers
from tests.in_process.core.sources import BenchSource


class Receipt(msgspec.Struct):
    """What is replied."""

    order: int


async def process(order: int) -> Receipt:
    return Receipt(order)


def receipts(service: Service, address: str = "receipts") -> list[bytes]:
    return [message.payload for message in service.bench.at(address)]


def held(service: Service, source: BenchSource) -> int:
    return len(service.bench.group(source).held)


# -- what cannot be stored is held (rule 5.2) ---------------------------------------------


@pytest.mark.rule("5.1", "5.2")
async def test_a_reply_that_cannot_be_stored_holds_its_message_and_runs_no_handler_again(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    source = service.on(process, reply_to="receipts", max_attempts=2, dead_letter="orders.dlq")
    service.bench.refuse("receipts", "memory is full")
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(3600)
        tb.assert_called(process, times=1)
        assert held(service, source) == 1
        assert tb.settlements(process) == []
        assert [one.how for one in tb.parked()] == ["not stored"]

        service.bench.take_all()
        await tb.advance(6)

        assert receipts(service) == [b'{"order":7}']
        tb.assert_settled(process, "ack")
        tb.assert_called(process, times=1)
        assert service.bench.at("orders.dlq") == []
    assert "is held unsettled: memory is full" in caplog.text


async def test_a_lost_connection_is_no_failure_of_the_handler(service: Service) -> None:
    service.on(process, reply_to="receipts", on_error={ConnectionLost: drop()})
    service.bench.refuses = lambda message: (
        ConnectionLost("gone") if message.address == "receipts" else None
    )
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(60)
        service.bench.take_all()
        await tb.advance(6)

        tb.assert_settled(process, "ack")
        assert receipts(service) == [b'{"order":7}']


@pytest.mark.rule("5.2")
async def test_a_reply_refused_for_good_becomes_a_dead_letter(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    source = service.on(process, reply_to="receipts", max_attempts=5, dead_letter="orders.dlq")
    service.bench.refuse("receipts", "too large", permanent=True)
    service.bench.ready(source, b"7", headers=(("x-ruststream-retry-count", b"2"),))
    async with service.test() as tb:
        await tb.advance(10)

        tb.assert_called(process, times=1)
        tb.assert_settled(process, "dead letter")
        (letter,) = service.bench.at("orders.dlq")
        assert letter.payload == b"7"
        assert headers(letter)["x-ruststream-retry-count"] == "3"
        assert details(letter)["reason"] == "reply-refused"
        assert tb.run.health.ready
    assert "its reply was refused for good, dead letter to orders.dlq" in caplog.text


@pytest.mark.rule("5.2")
async def test_without_a_dead_letter_it_is_held_and_health_says_so(service: Service) -> None:
    source = service.on(process, reply_to="receipts", max_attempts=5)
    service.bench.refuse("receipts", "too large", permanent=True)
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(600)

        tb.assert_called(process, times=1)
        assert held(service, source) == 1
        assert tb.run.health.reasons == ("orders/g: 1 messages are refused",)


@pytest.mark.rule("6.2")
async def test_a_held_message_keeps_its_claim(service: Service) -> None:
    service.on(process, reply_to="receipts")
    service.bench.refuse("receipts")
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(90)

        assert [ids for _, ids in service.bench.touched if ids]


@pytest.mark.rule("7.3")
async def test_a_stop_waits_for_the_reply(service: Service) -> None:
    service.on(process, reply_to="receipts")
    service.bench.refuse("receipts")
    async with service.test() as tb:
        await tb.publish("orders", 7)
        asyncio.get_running_loop().call_later(3, service.bench.take_all)

    assert receipts(service) == [b'{"order":7}']


@pytest.mark.rule("7.3")
async def test_a_reply_that_cannot_be_stored_at_the_stop_leaves_its_message_unsettled(
    service: Service,
) -> None:
    source = service.on(process, reply_to="receipts")
    service.bench.refuse("receipts")
    async with service.test() as tb:
        await tb.publish("orders", 7)

    assert len(service.bench.group(source).orphans) == 1
    assert receipts(service) == []


@pytest.mark.rule("5.4")
async def test_who_was_overtaken_replies_nothing(service: Service) -> None:
    async def slow(order: int) -> Receipt:
        await asyncio.sleep(10)
        return Receipt(order)

    source = service.on(slow, reply_to="receipts")
    async with service.test() as tb:
        await tb.publish("orders", 7)
        (entry,) = service.bench.group(source).held
        entry.holder = BenchDelivery(entry, Other())
        await tb.advance(10)

        tb.assert_settled(slow, "overtaken")
        assert tb.published("receipts") == []
        assert held(service, source) == 1


class Other(Origin):
    """Another process."""

    subscription = "orders/g"
    max_attempts = None

    def attempt(self, delivery: Delivery) -> int:
        return 1

    def held(self) -> tuple[Delivery, ...]:
        return ()
