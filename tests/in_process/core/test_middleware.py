"""Middleware around a delivery."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from surestream import (
    App,
    Attempt,
    CallNext,
    Delivery,
    Drop,
    Middleware,
    Outcome,
    Retry,
    Router,
    ServiceFailed,
    Subscriber,
    ack,
    drop,
    fail_fast,
    retry,
    retry_after,
)
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.middleware import around_delivery
from surestream.testing import TestApp
from tests.in_process.core.service import Service, details


class Receipt(msgspec.Struct):
    order: int


async def process(order: int) -> Outcome:
    return ack()


def noting(name: str, notes: list[str]) -> Middleware:
    """Middleware that says when it is entered and left."""

    async def note(delivery: Delivery, call_next: CallNext) -> object:
        notes.append(f"{name} in")
        try:
            return await call_next(delivery)
        finally:
            notes.append(f"{name} out")

    return note


# -- order --------------------------------------------------------------------------------


async def test_app_then_broker_then_routers_then_include() -> None:
    notes: list[str] = []

    async def handler(order: int) -> None:
        notes.append("handler")

    inner = Router[MemoryTopic](middleware=[noting("inner router", notes)])
    inner.include(
        Subscriber(MemoryTopic("orders"), handler),
        middleware=[noting("include 1", notes), noting("include 2", notes)],
    )
    outer = Router[MemoryTopic](middleware=[noting("outer router", notes)])
    outer.include_router(inner)
    app = App("order", middleware=[noting("app", notes)])
    broker = app.add(MemoryBroker(middleware=[noting("broker", notes)]))
    broker.include_router(outer)

    async with TestApp(app) as tb:
        await tb.publish("orders", 1)

    names = ["app", "broker", "outer router", "inner router", "include 1", "include 2"]
    assert notes == [
        *(f"{name} in" for name in names),
        "handler",
        *(f"{name} out" for name in reversed(names)),
    ]


async def test_each_handler_has_its_own_and_the_shared() -> None:
    notes: list[str] = []

    async def one(order: int) -> None: ...
    async def two(order: int) -> None: ...

    app = App("shared", middleware=[noting("app", notes)])
    broker = app.add(MemoryBroker())
    broker.include(Subscriber(MemoryTopic("one"), one), middleware=[noting("one", notes)])
    broker.include(Subscriber(MemoryTopic("two"), two))

    async with TestApp(app) as tb:
        await tb.publish("two", 1)
        assert notes == ["app in", "app out"]


async def test_without_any_there_is_no_wrapper() -> None:
    async def invoke(delivery: Delivery, value: object) -> object: ...

    assert around_delivery((), invoke) is invoke


async def test_without_any_a_run_calls_the_handler_itself(service: Service) -> None:
    service.on(process)
    async with service.test() as tb:
        (consumer,) = tb.run.subscriptions
        invoke: Any = consumer.invoke
        assert invoke.__code__.co_filename.endswith("calls/binding.py")


# -- what it sees and decides -------------------------------------------------------------


async def test_it_sees_the_delivery_and_the_outcome(service: Service) -> None:
    seen: list[object] = []

    async def watch(delivery: Delivery, call_next: CallNext) -> object:
        outcome = await call_next(delivery)
        seen.append((delivery.address, delivery.attempt, delivery.payload, outcome))
        return outcome

    async def twice(order: int, attempt: Attempt) -> Outcome:
        return retry() if attempt.number == 1 else ack()

    service.on(twice, middleware=[watch], max_attempts=3)
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert seen == [("orders", 1, b"7", retry()), ("orders", 2, b"7", ack())]
        tb.assert_settled(twice, "copy", "ack")


@pytest.mark.parametrize(
    ("outcome", "how"),
    [(drop(), "drop"), (ack(), "ack"), (retry_after(30), "copy"), (retry(), "copy")],
    ids=repr,
)
async def test_it_can_change_the_outcome(service: Service, outcome: Outcome, how: str) -> None:
    async def instead(delivery: Delivery, call_next: CallNext) -> object:
        await call_next(delivery)
        return outcome if delivery.attempt == 1 else ack()

    service.on(process, middleware=[instead], max_attempts=3)
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(30)

        assert tb.settlements(process)[0].how == how


async def test_it_can_answer_without_calling_on(service: Service) -> None:
    ran: list[int] = []

    async def handler(order: int) -> None:
        ran.append(order)

    async def only_once(delivery: Delivery, call_next: CallNext) -> object:
        if delivery.headers.get("seen"):
            return drop()
        return await call_next(delivery)

    source = service.on(handler, middleware=[only_once])
    service.bench.ready(source, b"1", headers=(("seen", b"yes"),))
    service.bench.ready(source, b"2")
    async with service.test() as tb:
        await tb.settle()

        assert ran == [2]
        tb.assert_settled(handler, "drop", "ack")


async def test_it_can_change_or_withhold_a_reply(service: Service) -> None:
    async def rounding(delivery: Delivery, call_next: CallNext) -> object:
        receipt = await call_next(delivery)
        assert isinstance(receipt, Receipt)
        return Receipt(receipt.order * 10) if receipt.order < 2 else ack()

    async def answer(order: int) -> Receipt:
        return Receipt(order)

    service.on(answer, middleware=[rounding], reply_to="receipts")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.publish("orders", 2)

        assert [message.payload for message in service.bench.at("receipts")] == [b'{"order":10}']
        tb.assert_settled(answer, "ack", "ack")


async def test_it_may_hand_on_another_delivery(service: Service) -> None:
    """What the handler reads of it is that one's; what is settled is the one that came."""
    got: list[str | None] = []

    async def handler(order: int, delivery: Delivery) -> Outcome:
        got.append(delivery.headers.get("tenant"))
        return retry() if len(got) == 1 else ack()

    async def as_tenant(delivery: Delivery, call_next: CallNext) -> object:
        class Changed(Delivery):
            def read_headers(self) -> Any:
                return (("tenant", b"acme"),)

        return await call_next(Changed(delivery.payload, delivery.origin))

    source = service.on(handler, middleware=[as_tenant], max_attempts=3)
    service.bench.ready(source, b"1", headers=(("tenant", b"umbra"),))
    async with service.test() as tb:
        await tb.settle()

        assert got == ["acme", "acme"]
        tb.assert_settled(handler, "copy", "ack")
        (copy,) = service.bench.at("orders")
        assert ("tenant", b"umbra") in copy.headers  # as it arrived (rule 4.1)


