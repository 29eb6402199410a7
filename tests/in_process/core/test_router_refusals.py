"""Mistakes in a router are told with the line in which they are written (rule 7.1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from surestream import (
    App,
    DeclarationError,
    DeclarationTypeError,
    Delivery,
    Outcome,
    Redelivery,
    Router,
    ack,
    retry,
    retry_after,
    subscriber,
)
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.redis import DurableZset, RedisBroker, RedisSource, RedisStream
from surestream.testing import TestApp

HERE = "test_router_refusals.py"


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


def line() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def refused(error: DeclarationError, at: int) -> str:
    """The refusal, checked for its place: ``at`` is a line of this file."""
    assert error.where is not None
    assert str(error.where).endswith(f"{HERE}:{at}"), error
    return str(error)


def test_the_same_setting_in_policy_and_handler_is_refused_at_the_handlers_line() -> None:
    router = Router[MemoryTopic](policy=Redelivery(max_attempts=5))

    with pytest.raises(DeclarationError, match="one setting in two places") as error:
        router.include(remember, reply_to="a", max_attempts=3)

    refused(error.value, line() - 2)


def test_the_same_setting_in_two_nested_routers_is_refused_at_the_handlers_line() -> None:
    inner = Router[MemoryTopic](policy=Redelivery(max_attempts=5))
    inner.include(remember, reply_to="a")
    at = line() - 1
    outer = Router[MemoryTopic](policy=Redelivery(max_attempts=3))

    with pytest.raises(DeclarationError, match="max_attempts=5 beside") as error:
        outer.include_router(inner)

    refused(error.value, at)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_atempts": 3}, "write: max_attempts=…"),
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"middleware": len}, "write: middleware=[len]"),
        ({"middleware": [len]}, "it is called with (delivery, call_next)"),
        ({"dead_letter": "a b"}, "white space"),
        ({"on_error": {KeyError: 3}}, "on_error[KeyError]=3"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("middleware", [False, True])
def test_a_mistake_is_refused_where_it_is_written(
    options: dict[str, Any], told: str, middleware: bool
) -> None:
    async def some(delivery: Delivery, call_next: Callable[..., Any]) -> object: ...

    router = Router[MemoryTopic](prefix="eu.", middleware=[some] if middleware else [])

    with pytest.raises(DeclarationError) as error:
        router.include(remember, **options)

    assert told in refused(error.value, line() - 2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "is no outcome"),
        ({"reply_to": "a", "workers": 0}, "workers=0"),
        ({"reply_to": "a b"}, "white space"),
        ({"reply_to": "a", "timeout": -1}, "timeout=-1"),
        ({"reply_to": "a", "by_key": 3}, "by_key=3"),
    ],
    ids=repr,
)
def test_what_only_the_broker_can_tell_is_refused_with_the_routers_line(
    options: dict[str, Any], told: str
) -> None:
    router = Router[MemoryTopic](prefix="eu.")
    router.include(remember, **options)
    at = line() - 1

    with pytest.raises(DeclarationError) as error:
        MemoryBroker().include_router(router)

    assert told in refused(error.value, at)


def test_a_handler_of_another_broker_is_refused_with_the_routers_line() -> None:
    router: Router[Any] = Router()
    router.include(process)
    at = line() - 1

    with pytest.raises(DeclarationError, match="this broker reads MemoryTopic") as error:
        MemoryBroker().include_router(router)

    refused(error.value, at)


@pytest.mark.rule("4.6")
async def test_what_the_topology_refuses_names_the_routers_line() -> None:
    router = Router[RedisSource](prefix="eu.")
    router.include(process, max_attempts=3, dead_letter="orders")
    at = line() - 1
    app = App("shop")
    app.add(RedisBroker()).include_router(router)

    with pytest.raises(DeclarationError, match="go round for ever") as error:
        async with TestApp(app):
            pass

    assert "dead_letter='eu.orders'" in refused(error.value, at)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"prefix": 3}, 'write: Router(prefix="eu.")'),
        ({"prefix": "e u."}, "white space"),
        ({"prefix": "*."}, "wildcard"),
        ({"policy": {"max_attempts": 3}}, "a policy is a Redelivery"),
        ({"workers": 0}, "workers=0"),
        ({"workers": True}, "workers=True"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": "5"}, "timeout='5'"),
        ({"middleware": len}, "write: middleware=[len]"),
    ],
    ids=repr,
)
def test_a_router_that_cannot_work_is_refused_when_it_is_made(
    options: dict[str, Any], told: str
) -> None:
    with pytest.raises(DeclarationError) as error:
        Router[MemoryTopic](**options)

    assert told in str(error.value)


def test_a_router_and_a_handler_are_not_taken_for_each_other() -> None:
    router = Router[MemoryTopic]()
    handler: Any = remember
    group: Any = router

    with pytest.raises(DeclarationTypeError, match=r"write: include_router\(…\)"):
        MemoryBroker().include(group)
    with pytest.raises(DeclarationTypeError, match=r"write: include_router\(…\)"):
        router.include(group)
    with pytest.raises(DeclarationTypeError, match="or include"):
        MemoryBroker().include_router(handler)
    with pytest.raises(DeclarationTypeError, match="or include"):
        router.include_router(handler)


def test_a_plain_function_is_refused_with_what_to_write() -> None:
    async def handler(order: int) -> None: ...

    plain: Any = handler
    router = Router[MemoryTopic]()

    with pytest.raises(DeclarationTypeError, match="it is no subscriber") as error:
        router.include(plain)

    refused(error.value, line() - 2)


def test_a_handler_added_after_its_router_was_included_is_refused() -> None:
    router = Router[MemoryTopic](prefix="eu.")
    router.include(remember, reply_to="receipts")
    broker = MemoryBroker()
    broker.include_router(router)
    at = line() - 1

    with pytest.raises(DeclarationError) as late:
        router.include(remember, reply_to="receipts")
    with pytest.raises(DeclarationError) as later:
        router.include_router(Router[MemoryTopic]())

    told = refused(late.value, line() - 4)
    assert f"included before, at tests/in_process/core/{HERE}:{at}" in told
    refused(later.value, line() - 4)
    assert len(broker.mounts) == 1


def test_a_router_in_itself_is_refused() -> None:
    router = Router[MemoryTopic]()
    router.include(remember, reply_to="receipts")

    with pytest.raises(DeclarationError, match="in itself") as error:
        router.include_router(router)

    refused(error.value, line() - 2)
