"""What is middleware, and how everything else is refused (rule 7.1)."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from surestream import (
    App,
    CallNext,
    DeclarationError,
    Delivery,
    Outgoing,
    Send,
    subscriber,
)
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.middleware import checked
from surestream.redis import RedisBroker

pytestmark = pytest.mark.rule("7.1")


class Receipt(msgspec.Struct):
    order: int


@subscriber(MemoryTopic("orders"))
async def process(order: int) -> Receipt | None:
    return Receipt(order)


def refusal(**options: Any) -> DeclarationError:
    """How including the handler with ``options`` is refused."""
    with pytest.raises(DeclarationError) as error:
        MemoryBroker().include(process, **({"reply_to": "receipts"} | options))
    return error.value


async def fine(delivery: Delivery, call_next: CallNext) -> object: ...


def plain(delivery: Delivery, call_next: CallNext) -> object: ...


async def one_argument(handler: object) -> object: ...


async def three(delivery: Delivery, call_next: CallNext, more: object) -> object: ...


async def generator(delivery: Delivery, call_next: CallNext) -> AsyncIterator[object]:
    yield await call_next(delivery)


def plain_generator(delivery: Delivery, call_next: CallNext) -> Iterator[object]:
    yield 1


@contextlib.asynccontextmanager
async def context(delivery: Delivery, call_next: CallNext) -> AsyncIterator[object]:
    yield 1


class Timed:
    """Middleware as an object; the class itself is none."""

    def __init__(self, delivery: object = None, call_next: object = None) -> None: ...
    async def __call__(self, delivery: Delivery, call_next: CallNext) -> object: ...
    def plain(self, delivery: Delivery, call_next: CallNext) -> object: ...


class PlainTimed:
    def __call__(self, delivery: Delivery, call_next: CallNext) -> object: ...


YIELDS = "it yields: what stands around the call is written around `await`"
PLAIN = "it is no async function: nothing would await it"
WRONG = [
    (plain, PLAIN),
    (Timed().plain, PLAIN),
    (PlainTimed(), PLAIN),
    (functools.partial(plain), PLAIN),
    (one_argument, "it is called with (delivery, call_next)"),
    (three, "it is called with (delivery, call_next)"),
    (generator, YIELDS),
    (plain_generator, YIELDS),
    (context, YIELDS),
    (Timed, "it is a class: give one of its objects, or a function"),
    ("timed", "it is not callable"),
    (None, "it is not callable"),
]


@pytest.mark.parametrize(("middleware", "why"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_middleware_is_refused(middleware: Any, why: str) -> None:
    for error in (
        refusal(middleware=[fine, middleware]),
        _refusal_of(lambda: App("shop", middleware=[middleware])),
        _refusal_of(lambda: MemoryBroker(middleware=[middleware])),
        _refusal_of(lambda: RedisBroker(middleware=[middleware])),
    ):
        assert error.why == why
        assert str(error.what).startswith("middleware=[")
        assert "(delivery, call_next): …" in str(error.write)


@pytest.mark.parametrize("given", [fine, "fine", {fine}, (one for one in [fine]), 3, None])
def test_middleware_is_a_list(given: Any) -> None:
    error = refusal(middleware=given)

    assert error.why == "it is a list of async functions, in the order in which they are entered"


async def stamped(message: Outgoing, send: Send) -> None: ...


def test_publish_middleware_is_checked_alike() -> None:
    wrong: Any = [one_argument]
    for error in (
        _refusal_of(lambda: App("shop", publish_middleware=wrong)),
        _refusal_of(lambda: MemoryBroker(publish_middleware=wrong)),
        _refusal_of(lambda: RedisBroker(publish_middleware=wrong)),
    ):
        assert error.what == "publish_middleware=[one_argument]"
        assert error.write == "async def one_argument(message, send): …"
    assert MemoryBroker(publish_middleware=[stamped]).publish_middleware == (stamped,)
    assert RedisBroker(publish_middleware=[stamped]).publish_middleware == (stamped,)


def test_what_is_not_written_in_python_is_taken_as_it_is() -> None:
    class Compiled:
        __signature__ = "none"

        async def __call__(self, delivery: Delivery, call_next: CallNext) -> object: ...

    assert len(checked("middleware", [Timed(), Timed().__call__], "delivery, call_next")) == 2


def _refusal_of(declare: Any) -> DeclarationError:
    with pytest.raises(DeclarationError) as error:
        declare()
    return error.value
