"""What each outcome does, whichever way a handler asks for it (section 2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from surestream import (
    Drop,
    Outcome,
    Retry,
    ack,
    drop,
    retry,
    retry_after,
)
from surestream.outcome import Kind
from tests.in_process.core.service import Service

Handler = Callable[..., Awaitable[Any]]


async def test_ack_settles_and_nothing_else(service: Service) -> None:
    async def handle(order: int) -> Outcome:
        return ack()

    service.on(handle)
    async with service.test() as tb:
        await tb.publish("orders", 1)

        tb.assert_settled(handle, "ack")
    assert [ids for _, ids in service.bench.written] == [["1"]]
    assert len(service.bench.stored) == 1


@pytest.mark.rule("2.2")
async def test_none_acknowledges_where_no_outcome_is_promised(service: Service) -> None:
    async def handle(order: int) -> None:
        pass

    async def unannotated(order: int):  # type: ignore[no-untyped-def]
        pass

    service.on(handle)
    service.on(unannotated, topic="other")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.publish("other", 1)

        tb.assert_settled(handle, "ack")
        tb.assert_settled(unannotated, "ack")


@pytest.mark.rule("2.2", "2.3")
async def test_none_is_a_failure_where_an_outcome_is_promised(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    async def forgets(order: int) -> Outcome:
        if order > 100:
            return ack()
        return None  # type: ignore[return-value]

    service.on(forgets, max_attempts=2, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        (call,) = tb.calls(forgets)
        assert isinstance(call.error, TypeError)
        assert call.outcome is not None
        assert call.outcome.kind is Kind.RETRY_AFTER
        await tb.advance(2)

        tb.assert_settled(forgets, "copy", "dead letter")
    assert "forgets returned None, which is no outcome: write `return ack()`" in caplog.text


@pytest.mark.rule("2.2")
@pytest.mark.parametrize("value", [True, "ack", 0, (), Kind.ACK, NotImplemented])
@pytest.mark.parametrize("annotated", [True, False])
async def test_any_other_type_is_a_failure(service: Service, value: Any, annotated: bool) -> None:
    async def promises(order: int) -> Outcome:
        return value

    async def does_not(order: int) -> Any:
        return value

    handle = promises if annotated else does_not
    service.on(handle, on_error={TypeError: drop()})
    async with service.test() as tb:
        await tb.publish("orders", 1)

        (call,) = tb.calls(handle)
        assert isinstance(call.error, TypeError)
        tb.assert_settled(handle, "drop")


async def test_an_outcome_that_is_equal_to_ack_acknowledges(service: Service) -> None:
    async def handle(order: int) -> Outcome:
        return Outcome(Kind.ACK)

    service.on(handle)
    async with service.test() as tb:
        await tb.publish("orders", 1)

        tb.assert_settled(handle, "ack")


def returning(outcome: Outcome) -> Handler:
    async def handle(order: int) -> Outcome:
        return outcome

    return handle


def raising(error: Exception) -> Handler:
    async def handle(order: int) -> None:
        raise error

    return handle


@pytest.mark.rule("2.3", "4.5")
@pytest.mark.parametrize("handle", [returning(drop()), raising(Drop()), raising(Drop("why"))])
async def test_a_dropped_message_is_settled_and_never_a_dead_letter(
    service: Service, handle: Handler
) -> None:
    service.on(handle, max_attempts=1, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(3600)

        tb.assert_settled(handle, "drop")
        tb.assert_called(handle)
    assert service.bench.at("orders.dlq") == []


@pytest.mark.case("WC-14", "WC-08")
@pytest.mark.rule("2.3", "3.3")
@pytest.mark.parametrize(
    "handle",
    [
        pytest.param(returning(retry()), id="retry()"),
        pytest.param(returning(retry_after(3)), id="retry_after()"),
        pytest.param(returning(retry_after(timedelta(seconds=3))), id="timedelta"),
        pytest.param(raising(Retry()), id="raise Retry()"),
        pytest.param(raising(Retry(after=3)), id="raise Retry(after)"),
        pytest.param(raising(RuntimeError("down")), id="an exception"),
        pytest.param(raising(ExceptionGroup("two", [ValueError(), OSError()])), id="a group"),
    ],
)
async def test_the_cap_holds_for_each_way_of_asking(service: Service, handle: Handler) -> None:
    service.on(handle, max_attempts=3, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        for _ in range(10):
            await tb.advance(60)

        assert [call.attempt for call in tb.calls(handle)] == [1, 2, 3]
        tb.assert_settled(handle, "copy", "copy", "dead letter")
        tb.assert_nothing_waits()
    assert len(service.bench.at("orders.dlq")) == 1


@pytest.mark.case("CK-07")
@pytest.mark.rule("2.1")
@pytest.mark.parametrize(
    "delay", [float("nan"), float("inf"), float("-inf"), None, "30", True, 1j, -5, b"1"]
)
async def test_a_delay_that_cannot_be_waited_fails_the_delivery_and_loses_nothing(
    service: Service, delay: Any
) -> None:
    async def handle(order: int) -> Outcome:
        return retry_after(delay)

    service.on(handle, max_attempts=2, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 1)
        (call,) = tb.calls(handle)
        assert isinstance(call.error, TypeError | ValueError)
        await tb.advance(2)

        tb.assert_settled(handle, "copy", "dead letter")
    assert len(service.bench.at("orders.dlq")) == 1
