"""``timeout=`` limits a handler (rule 2.5)."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from surestream import HandlerTimeout, Outcome, ack, drop
from tests.in_process.core.service import Service, spend, until

pytestmark = pytest.mark.rule("2.5")


@pytest.mark.parametrize("timeout", [5, 5.0, timedelta(seconds=5)])
async def test_a_handler_that_takes_too_long_fails_with_an_exception_of_its_own(
    service: Service, timeout: float | timedelta
) -> None:
    ended = []

    async def slow(order: int) -> None:
        try:
            await asyncio.sleep(order)
        except asyncio.CancelledError:
            ended.append(order)
            raise

    service.on(slow, timeout=timeout, on_error={HandlerTimeout: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 6)
        await tb.advance(4.999)
        assert ended == []
        await tb.advance(0.001)
        assert ended == [6]
        await tb.publish("orders", 4)
        await tb.advance(4)

        tb.assert_settled(slow, "drop", "ack")
        late, _ = tb.calls(slow)
    assert str(late.error) == "the handler ran longer than 5 s"
    assert isinstance(late.error, TimeoutError)


async def test_a_timeout_that_is_not_listed_backs_off_and_counts(service: Service) -> None:
    async def slow(order: int) -> None:
        await asyncio.sleep(60)

    service.on(slow, timeout=1, max_attempts=2, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(10)

        tb.assert_settled(slow, "copy", "dead letter")


async def test_a_timeout_of_the_handlers_own_is_not_ours(service: Service) -> None:
    async def impatient(order: int) -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(60)

    service.on(impatient, timeout=30, on_error={HandlerTimeout: ack(), TimeoutError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(2)

        (call,) = tb.calls(impatient)
        assert type(call.error) is TimeoutError
        tb.assert_settled(impatient, "drop")


async def test_what_a_handler_decides_although_it_is_late_counts(service: Service) -> None:
    """It cleaned up and knows better than we do whether the work is done."""

    async def stubborn(order: int) -> Outcome:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            return drop()
        return ack()

    service.on(stubborn, timeout=5)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(6)

        tb.assert_settled(stubborn, "drop")


async def test_an_exception_while_it_is_cancelled_is_what_the_handler_raised(
    service: Service,
) -> None:
    async def breaks(order: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise LookupError("while cleaning up")

    service.on(breaks, timeout=5, on_error={LookupError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(6)

        tb.assert_settled(breaks, "drop")


async def test_each_message_has_the_whole_time(service: Service) -> None:
    async def slow(order: int) -> None:
        await asyncio.sleep(4)

    service.on(slow, timeout=5)
    async with service.test() as tb:
        for order in range(3):
            await tb.publish("orders", order)
        await tb.advance(12)

        tb.assert_settled(slow, "ack", "ack", "ack")


async def test_time_that_a_handler_blocks_before_it_first_waits_counts(service: Service) -> None:
    async def computes(order: int) -> None:
        spend(3)
        await asyncio.sleep(3)

    service.on(computes, timeout=5, on_error={HandlerTimeout: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(3)

        tb.assert_settled(computes, "drop")


async def test_a_thread_that_takes_too_long_is_given_up_and_its_result_ignored(
    service: Service,
) -> None:
    release = threading.Event()

    def stuck(order: int) -> Any:
        if order == 1:
            release.wait(10)
        return ack()

    service.on(stuck, timeout=5, on_error={HandlerTimeout: drop()})
    source = next(iter(service.broker.mounts)).source
    async with service.app.running() as run:  # the real clock: a paused one waits for threads
        loop = asyncio.get_running_loop()
        start = loop.time
        skew = 0.0
        loop.time = lambda: start() + skew  # type: ignore[method-assign]
        await service.broker.publish("orders", 1)
        await until(lambda: run.threads_busy == 1)
        skew = 5.0
        await until(lambda: len(service.bench.written) == 1)
        await service.broker.publish("orders", 2)
        await until(lambda: len(service.bench.written) == 2)
        assert run.threads_busy == 1
        release.set()

    assert [ids for _, ids in service.bench.written] == [["1"], ["2"]]
    assert source.name == "orders"
