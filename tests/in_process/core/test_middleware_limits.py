"""What middleware around a delivery cannot do wrong, and what time and context are to it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import msgspec
import pytest

from surestream import (
    CallNext,
    Delivery,
    HandlerTimeout,
    Middleware,
    Outcome,
    SureStreamError,
    ack,
    drop,
    retry,
)
from tests.in_process.core.service import Service

story: ContextVar[list[str]] = ContextVar("story")


class Receipt(msgspec.Struct):
    order: int


async def process(order: int) -> Outcome:
    return ack()


# -- none decides nothing (rule 2.2) ------------------------------------------------------

forgetful = pytest.mark.rule("2.2")


async def forgets_to_return(delivery: Delivery, call_next: CallNext) -> None:
    await call_next(delivery)


async def swallows(delivery: Delivery, call_next: CallNext) -> None:
    with contextlib.suppress(Exception):
        await call_next(delivery)


@forgetful
@pytest.mark.parametrize("count", [1, 3])
async def test_a_forgotten_return_leaves_what_the_handler_decided(
    service: Service, count: int
) -> None:
    async def unannotated(order: int):  # type: ignore[no-untyped-def]
        return drop() if order else retry()

    service.on(unannotated, middleware=[forgets_to_return] * count, max_attempts=1)
    async with service.test() as tb:
        await tb.publish("orders", 0)
        await tb.publish("orders", 1)

        tb.assert_settled(unannotated, "rejected", "drop")


@forgetful
async def test_a_forgotten_return_leaves_the_reply(service: Service) -> None:
    async def answer(order: int) -> Receipt:
        return Receipt(order)

    service.on(answer, middleware=[forgets_to_return], reply_to="receipts")
    async with service.test() as tb:
        await tb.publish("orders", 1)

        assert len(service.bench.at("receipts")) == 1


@forgetful
async def test_a_swallowed_exception_without_an_outcome_stands(service: Service) -> None:
    async def breaks(order: int) -> None:
        raise KeyError(order)

    service.on(breaks, middleware=[swallows], on_error={KeyError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)

        tb.assert_settled(breaks, "drop")


@forgetful
@pytest.mark.parametrize("annotated", [True, False])
async def test_neither_calling_on_nor_an_outcome_is_a_failure(
    service: Service, annotated: bool
) -> None:
    async def plain(order: int) -> None: ...

    async def nothing(delivery: Delivery, call_next: CallNext) -> None: ...

    handler = process if annotated else plain
    service.on(handler, middleware=[nothing], max_attempts=2, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(60)

        tb.assert_settled(handler, "copy", "dead letter")
        assert "neither called on nor returned an outcome" in str(tb.calls(handler)[0].error)


# -- calling on once, in time -------------------------------------------------------------


def twice_as(how: str) -> Middleware:
    async def middleware(delivery: Delivery, call_next: CallNext) -> object:
        if how == "one after another":
            await call_next(delivery)
            return await call_next(delivery)
        if how == "at the same time":
            return (await asyncio.gather(call_next(delivery), call_next(delivery)))[0]
        if how == "after an exception":
            for _ in range(3):
                with contextlib.suppress(KeyError):
                    return await call_next(delivery)
            return ack()
        outcome = await call_next(delivery)
        with contextlib.suppress(SureStreamError):
            await call_next(delivery)
        return outcome

    return middleware


@pytest.mark.parametrize(
    "how", ["one after another", "at the same time", "after an exception", "and hiding it"]
)
async def test_calling_on_twice_is_refused_and_the_delivery_has_failed(
    service: Service, how: str
) -> None:
    ran: list[int] = []

    async def handler(order: int) -> None:
        ran.append(order)
        if how == "after an exception":
            raise KeyError(order)
        await asyncio.sleep(1)

    service.on(handler, middleware=[twice_as(how)], on_error={SureStreamError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(5)

        assert ran == [7]
        tb.assert_settled(handler, "drop")
        assert "twice_as.<locals>" not in str(tb.calls(handler)[0].error)
        assert "called on twice" in str(tb.calls(handler)[0].error)


async def test_the_handler_is_not_run_when_the_middleware_has_ended(service: Service) -> None:
    kept: list[Callable[[], Awaitable[object]]] = []
    ran: list[int] = []

    async def handler(order: int) -> None:
        ran.append(order)

    async def keeps(delivery: Delivery, call_next: CallNext) -> object:
        kept.append(functools.partial(call_next, delivery))
        return ack()

    service.on(handler, middleware=[keeps])
    async with service.test() as tb:
        await tb.publish("orders", 7)
        with pytest.raises(SureStreamError, match="called on when it had ended"):
            await kept[0]()

        assert ran == []


async def test_ending_before_the_handler_does_is_a_failure(service: Service) -> None:
    tasks: list[asyncio.Future[object]] = []

    async def handler(order: int) -> None:
        await asyncio.sleep(5)

    async def hurried(delivery: Delivery, call_next: CallNext) -> object:
        tasks.append(asyncio.ensure_future(call_next(delivery)))
        await asyncio.sleep(1)
        return ack()

    service.on(handler, middleware=[hurried], on_error={SureStreamError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(10)

        tb.assert_settled(handler, "drop")
        assert "ended before what it called" in str(tb.calls(handler)[0].error)
        await asyncio.gather(*tasks)


# -- time, cancellation, context ----------------------------------------------------------


@pytest.mark.rule("2.5")
async def test_a_timeout_covers_it(service: Service) -> None:
    async def slow(delivery: Delivery, call_next: CallNext) -> object:
        await asyncio.sleep(6)
        return await call_next(delivery)

    async def handler(order: int) -> None:
        await asyncio.sleep(6)

    service.on(handler, middleware=[slow], timeout=10, on_error={HandlerTimeout: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(9.9)
        assert tb.settlements(handler) == []
        await tb.advance(0.2)

        tb.assert_settled(handler, "drop")


@pytest.mark.rule("2.5")
async def test_it_can_set_a_timeout_of_its_own(service: Service) -> None:
    async def handler(order: int) -> None:
        await asyncio.sleep(60)

    async def within(delivery: Delivery, call_next: CallNext) -> object:
        async with asyncio.timeout(5):
            return await call_next(delivery)

    service.on(handler, middleware=[within], on_error={TimeoutError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.advance(5)
        await tb.publish("orders", 8)
        await tb.advance(5)

        tb.assert_settled(handler, "drop", "drop")


@pytest.mark.rule("2.4")
async def test_a_cancelled_handler_is_an_exception_that_it_sees(service: Service) -> None:
    seen: list[str] = []

    async def handler(order: int) -> None:
        raise asyncio.CancelledError

    async def watch(delivery: Delivery, call_next: CallNext) -> object:
        try:
            return await call_next(delivery)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    service.on(handler, middleware=[watch], on_error={asyncio.CancelledError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.publish("orders", 8)

        assert seen == ["cancelled", "cancelled"]
        tb.assert_settled(handler, "drop", "drop")


@pytest.mark.rule("2.4", "7.3")
async def test_a_stop_that_cuts_off_gives_the_message_back() -> None:
    service = Service(shutdown_timeout=3)
    notes: list[str] = []

    async def handler(order: int) -> None:
        await asyncio.sleep(100)

    async def note(delivery: Delivery, call_next: CallNext) -> object:
        try:
            return await call_next(delivery)
        finally:
            notes.append("it out")

    source = service.on(handler, middleware=[note])
    async with service.test() as tb:
        await tb.publish("orders", 7)

    assert notes == ["it out"]
    assert [(after, spent) for _, after, spent in service.bench.returned] == [(0.0, False)]
    assert len(service.bench.group(source).orphans) == 1


@pytest.mark.rule("7.6")
@pytest.mark.parametrize("threaded", [False, True])
async def test_the_handler_sees_its_context_variables_and_nobody_else_does(
    service: Service, threaded: bool
) -> None:
    seen: list[object] = []

    async def marks(delivery: Delivery, call_next: CallNext) -> object:
        seen.append(story.get(None))
        story.set([delivery.id])
        return await call_next(delivery)

    async def on_the_loop(order: int) -> None:
        seen.append(story.get())
        await asyncio.sleep(0)
        seen.append(story.get())

    def in_a_thread(order: int) -> None:
        seen.append(story.get())
        time.sleep(0)
        seen.append(story.get())

    handler: Callable[..., Any] = in_a_thread if threaded else on_the_loop
    service.on(handler, middleware=[marks])
    async with service.test() as tb:
        await tb.publish("orders", 7)
        await tb.publish("orders", 8)

        one, two = (call.id for call in tb.calls(handler))
        assert seen == [None, [one], [one], None, [two], [two]]


async def test_callable_objects_methods_and_partials_are_middleware(service: Service) -> None:
    class Counting:
        def __init__(self) -> None:
            self.count = 0

        async def __call__(self, delivery: Delivery, call_next: CallNext) -> object:
            self.count += 1
            return await call_next(delivery)

        async def method(self, delivery: Delivery, call_next: CallNext) -> object:
            return await self(delivery, call_next)

    async def with_setting(by: Counting, delivery: Delivery, call_next: CallNext) -> object:
        return await by(delivery, call_next)

    @functools.wraps(with_setting)
    def wrapper(delivery: Delivery, call_next: CallNext) -> Awaitable[object]:
        return counting(delivery, call_next)

    counting = Counting()
    every: list[Middleware] = [
        counting,
        counting.method,
        functools.partial(with_setting, counting),
        wrapper,
    ]
    service.on(process, middleware=every)
    async with service.test() as tb:
        await tb.publish("orders", 7)

        tb.assert_settled(process, "ack")
    assert counting.count == 4
