"""Middleware around a publish: by handlers, by programs, and of replies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from surestream import (
    App,
    BrokerRefused,
    ConnectionLost,
    DeclarationError,
    Outcome,
    Outgoing,
    Publisher,
    PublishMiddleware,
    Send,
    Subscriber,
    SureStreamError,
    drop,
    retry,
    retry_after,
)
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.middleware import around_publish
from surestream.testing import TestApp
from tests.in_process.core.service import Service, headers
from tests.in_process.core.sources import BenchSource


class Receipt(msgspec.Struct):
    order: int


async def process(order: int) -> Receipt:
    return Receipt(order)


async def publishes(order: int, publisher: Publisher) -> None:
    await publisher.publish("receipts", Receipt(order))


ways = pytest.mark.parametrize("way", [process, publishes])
"""A reply, and a publish by hand."""


def service_of(
    way: Callable[..., Any], *middleware: PublishMiddleware, **options: Any
) -> tuple[Service, BenchSource]:
    service = Service(publish_middleware=middleware)
    if way is process:
        options["reply_to"] = "receipts"
    return service, service.on(way, **options)


def held(service: Service, source: BenchSource) -> int:
    return len(service.bench.group(source).held)


# -- order, and what it can change --------------------------------------------------------


def noting(name: str, notes: list[str]) -> PublishMiddleware:
    async def note(message: Outgoing, send: Send) -> None:
        notes.append(f"{name} in")
        await send(message)
        notes.append(f"{name} out")

    return note


@pytest.mark.parametrize("reply", [True, False])
async def test_app_then_broker_in_their_order(reply: bool) -> None:
    notes: list[str] = []
    app = App("order", publish_middleware=[noting("app 1", notes), noting("app 2", notes)])
    broker = app.add(MemoryBroker(publish_middleware=[noting("broker", notes)]))
    if reply:
        broker.include(Subscriber(MemoryTopic("orders"), process), reply_to="receipts")
    else:
        broker.include(Subscriber(MemoryTopic("orders"), publishes))
    async with TestApp(app) as tb:
        await tb.publish("orders", 1)

    names = ["app 1", "app 2", "broker"]
    once = [*(f"{name} in" for name in names), *(f"{name} out" for name in reversed(names))]
    # The test's own publish goes through it as well.
    assert notes[-6:] == once
    assert len(notes) == 12


async def test_without_any_there_is_no_wrapper() -> None:
    async def send(message: Outgoing) -> None: ...

    assert around_publish((), send) is send


@ways
async def test_it_changes_headers_payload_and_address(way: Any) -> None:
    async def change(message: Outgoing, send: Send) -> None:
        if message.address != "receipts":
            return await send(message)
        kept = (*message.headers, ("Tenant", b"acme"))
        await send(replace(message, address="elsewhere", payload=b"sealed", headers=kept))

    service, _ = service_of(way, change)
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert service.bench.at("elsewhere") == [
            Outgoing("elsewhere", b"sealed", (("Tenant", b"acme"),))
        ]
        assert service.bench.at("receipts") == []
        tb.assert_settled(way, "ack")


@ways
async def test_not_sending_publishes_nothing(way: Any) -> None:
    async def swallow(message: Outgoing, send: Send) -> None:
        if message.address != "receipts":
            await send(message)

    service, source = service_of(way, swallow)
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert service.bench.at("receipts") == []
        tb.assert_settled(way, "ack")
        assert held(service, source) == 0


@pytest.mark.rule("4.1")
async def test_copies_dead_letters_and_undecodable_ones_go_past_it() -> None:
    seen: list[str] = []

    async def watch(message: Outgoing, send: Send) -> None:
        seen.append(message.address)
        await send(message)

    async def again(order: int) -> Outcome:
        return retry() if order else retry_after(5)

    service = Service(publish_middleware=[watch])
    service.on(again, max_attempts=2, dead_letter="orders.dlq", quarantine="orders.bad")
    async with service.test() as tb:
        for payload in (1, 0, b"no number"):
            await tb.run.send(service.broker, Outgoing("orders", msgspec.json.encode(payload)))
        await tb.settle()
        await tb.advance(5)

        assert len(service.bench.at("orders.dlq")) == 2
        assert len(service.bench.at("orders.bad")) == 1
        assert seen == []


# -- what it raises -----------------------------------------------------------------------


@pytest.mark.rule("2.3")
@ways
async def test_what_it_raises_before_sending_is_a_failure_of_the_handler(way: Any) -> None:
    """Of a reply, too: nobody but the user can put it right."""

    async def refuse(message: Outgoing, send: Send) -> None:
        if message.address == "receipts":
            raise PermissionError("not to them")
        await send(message)

    service, source = service_of(way, refuse, on_error={PermissionError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)

        tb.assert_settled(way, "drop")
        assert isinstance(tb.calls(way)[0].error, PermissionError)
        assert held(service, source) == 0
        assert service.bench.at("receipts") == []


@ways
async def test_unlisted_it_backs_off_and_ends_as_a_dead_letter(way: Any) -> None:
    async def refuse(message: Outgoing, send: Send) -> None:
        if message.address == "receipts":
            raise PermissionError("not to them")
        await send(message)

    service, _ = service_of(way, refuse, max_attempts=3, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 7)
        tb.assert_called(way, times=1)
        await tb.advance(10)

        tb.assert_settled(way, "copy", "copy", "dead letter")
        (letter,) = service.bench.at("orders.dlq")
        assert headers(letter)["x-surestream-dead-error"] == "builtins.PermissionError"


NONSENSE: list[Callable[[Outgoing], Any]] = [
    lambda message: replace(message, address="receipts.*"),
    lambda message: replace(message, address=None),
    lambda message: replace(message, payload="text"),
    lambda message: replace(message, headers=(("a", 1),)),
    lambda message: replace(message, headers=(("", b"1"),)),
    lambda message: message.payload,
]


@ways
@pytest.mark.parametrize("nonsense", NONSENSE, ids=range(len(NONSENSE)))
async def test_what_is_no_message_is_a_failure_too(
    way: Any, nonsense: Callable[[Outgoing], Any]
) -> None:
    async def confuse(message: Outgoing, send: Send) -> None:
        await send(nonsense(message) if message.address == "receipts" else message)

    errors = {DeclarationError: drop(), TypeError: drop(), ValueError: drop()}
    service, source = service_of(way, confuse, on_error=errors)
    async with service.test() as tb:
        await tb.publish("orders", 7)

        tb.assert_settled(way, "drop")
        assert held(service, source) == 0


@pytest.mark.rule("5.1")
async def test_what_it_raises_after_a_reply_was_stored_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stumble(message: Outgoing, send: Send) -> None:
        await send(message)
        if message.address == "receipts":
            raise PermissionError("too late")

    service, source = service_of(process, stumble)
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(60)

        assert len(service.bench.at("receipts")) == 1
        tb.assert_settled(process, "ack")
        assert held(service, source) == 0
    assert caplog.text.count("publish middleware raised, the reply being stored already") == 1
    assert "PermissionError: too late" in caplog.text


@pytest.mark.rule("5.1", "5.2")
@pytest.mark.parametrize("how", ["passes on", "swallows", "changes"])
async def test_whatever_it_does_about_a_reply_that_cannot_be_stored_the_message_is_held(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    tried = 0

    async def guard(message: Outgoing, send: Send) -> None:
        nonlocal tried
        tried += message.address == "receipts"
        try:
            await send(message)
        except BrokerRefused:
            if how == "passes on":
                raise
            if how == "changes":
                raise PermissionError from None

    service, source = service_of(process, guard)
    service.bench.refuse("receipts", "memory is full")
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(30)
        assert tried > 3
        assert held(service, source) == 1
        service.bench.take_all()
        await tb.advance(6)

        assert len(service.bench.at("receipts")) == 1
        tb.assert_called(process, times=1)
        tb.assert_settled(process, "ack")
    held_lines = [one for one in caplog.records if "is held unsettled" in one.getMessage()]
    assert held_lines
    assert not [one for one in caplog.records if one.exc_info and one.levelno >= logging.ERROR]


async def test_a_publish_by_hand_that_it_swallows_is_swallowed() -> None:
    async def guard(message: Outgoing, send: Send) -> None:
        try:
            await send(message)
        except BrokerRefused:
            return

    service, _ = service_of(publishes, guard)
    service.bench.refuse("receipts")
    async with service.test() as tb:
        await tb.publish("orders", 7)

        tb.assert_settled(publishes, "ack")


# -- sending once -------------------------------------------------------------------------


@ways
async def test_sending_again_where_sending_failed_is_fine(way: Any) -> None:
    async def stubborn(message: Outgoing, send: Send) -> None:
        try:
            await send(message)
        except ConnectionLost:
            await asyncio.sleep(1)
            await send(message)

    service, _ = service_of(way, stubborn)
    failures = [ConnectionLost("gone")]
    service.bench.refuses = lambda message: (
        failures.pop() if failures and message.address == "receipts" else None
    )
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(1)

        assert len(service.bench.at("receipts")) == 1
        tb.assert_settled(way, "ack")


@ways
async def test_a_second_message_is_refused(way: Any) -> None:
    refusals: list[str] = []

    async def doubles(message: Outgoing, send: Send) -> None:
        await send(message)
        try:
            await send(replace(message, address="audit"))
        except SureStreamError as error:
            refusals.append(str(error))

    service, _ = service_of(way, doubles)
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert service.bench.at("audit") == []
        assert len(service.bench.at("receipts")) == 1
        tb.assert_settled(way, "ack")
    assert all("sent a second message, to audit" in told for told in refusals)
    assert len(refusals) == 2


@pytest.mark.rule("7.3")
async def test_a_reply_that_fails_during_the_stop_is_given_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its delay is nothing to wait for any more."""

    async def slow(message: Outgoing, send: Send) -> None:
        if message.address == "receipts":
            await asyncio.sleep(2)
            raise PermissionError
        await send(message)

    service, source = service_of(process, slow, max_attempts=3)
    async with service.test() as tb:
        await tb.publish("orders", 7)

    (copy,) = service.bench.at("orders")[1:]
    assert "x-surestream-not-before" in headers(copy)
    assert held(service, source) == 0
