"""Parameters that no message could fill are refused at mount, each with the words it is told in."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest

from surestream.context import Attempt, Publisher, State, StateMarker
from surestream.delivery import Delivery, Key
from surestream.errors import DeclarationError, DeclarationTypeError
from surestream.message import Headers
from surestream.outcome import Outcome, ack
from surestream.subscriber import site_of
from tests.unit.handlers.stand_ins import Sequence, Topic, mount

if TYPE_CHECKING:
    from decimal import Decimal

    Money = Decimal

pytestmark = pytest.mark.rule("7.1")


class Refund(msgspec.Struct):
    id: int


class Other(msgspec.Struct):
    id: int


class Bank:
    """Nothing that could be decoded."""


Offset = Key("Offset", int)


class Redelivered(Delivery):
    pass


async def unannotated(refund) -> None: ...  # type: ignore[no-untyped-def]


async def any_arguments(refund: Refund, *args: int) -> None: ...


async def any_names(refund: Refund, **kwargs: int) -> None: ...


def unnamed_wrapper(*args: Any, **kwargs: Any) -> Any: ...


async def two_payloads(refund: Refund, other: Other) -> None: ...


async def forgotten_state(refund: Refund, bank: Bank) -> None: ...


async def forgotten_state_first(bank: Bank, refund: Refund) -> None: ...


async def undecodable(bank: Bank) -> None: ...


async def which_default(refund: Refund | None = None, other: Other | None = None) -> None: ...


async def checker_only(money: Money) -> None: ...


async def checker_only_inside(money: list["Money"]) -> None: ...  # noqa: UP037


async def bad_text(refund: "Refund[") -> None: ...  # type: ignore[valid-type]  # noqa: F722


async def wrong_key_type(refund: Refund, topic: Annotated[int, Topic]) -> None: ...


async def wrong_container(refund: Refund, topic: Annotated[list[str], Topic]) -> None: ...


async def unknown_key(refund: Refund, offset: Annotated[int, Offset]) -> None: ...


async def key_class(refund: Refund, topic: Annotated[str, Key]) -> None: ...


async def key_of(refund: Refund, topic: Annotated[str, Key[str]]) -> None: ...


async def state_as_mark(refund: Refund, bank: Annotated[Bank, State]) -> None: ...


async def marker_as_mark(refund: Refund, bank: Annotated[Bank, StateMarker]) -> None: ...


async def bare_state(refund: Refund, bank: State) -> None: ...  # type: ignore[type-arg]


async def two_marks(refund: Refund, topic: Annotated[str, Topic, Sequence]) -> None: ...


async def state_inside(refund: Refund, banks: list[State[Bank]]) -> None: ...


async def headers_inside(refund: Refund | Headers) -> None: ...


async def own_delivery(refund: Refund, delivery: Redelivered) -> None: ...


def blocking(refund: Refund, publisher: Publisher) -> None: ...


async def yields(refund: Refund) -> AsyncIterator[Outcome]:
    yield ack()


def yields_too(refund: Refund) -> Iterator[Outcome]:
    yield ack()


async def gives_text(refund: Refund) -> str:
    return "done"


async def gives_many(refund: Refund) -> dict[str, Outcome]:
    return {}


class Method:
    async def handle(self, refund: Refund) -> None: ...


ANNOTATE = (
    "an annotation: the payload's type, State[…], Headers, Delivery, Attempt, Publisher or "
    "Annotated[…, Key]"
)
NAME_IT = "refund: Refund (a wrapper keeps the names with functools.wraps)"
TYPES = (
    "a msgspec.Struct, pydantic model, dataclass, attrs class, TypedDict, container, bytes or str"
)

REFUSALS: list[tuple[Callable[..., Any], str, str, str]] = [
    (
        unannotated,
        "parameter refund of unannotated",
        "nothing says what to pass for it",
        ANNOTATE,
    ),
    (
        any_arguments,
        "parameter *args of any_arguments",
        "each parameter needs a name and a type, so that it is known what to pass",
        NAME_IT,
    ),
    (
        any_names,
        "parameter **kwargs of any_names",
        "each parameter needs a name and a type, so that it is known what to pass",
        NAME_IT,
    ),
    (
        unnamed_wrapper,
        "parameter *args of unnamed_wrapper",
        "each parameter needs a name and a type, so that it is known what to pass",
        NAME_IT,
    ),
    (
        two_payloads,
        "parameter other: Other of two_payloads",
        "'refund' is the payload already, and a message has one",
        "other: State[Other] where the lifespan yields it",
    ),
    (
        forgotten_state,
        "parameter bank: Bank of forgotten_state",
        "'refund' is the payload already, and a message has one",
        "bank: State[Bank] where the lifespan yields it",
    ),
    (
        forgotten_state_first,
        "parameter bank: Bank of forgotten_state_first",
        "'refund' is the payload already, and a message has one",
        "bank: State[Bank] where the lifespan yields it",
    ),
    (
        undecodable,
        "parameter bank: Bank of undecodable",
        f"as payload: no JSON value can become a {__name__}.Bank",
        TYPES,
    ),
    (
        which_default,
        "parameters 'refund' and 'other' of which_default",
        "each has a default, so it is not clear which one is the payload",
        "refund: Refund | None, without a default",
    ),
    (
        checker_only,
        "parameter 'money' of checker_only",
        "its annotation 'Money' cannot be resolved: name 'Money' is not defined (local to a "
        "function, or imported for type checkers only?)",
        "Money at module level, imported outside `if TYPE_CHECKING:`",
    ),
    (
        wrong_key_type,
        "parameter topic: Annotated[int, Topic] of wrong_key_type",
        "Topic is a str",
        "topic: Annotated[str, Topic]",
    ),
    (
        wrong_container,
        "parameter topic: Annotated[list[str], Topic] of wrong_container",
        "Topic is a str",
        "topic: Annotated[str, Topic]",
    ),
    (
        unknown_key,
        "parameter offset: Annotated[int, Offset] of unknown_key",
        "Shelf does not know Offset; it knows: Sequence, Topic",
        "a key of this broker",
    ),
    (
        key_class,
        "parameter topic: Annotated[str, Key] of key_class",
        "Key is the class of keys, not one of them",
        "Annotated[str, EntryId]",
    ),
    (
        key_of,
        "parameter topic: Annotated[str, Key[str]] of key_of",
        "Key is the class of keys, not one of them",
        "Annotated[str, EntryId]",
    ),
    (
        state_as_mark,
        "parameter bank: Annotated[Bank, State] of state_as_mark",
        "State is written around the type",
        "bank: State[Bank]",
    ),
    (
        bare_state,
        "parameter bank: State of bare_state",
        "State of what?",
        "bank: State[Processor]",
    ),
    (
        two_marks,
        "parameter topic: Annotated[str, Topic, Sequence] of two_marks",
        "it has several marks: [Topic, Sequence]",
        "one mark, as Topic",
    ),
    (
        state_inside,
        "parameter banks: list[State[Bank]] of state_inside",
        "State[Bank] stands inside another type",
        "a parameter of its own for State[Bank]",
    ),
    (
        headers_inside,
        "parameter refund: Refund | Headers of headers_inside",
        "Headers stands inside another type",
        "a parameter of its own for Headers",
    ),
    (
        own_delivery,
        "parameter delivery: Redelivered of own_delivery",
        "the class of a delivery depends on the broker",
        "delivery: Delivery",
    ),
    (
        blocking,
        "parameter publisher: Publisher of blocking",
        "publishing is awaited, and a def handler cannot await: nothing would be sent",
        "async def blocking",
    ),
    (
        yields,
        "handler yields",
        "it yields, and a handler gives one outcome",
        "return ack() instead of yield",
    ),
    (
        yields_too,
        "handler yields_too",
        "it yields, and a handler gives one outcome",
        "return ack() instead of yield",
    ),
    (
        gives_text,
        "handler gives_text -> str",
        "a handler decides what happens to the message, and this is no outcome (rule 2.2)",
        "-> Outcome, or -> None where every normal end acknowledges; "
        'include(…, reply_to="an.address") publishes what is returned',
    ),
    (
        Method.handle,
        "parameter self of Method.handle",
        "a method is included with its object",
        "Subscriber(source, TheClass().method)",
    ),
]


@pytest.mark.parametrize(
    ("handler", "what", "why", "write"), REFUSALS, ids=[each[1] for each in REFUSALS]
)
def test_the_refusal_names_parameter_handler_reason_and_line(
    handler: Callable[..., Any], what: str, why: str, write: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        mount(handler)
    assert str(caught.value).splitlines() == [
        f"refused: {what}",
        f"  where: {site_of(handler)}",
        f"  why:   {why}",
        f"  write: {write}",
    ]


@pytest.mark.parametrize("handler", [checker_only_inside, bad_text, marker_as_mark, gives_many])
def test_these_are_refused_as_well(handler: Callable[..., Any]) -> None:
    with pytest.raises(DeclarationError):
        mount(handler)


def test_a_type_local_to_a_function_is_refused_where_it_cannot_be_seen() -> None:
    class Local(msgspec.Struct):
        id: int

    async def handler(refund: Local) -> None: ...

    with pytest.raises(DeclarationError, match=r"'Local' .* \(local to a function, or imported"):
        mount(handler)


def test_a_callable_without_a_signature_is_refused() -> None:
    with pytest.raises(DeclarationTypeError, match="its signature cannot be read"):
        mount(min)


def test_a_lambda_is_refused_for_its_missing_annotation() -> None:
    with pytest.raises(DeclarationTypeError, match="nothing says what to pass for it"):
        mount(lambda refund: ack())


def test_a_wrapper_that_keeps_the_names_is_no_mistake() -> None:
    async def handler(refund: Refund, attempt: Attempt) -> None: ...

    @functools.wraps(handler)
    async def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    assert [each.name for each in mount(wrapper).arguments] == ["refund", "attempt"]


def test_keys_are_not_checked_against_a_broker_that_does_not_tell() -> None:
    assert mount(unknown_key, known=None).takes_payload


def test_key_types_are_checked_only_where_that_is_certain() -> None:
    async def handler(
        refund: Refund,
        a: Annotated[object, Topic],
        b: Annotated[Any, Topic],
        c: Annotated[str | None, Topic],
        d: Annotated[int | str, Topic],
    ) -> None: ...

    assert len(mount(handler).arguments) == 5
