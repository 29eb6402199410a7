"""What handlers of every shape are called with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest
from typing_extensions import TypeAliasType

from surestream.context import Attempt, Publisher, State
from surestream.delivery import Delivery
from surestream.errors import Site
from surestream.message import Headers
from surestream.outcome import ack, retry
from tests.unit.handlers.stand_ins import Outbox, Parcel, Sequence, Topic, bind, deliver, mount

if TYPE_CHECKING:
    from surestream.outcome import Outcome


class Refund(msgspec.Struct):
    id: int


class Bank:
    pass


REFUND = Parcel(b'{"id":7}', (("X-Tenant", b"acme"),), number=3, maximum=3)


async def test_a_payload() -> None:
    async def handler(refund: Refund) -> Any:
        return refund

    assert await deliver(handler, REFUND) == Refund(7)


async def test_everything_a_handler_may_ask_for_in_any_order() -> None:
    bank, outbox = Bank(), Outbox()

    async def handler(
        headers: Headers,
        bank: State[Bank],
        refund: Refund,
        /,
        delivery: Delivery,
        attempt: Attempt,
        *,
        topic: Annotated[str, Topic],
        publisher: Publisher,
        sequence: Annotated[int, Sequence],
    ) -> Any:
        return headers, bank, refund, delivery, attempt, topic, publisher, sequence

    # given everything a run supplies, when the handler is called, then each is in its place
    result = await bind(handler, bank, outbox)(REFUND, Refund(7))
    assert result == (
        REFUND.headers,
        bank,
        Refund(7),
        REFUND,
        Attempt(3, 3),
        "devices/7",
        outbox,
        12,
    )
    assert result[0]["x-tenant"] == "acme"


async def test_payload_and_constants() -> None:
    async def one(refund: Refund, bank: State[Bank]) -> Any:
        return refund, bank

    async def two(refund: Refund, bank: State[Bank], publisher: Publisher) -> Any:
        return refund, bank, publisher

    async def named(refund: Refund, *, bank: State[Bank]) -> Any:
        return refund, bank

    bank, outbox = Bank(), Outbox()
    assert await bind(one, bank)(REFUND, Refund(7)) == (Refund(7), bank)
    assert await bind(two, bank, outbox)(REFUND, Refund(7)) == (Refund(7), bank, outbox)
    assert await bind(named, bank)(REFUND, Refund(7)) == (Refund(7), bank)


async def test_without_a_payload_nothing_is_decoded() -> None:
    async def nothing() -> Any:
        return "called"

    async def headers(headers: Headers) -> Any:
        return headers["x-tenant"]

    async def several(headers: Headers, attempt: Attempt, delivery: Delivery) -> Any:
        return headers["x-tenant"], int(attempt), delivery.payload

    undecodable = Parcel(b"\xff", (("x-tenant", b"acme"),))
    assert not mount(nothing).takes_payload
    assert await deliver(nothing, undecodable) == "called"
    assert await deliver(headers, undecodable) == "acme"
    assert await deliver(several, undecodable) == ("acme", 1, b"\xff")


async def test_a_payload_by_keyword() -> None:
    async def handler(*, refund: Refund) -> Any:
        return refund

    assert await deliver(handler, REFUND) == Refund(7)


async def test_parameters_with_a_default_are_left_alone() -> None:
    async def handler(
        refund: Refund,
        factor: int = 2,
        nothing=None,  # type: ignore[no-untyped-def]
        headers: Headers | None = None,
        limit: int = 5,
        *,
        name: str = "n",
    ) -> Any:
        return refund, factor, nothing, headers and headers["x-tenant"], limit, name

    assert await deliver(handler, REFUND) == (Refund(7), 2, None, "acme", 5, "n")
    assert [each.name for each in mount(handler).arguments] == [
        "refund",
        "factor",
        "nothing",
        "headers",
    ]


async def test_the_only_payload_may_have_a_default() -> None:
    async def handler(refund: Refund | None = None) -> Any:
        return refund

    assert await deliver(handler, REFUND) == Refund(7)
    assert await deliver(handler, Parcel(b"null")) is None


async def test_things_of_the_runtime_may_be_optional_for_calls_by_hand() -> None:
    async def handler(
        refund: Refund,
        attempt: Attempt | None = None,
        bank: State[Bank] | None = None,
        topic: Annotated[str, Topic] | None = None,
    ) -> Any:
        return attempt, bank, topic

    bank = Bank()
    assert await deliver(handler, REFUND, state=bank) == (Attempt(3, 3), bank, "devices/7")


async def test_what_a_partial_binds_is_not_filled() -> None:
    async def handler(bank: State[Bank], refund: Refund, factor: int, headers: Headers) -> Any:
        return bank, refund, factor, headers["x-tenant"]

    bank = Bank()
    bound = functools.partial(handler, bank, factor=3)
    assert await deliver(bound, REFUND) == (bank, Refund(7), 3, "acme")
    assert mount(bound).state_needs == ()
    twice = functools.partial(functools.partial(handler, bank=bank), factor=4)
    assert await deliver(twice, REFUND) == (bank, Refund(7), 4, "acme")


class Handles:
    def __init__(self) -> None:
        self.seen: list[object] = []

    async def __call__(self, refund: Refund, bank: State[Bank]) -> Any:
        return self, refund, bank

    async def method(self, refund: Refund) -> Any:
        return self, refund

    @staticmethod
    async def static(refund: Refund) -> Any:
        return refund

    @classmethod
    async def of_class(cls, refund: Refund) -> Any:
        return cls, refund


async def test_objects_and_methods() -> None:
    handles, bank = Handles(), Bank()
    assert await deliver(handles, REFUND, state=bank) == (handles, Refund(7), bank)
    assert await deliver(handles.method, REFUND) == (handles, Refund(7))
    assert await deliver(handles.static, REFUND) == Refund(7)
    assert await deliver(Handles.of_class, REFUND) == (Handles, Refund(7))
    assert mount(handles).is_async
    assert mount(handles.method).is_async


async def test_a_def_is_no_coroutine() -> None:
    def handler(refund: Refund) -> Any:
        return refund

    class Object:
        def __call__(self, refund: Refund) -> Any:
            return refund

    for each in (handler, Object()):
        assert not mount(each).is_async
        assert bind(each)(REFUND, Refund(7)) == Refund(7)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def test_a_def_that_gives_something_to_await_is_called_on_the_loop() -> None:
    class Later:
        def __await__(self) -> Any:
            yield from ()
            return "later"

    async def inner(refund: Refund) -> str:
        return "inner"

    @logged
    async def wrapped(refund: Refund) -> None:
        return None

    def coroutine(refund: Refund) -> Coroutine[Any, Any, None]:
        return inner(refund)  # type: ignore[return-value]

    def awaitable(refund: Refund) -> Awaitable[None]:
        return Later()  # type: ignore[return-value]

    for handler, expected in ((wrapped, None), (coroutine, "inner"), (awaitable, "later")):
        assert mount(handler).is_async
        call = bind(handler)(REFUND, Refund(7))
        # what a worker drives has to be a coroutine
        assert inspect.iscoroutine(call)
        assert await call == expected


async def test_a_wrapper_that_gives_no_awaitable_after_all_gives_its_result() -> None:
    async def inner(refund: Refund) -> None: ...

    @functools.wraps(inner)
    def wrapper(refund: Refund) -> Any:
        return ack()

    assert await deliver(wrapper, REFUND) == ack()


@pytest.mark.rule("2.2")
def test_none_acknowledges_only_without_the_promise_of_an_outcome() -> None:
    async def promises(refund: Refund) -> Outcome:
        return ack()

    async def promises_in_text(refund: Refund) -> "Outcome":  # noqa: UP037
        return ack()

    async def annotated(refund: Refund) -> Annotated[Outcome, "what to do"]:
        return ack()

    def promises_to_await(refund: Refund) -> Awaitable[Outcome]:
        return promises(refund)

    async def silent(refund: Refund):  # type: ignore[no-untyped-def]
        return ack()

    async def returns_none(refund: Refund) -> None: ...

    async def either(refund: Refund) -> Outcome | None: ...

    async def anything(refund: Refund) -> Any: ...

    assert not mount(promises).none_acks
    assert not mount(promises_in_text).none_acks
    assert not mount(annotated).none_acks
    assert not mount(promises_to_await).none_acks
    assert not mount(logged(promises)).none_acks
    assert mount(silent).none_acks
    assert mount(returns_none).none_acks
    assert mount(either).none_acks
    assert mount(anything).none_acks


async def test_names_imported_for_type_checkers_only_are_the_vocabulary() -> None:
    async def handler(refund: Refund) -> Outcome:
        return retry()

    assert "Outcome" not in globals()
    assert not mount(handler).none_acks


async def test_types_of_the_enclosing_function_are_found_where_it_uses_them() -> None:
    class Local(msgspec.Struct):
        id: int

    async def handler(refund: Local) -> Any:
        return refund == Local(7)

    assert await deliver(handler, REFUND) is True


Money = TypeAliasType("Money", Refund)
OwnBank = TypeAliasType("OwnBank", State[Bank])


async def test_aliases_of_types_are_looked_through() -> None:
    async def handler(refund: Money, bank: OwnBank) -> Any:
        return refund, bank

    bank = Bank()
    assert await deliver(handler, REFUND, state=bank) == (Refund(7), bank)


def test_a_plan_tells_what_state_it_needs() -> None:
    async def handler(
        refund: Refund, bank: State[Bank], *, names: State[dict[str, int]]
    ) -> None: ...

    assert mount(handler).state_needs == (("bank", Bank), ("names", dict[str, int]))
    assert mount(handler).site.handler == "handler"
    assert isinstance(mount(handler).site, Site)


def test_an_attempt_tells_whether_it_is_the_last() -> None:
    assert [Attempt(n, 3).last for n in (1, 2, 3, 4)] == [False, False, True, True]
    assert not Attempt(100).last
    assert int(Attempt(2, 3)) == 2
    assert (str(Attempt(2, 3)), str(Attempt(2))) == ("2/3", "2")
    with pytest.raises(AttributeError):
        Attempt(1).number = 2  # type: ignore[misc]