@pytest.mark.rule("2.6")
async def test_what_cannot_be_decoded_never_reaches_it(service: Service) -> None:
    notes: list[str] = []
    service.on(process, middleware=[noting("it", notes)])
    async with service.test() as tb:
        await tb.publish("orders", b"no number")

        assert notes == []


# -- exceptions ---------------------------------------------------------------------------


async def test_an_exception_passes_through_and_is_an_outcome(service: Service) -> None:
    notes: list[str] = []

    async def breaks(order: int) -> None:
        raise KeyError(order)

    service.on(breaks, middleware=[noting("it", notes)], on_error={KeyError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert notes == ["it in", "it out"]
        tb.assert_settled(breaks, "drop")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("error", "how"),
    [(KeyError(1), "drop"), (Drop(), "drop"), (Retry(after=5), "copy"), (OSError(), "copy")],
    ids=repr,
)
async def test_what_it_raises_counts_as_what_the_handler_raised(
    service: Service, error: Exception, how: str, after: bool
) -> None:
    async def guard(delivery: Delivery, call_next: CallNext) -> object:
        if after:
            await call_next(delivery)
        if delivery.attempt == 1:
            raise error
        return ack()

    service.on(process, middleware=[guard], on_error={KeyError: drop()}, max_attempts=3)
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(60)

        assert tb.settlements(process)[0].how == how
        assert tb.calls(process)[0].error is error


async def test_it_can_turn_an_exception_into_an_outcome(service: Service) -> None:
    async def breaks(order: int) -> None:
        raise KeyError(order)

    async def forgiving(delivery: Delivery, call_next: CallNext) -> object:
        try:
            return await call_next(delivery)
        except KeyError:
            return drop()

    service.on(breaks, middleware=[forgiving])
    async with service.test() as tb:
        await tb.publish("orders", 7)

        tb.assert_settled(breaks, "drop")
        assert tb.calls(breaks)[0].error is None


async def test_a_dead_letter_names_what_middleware_raised(service: Service) -> None:
    async def refuse(delivery: Delivery, call_next: CallNext) -> object:
        raise PermissionError("who are you?")

    service.on(process, middleware=[refuse], max_attempts=1, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 7)

        (letter,) = service.bench.at("orders.dlq")
        assert details(letter)["error"] == "builtins.PermissionError"


async def test_fail_fast_from_it_stops_the_service(service: Service) -> None:
    async def stop(delivery: Delivery, call_next: CallNext) -> object:
        return fail_fast()

    service.on(process, middleware=[stop])
    async with service.test() as tb:
        with pytest.raises(ServiceFailed):
            await tb.publish("orders", 7)
