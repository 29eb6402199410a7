"""A handler that returns a coroutine: an `await` was forgotten, and the failure says where."""

from __future__ import annotations

from typing import Any

import pytest

from surestream import Outcome, ack
from tests.in_process.core.service import Service

pytestmark = pytest.mark.rule("2.2", "2.3")


async def pay(order: int) -> Outcome:
    return ack()


async def forgets(order: int) -> Any:
    return pay(order)


def forgets_in_a_def(order: int) -> Any:
    return pay(order)


@pytest.mark.parametrize("reply_to", [None, "receipts"])
async def test_the_missing_await_is_named(
    service: Service, caplog: pytest.LogCaptureFixture, reply_to: str | None
) -> None:
    options = {} if reply_to is None else {"reply_to": reply_to}
    service.on(forgets, max_attempts=1, dead_letter="orders.dlq", **options)
    async with service.test() as tb:
        await tb.publish("orders", 1)

        (call,) = tb.calls(forgets)
        assert isinstance(call.error, TypeError)
        tb.assert_settled(forgets, "dead letter")
    told = "forgets returned pay(…) without running it; an await is missing: return await pay(…)"
    assert told in caplog.text


async def test_a_def_handler_is_told_to_be_async(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.on(forgets_in_a_def, max_attempts=1, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 1)

        tb.assert_settled(forgets_in_a_def, "dead letter")
    told = "an await is missing: return await pay(…), in an async def forgets_in_a_def"
    assert told in caplog.text
