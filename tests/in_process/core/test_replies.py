"""What a handler returns is published, stored before its message is settled, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from surestream import (
    Delivery,
    EncodeError,
    JsonCodec,
    Outcome,
    Subscriber,
    ack,
    drop,
    retry,
    retry_after,
)
from surestream.codec import MsgpackCodec
from surestream.contract import Abilities
from surestream.memory import MemoryBroker, MemoryTopic
from tests.in_process.core.service import Service, details
from tests.in_process.core.sources import CLAIMING, CORE, NATIVE, STREAM, BenchSource


class Receipt(msgspec.Struct):
    """What is replied."""

    order: int


async def process(order: int) -> Receipt:
    return Receipt(order)


def receipts(service: Service, address: str = "receipts") -> list[bytes]:
    return [message.payload for message in service.bench.at(address)]


def held(service: Service, source: BenchSource) -> int:
    return len(service.bench.group(source).held)


# -- what is a reply ----------------------------------------------------------------------


@pytest.mark.rule("5.1")
@pytest.mark.parametrize("can", [STREAM, CLAIMING, NATIVE, CORE])
async def test_a_value_is_published_and_its_message_settled_in_one_step(
    service: Service, can: Abilities
) -> None:
    source = service.on(process, can, reply_to="receipts")
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert receipts(service) == [b'{"order":7}']
        tb.assert_settled(process, "ack")
        tb.assert_published("receipts", kind="reply")
        assert held(service, source) == 0
        assert service.bench.written == []  # there is no acknowledgement of its own
        tb.assert_nothing_waits()


async def test_it_is_stored_at_the_moment_the_original_is_still_held(service: Service) -> None:
    source = service.on(process, reply_to="receipts")
    seen: list[int] = []
    service.bench.refuses = lambda message: (
        seen.append(held(service, source)) if message.address == "receipts" else None
    )
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert seen == [1]
        assert held(service, source) == 0


async def test_none_is_no_reply(service: Service) -> None:
    async def sometimes(order: int) -> Receipt | None:
        return Receipt(order) if order % 2 else None

    service.on(sometimes, reply_to="receipts")
    async with service.test() as tb:
        for order in range(4):
            await tb.publish("orders", order)

        assert receipts(service) == [b'{"order":1}', b'{"order":3}']
        tb.assert_settled(sometimes, "ack", "ack", "ack", "ack")


async def test_an_outcome_is_an_outcome(service: Service) -> None:
    answers: list[Receipt | Outcome] = [retry(), retry_after(30), Receipt(3), drop(), ack()]

    async def decides(order: int) -> Receipt | Outcome:
        return answers.pop(0)

    service.on(decides, reply_to="receipts", max_attempts=9)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        tb.assert_settled(decides, "copy")
        await tb.advance(30)
        tb.assert_settled(decides, "copy", "copy", "ack")
        await tb.publish("orders", 1)
        await tb.publish("orders", 1)

        tb.assert_settled(decides, "copy", "copy", "ack", "drop", "ack")
        assert receipts(service) == [b'{"order":3}']


@pytest.mark.rule("2.2")
async def test_none_where_a_reply_was_promised_is_a_failure(service: Service) -> None:
    nothing: Any = None

    async def forgets(order: int) -> Receipt:
        return nothing

    service.on(forgets, reply_to="receipts", on_error={TypeError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 1)

        (call,) = tb.calls(forgets)
        assert "returned None" in str(call.error)
        tb.assert_settled(forgets, "drop")


@dataclass
class Plain:
    order: int


class Model(pydantic.BaseModel):
    order: int = pydantic.Field(alias="no")


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        (Plain(7), b'{"order":7}'),
        (Model(no=7), b'{"no":7}'),
        ([Receipt(7), Receipt(8)], b'[{"order":7},{"order":8}]'),
        (b"\x00raw", b"\x00raw"),
        ("text", b"text"),
        (0, b"0"),
        (False, b"false"),
        ("", b""),
        ({}, b"{}"),
    ],
    ids=repr,
)
async def test_every_value_but_none_is_a_reply(
    service: Service, value: object, payload: bytes
) -> None:
    async def answer(order: int):  # type: ignore[no-untyped-def]
        return value

    service.on(answer, reply_to="receipts")
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert receipts(service) == [payload]
        tb.assert_settled(answer, "ack")


async def test_a_codec_of_the_handlers_own_writes_its_replies(service: Service) -> None:
    service.on(process, reply_to="receipts", codec=MsgpackCodec())
    async with service.test() as tb:
        await tb.publish("orders", b"\x07")

        assert receipts(service) == [b"\x81\xa5order\x07"]


async def test_a_def_handler_replies_from_its_thread(service: Service) -> None:
    def compute(order: int) -> Receipt | Outcome:
        return retry() if order == 0 else Receipt(order)

    service.on(compute, reply_to="receipts", max_attempts=1)
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.publish("orders", 0)

        assert receipts(service) == [b'{"order":7}']
        tb.assert_settled(compute, "ack", "rejected")


async def test_replies_keep_the_order_of_their_messages(service: Service) -> None:
    source = service.on(process, reply_to="receipts")
    for order in range(300):
        service.bench.ready(source, b"%d" % order)
    async with service.test() as tb:
        await tb.settle()

        assert receipts(service) == [b'{"order":%d}' % order for order in range(300)]


async def test_the_attempt_that_succeeds_replies(service: Service) -> None:
    async def third(order: int, delivery: Delivery) -> Receipt:
        if delivery.attempt < 3:
            raise KeyError(order)
        return Receipt(order)

    service.on(third, reply_to="receipts", max_attempts=5)
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(10)

        tb.assert_settled(third, "copy", "copy", "ack")
        assert receipts(service) == [b'{"order":7}']


# -- what cannot become a reply is a failure ----------------------------------------------


class Unwritable:
    """No codec knows it."""


async def unwritable(order: int) -> Unwritable:
    return Unwritable()


@pytest.mark.rule("2.3")
async def test_a_value_that_cannot_be_written_is_a_failure(service: Service) -> None:
    service.on(unwritable, reply_to="receipts", on_error={EncodeError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)

        tb.assert_settled(unwritable, "drop")
        (call,) = tb.calls(unwritable)
        assert isinstance(call.error, EncodeError)
        assert receipts(service) == []


async def test_unlisted_it_is_retried_with_a_back_off_and_ends_as_a_dead_letter(
    service: Service,
) -> None:
    service.on(unwritable, reply_to="receipts", max_attempts=3, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(10)

        tb.assert_settled(unwritable, "copy", "copy", "dead letter")
        (letter,) = service.bench.at("orders.dlq")
        assert letter.payload == b"7"
        assert details(letter)["error"] == "surestream.errors.EncodeError"


async def test_a_codec_that_raises_what_it_likes_ends_no_worker(service: Service) -> None:
    class Broken(JsonCodec):
        def encode(self, value: object) -> bytes:
            raise ZeroDivisionError

    service.on(process, reply_to="receipts", codec=Broken(), on_error={ZeroDivisionError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.publish("orders", 8)

        tb.assert_settled(process, "drop", "drop")
        assert tb.run.health.ready


# -- reply_to as a function ---------------------------------------------------------------


async def test_a_function_says_where_each_reply_goes(service: Service) -> None:
    def desk(delivery: Delivery) -> str:
        return f"receipts.{delivery.headers['tenant']}"

    source = service.on(process, reply_to=desk)
    service.bench.ready(source, b"1", headers=(("tenant", b"acme"),))
    service.bench.ready(source, b"2", headers=(("tenant", b"umbra"),))
    async with service.test() as tb:
        await tb.settle()

        assert receipts(service, "receipts.acme") == [b'{"order":1}']
        assert receipts(service, "receipts.umbra") == [b'{"order":2}']


def raises(delivery: Delivery) -> str:
    raise KeyError("tenant")


@pytest.mark.rule("5.2")
@pytest.mark.parametrize(
    ("function", "told"),
    [
        (raises, "reply_to raised KeyError('tenant')"),
        (lambda delivery: None, "None is no address"),
        (lambda delivery: 5, "an address is text"),
        (lambda delivery: b"receipts", "an address is text"),
        (lambda delivery: "", "an address needs a name"),
        (lambda delivery: "receipts.*", "wildcard"),
        (lambda delivery: "my receipts", "white space"),
    ],
    ids=range(7),
)
async def test_a_function_that_gives_no_address_loses_nothing_and_never_runs_hot(
    service: Service, function: Any, told: str
) -> None:
    service.on(process, reply_to=function, max_attempts=4, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(0.5)
        tb.assert_called(process, times=1)
        await tb.advance(60)

        tb.assert_called(process, times=4)
        assert told in str(tb.calls(process)[0].error)
        (letter,) = service.bench.at("orders.dlq")
        assert letter.payload == b"7"
        assert tb.run.health.ready


async def test_without_a_cap_it_slows_down(service: Service) -> None:
    service.on(process, reply_to=raises)
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(3600)

        assert len(tb.calls(process)) < 70
        assert len(tb.parked()) == 1


async def test_on_the_memory_broker_too(service: Service) -> None:
    broker = service.app.add(MemoryBroker())
    got: list[Receipt] = []

    async def book(receipt: Receipt) -> None:
        got.append(receipt)

    broker.include(Subscriber(MemoryTopic("orders"), process), reply_to="receipts")
    broker.include(Subscriber(MemoryTopic("receipts"), book))
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert got == [Receipt(7)]
