"""What type checkers see of handlers. Checked by pyright strict; nothing here is run.

An ``ignore`` on a line says that the line must be an error: one that is not needed is an error.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import functools
from typing import Any, assert_type

import msgspec

from surestream import (
    Attempt,
    Delivery,
    Headers,
    Key,
    Outcome,
    Publisher,
    State,
    Subscriber,
    ack,
    outgoing,
    subscriber,
)
from surestream.codec import Codec, JsonCodec
from surestream.contract import Source


class Shelf(Source): ...  # the abstract parts do not matter to a type checker here


class OtherShelf(Source): ...


class Reader:
    """As brokers declare `include`."""

    def include(self, each: Subscriber[Shelf, ..., Any]) -> None: ...


@outgoing("refunds")
class Refund(msgspec.Struct):
    id: int


class Processor:
    async def refund(self, refund: Refund) -> int:
        return refund.id


EntryId = Key("EntryId", str)


def decorated(shelf: Shelf, other: OtherShelf) -> None:
    @subscriber(shelf)
    async def process(refund: Refund, processor: State[Processor]) -> Outcome:
        # the state's attributes are visible
        assert_type(processor, Processor)
        assert_type(await processor.refund(refund), int)
        return ack()

    # the handler keeps its own signature
    async def by_hand() -> None:
        assert_type(await process(Refund(1), Processor()), Outcome)
        assert_type(await process(refund=Refund(1), processor=Processor()), Outcome)
        await process(Refund(1))  # pyright: ignore[reportCallIssue]
        await process("refund", Processor())  # pyright: ignore[reportArgumentType]

    assert_type(process.source, Shelf)

    @subscriber(other)
    async def elsewhere(refund: Refund) -> None: ...

    # a handler on the wrong broker is an error
    Reader().include(process)
    Reader().include(elsewhere)  # pyright: ignore[reportArgumentType]
    _ = by_hand


def plain_function(shelf: Shelf) -> None:
    @subscriber(shelf)
    def process(refund: Refund, factor: int = 1) -> Outcome:
        return ack()

    assert_type(process(Refund(1), factor=2), Outcome)


async def without_decorator(shelf: Shelf) -> None:
    class ProcessRefund:
        async def __call__(self, refund: Refund) -> Outcome:
            return ack()

        def method(self, refund: Refund) -> None: ...

    async def function(refund: Refund, factor: int) -> Outcome:
        return ack()

    assert_type(await Subscriber(shelf, ProcessRefund())(Refund(1)), Outcome)
    assert_type(Subscriber(shelf, ProcessRefund().method)(Refund(1)), None)
    partial = Subscriber(shelf, functools.partial(function, factor=2))
    assert_type(await partial(Refund(1)), Outcome)
    Reader().include(Subscriber(shelf, ProcessRefund()))


def without_a_source(shelf: type[Shelf]) -> None:
    subscriber(shelf)  # pyright: ignore[reportArgumentType]
    subscriber("refunds")  # pyright: ignore[reportArgumentType]


async def everything_else(
    delivery: Delivery, headers: Headers, attempt: Attempt, publisher: Publisher
) -> None:
    assert_type(delivery[EntryId], str)
    assert_type(headers.get("tenant"), str | None)
    assert_type(int(attempt), int)
    assert_type(attempt.last, bool)
    await publisher.publish("refunds", Refund(1), headers={"tenant": "acme"})
    await publisher.publish(Refund(1))
    await publisher.publish(Refund(1), headers={"tenant": 3})  # pyright: ignore[reportArgumentType]
    assert_type(Refund(1).id, int)  # @outgoing keeps the class


def codecs() -> Codec:
    return JsonCodec()
