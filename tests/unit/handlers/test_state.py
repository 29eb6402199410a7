"""Which part of what the lifespan yielded a `State[T]` parameter gets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, NewType, Protocol, runtime_checkable
from unittest.mock import AsyncMock

import attrs
import msgspec
import pydantic
import pytest

from surestream.context import State
from surestream.declaration import UNSET
from surestream.errors import DeclarationError
from surestream.runtime.calls.state import resolve_state
from surestream.subscriber import site_of
from tests.unit.handlers.stand_ins import bind, mount


class Bank:
    def pay(self) -> None: ...


class Processor:
    def refund(self) -> None: ...
    def close(self) -> None: ...


class FastProcessor(Processor):
    pass


class Stub:
    """No Processor, but it can do all that one can."""

    def refund(self) -> None: ...
    def close(self) -> None: ...


class Refunds(Protocol):
    def refund(self) -> None: ...


class Titled(Protocol):
    title: str


@runtime_checkable
class Pays(Protocol):
    def pay(self) -> None: ...


@dataclasses.dataclass
class Data:
    bank: object
    processor: object


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    bank: object
    processor: object


@attrs.define
class Attrs:
    bank: object
    processor: object


class Struct(msgspec.Struct):
    bank: object
    processor: object


class Model(pydantic.BaseModel):
    bank: object
    processor: object


class Tupled(NamedTuple):
    bank: object
    processor: object


class Plain:
    def __init__(self, bank: object, processor: object) -> None:
        self.bank = bank
        self.processor = processor
        self._spare = Processor()


class Computed:
    def __init__(self, bank: object, processor: object) -> None:
        self._both = bank, processor

    @property
    def bank(self) -> object:
        return self._both[0]

    @property
    def processor(self) -> object:
        return self._both[1]


BANK, PROCESSOR = Bank(), FastProcessor()
HOLDERS: list[Any] = [
    Data,
    Slotted,
    Attrs,
    Struct,
    lambda bank, processor: Model(bank=bank, processor=processor),
    Tupled,
    Plain,
    Computed,
    lambda bank, processor: {"bank": bank, "processor": processor},
    lambda bank, processor: SimpleNamespace(bank=bank, processor=processor),
]


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_field_of_the_type_is_found(holder: Callable[[object, object], object]) -> None:
    state = holder(BANK, PROCESSOR)
    assert resolve_state(state, "processor", Processor) is PROCESSOR
    assert resolve_state(state, "bank", Bank) is BANK
    assert resolve_state(state, "processor", Refunds) is PROCESSOR
    assert resolve_state(state, "bank", Pays) is BANK


@pytest.mark.parametrize("holder", [each for each in HOLDERS if each is not Computed])
def test_the_only_field_of_a_type_may_have_another_name(
    holder: Callable[[object, object], object],
) -> None:
    assert resolve_state(holder(BANK, PROCESSOR), "anything", Processor) is PROCESSOR


def test_the_state_itself_comes_first() -> None:
    assert resolve_state(PROCESSOR, "processor", Processor) is PROCESSOR
    state = Data(BANK, PROCESSOR)
    assert resolve_state(state, "state", Data) is state
    assert resolve_state(state, "processor", Any) is state


def test_a_tuple_is_searched_by_type() -> None:
    assert resolve_state((BANK, PROCESSOR), "x", Processor) is PROCESSOR


def test_in_a_container_the_name_comes_first() -> None:
    limits = {"day": 1}
    state = {"limits": limits, "other": {"a": 2}}
    assert resolve_state(state, "limits", dict[str, int]) is limits
    assert resolve_state(state, "everything", dict[str, object]) is state


def test_of_several_the_one_of_that_name_is_taken() -> None:
    first, second = Processor(), Processor()
    state = SimpleNamespace(first=first, second=second)
    assert resolve_state(state, "second", Processor) is second
    with pytest.raises(DeclarationError) as caught:
        resolve_state(state, "processor", Processor)
    assert str(caught.value).splitlines() == [
        "refused: parameter processor: State[Processor]",
        "  why:   the state has several: first, second",
        "  write: first: State[Processor], called like the field that is meant",
    ]


def test_one_object_under_two_names_is_one() -> None:
    state = SimpleNamespace(a=PROCESSOR, b=PROCESSOR)
    assert resolve_state(state, "processor", Processor) is PROCESSOR


UserName = NewType("UserName", str)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (dict[str, int], {"a": 1}),
        (list[int], [1]),
        (int | None, 3),
        (Annotated[int, "seconds"], 3),
        (UserName, "a"),
        (Literal["fast", "slow"], "slow"),
        (Callable[[int], int], abs),
        (type[Bank], Bank),
        (Titled, SimpleNamespace(title="t")),
    ],
    ids=str,
)
def test_types_that_are_no_classes_match_by_what_can_be_seen(type_: Any, value: object) -> None:
    # given two fields of which one fits, when it is asked for under another name, then it is found
    state = SimpleNamespace(a=value, b=3.5)
    assert resolve_state(state, "other", type_) is value


def test_a_stand_in_for_tests_counts_by_its_methods() -> None:
    stub = Stub()
    assert resolve_state(Data(BANK, stub), "processor", Processor) is stub
    assert resolve_state(stub, "processor", Processor) is stub
    with pytest.raises(DeclarationError):
        # a field of another name is no stand-in
        resolve_state(Data(BANK, stub), "other", Processor)
    with pytest.raises(DeclarationError):
        # and one that lacks a method is none either
        resolve_state(Data(BANK, Bank()), "processor", Processor)


@pytest.mark.rule("7.1")
def test_where_nothing_fits_the_refusal_tells_what_there_is() -> None:
    with pytest.raises(DeclarationError) as caught:
        resolve_state(Data(BANK, 3), "processor", Processor)
    assert str(caught.value).splitlines() == [
        "refused: parameter processor: State[Processor]",
        "  why:   the lifespan yielded Data with bank: Bank, processor: int, and none of it is a "
        "Processor",
        "  write: yield a Processor in the lifespan, or an object with the field processor",
    ]


class Fake:
    """It was meant to stand in for a Bank."""


class HalfAProcessor:
    def refund(self) -> None: ...


def refusal(state: object, name: str, type_: Any, *, given: bool) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        resolve_state(state, name, type_, given=given)
    return str(caught.value).splitlines()[1:]


@pytest.mark.rule("7.1")
def test_a_stand_in_is_refused_with_what_it_lacks() -> None:
    assert refusal(SimpleNamespace(bank=Fake()), "bank", Bank, given=True) == [
        "  why:   state= has bank: Fake, which lacks Bank.pay",
        "  write: add it, subclass Bank, or AsyncMock(spec=Bank)",
    ]
    assert refusal({"bank": Fake()}, "bank", Bank, given=False) == [
        "  why:   the lifespan's state has bank: Fake, which lacks Bank.pay",
        "  write: add it, or subclass Bank",
    ]
    assert refusal(SimpleNamespace(it=Fake()), "it", Processor, given=True) == [
        "  why:   state= has it: Fake, which lacks Processor.close, Processor.refund",
        "  write: add them, subclass Processor, or AsyncMock(spec=Processor)",
    ]
    assert refusal(HalfAProcessor(), "processor", Processor, given=True) == [
        "  why:   state= is a HalfAProcessor, which lacks Processor.close",
        "  write: add it, subclass Processor, or AsyncMock(spec=Processor)",
    ]


@pytest.mark.parametrize("type_", [Bank, Refunds, Pays])
def test_the_mock_that_a_refusal_names_fits(type_: type) -> None:
    mock = AsyncMock(spec=type_)
    assert resolve_state(SimpleNamespace(it=mock), "it", type_, given=True) is mock


@pytest.mark.rule("7.1")
def test_a_state_that_a_test_gave_is_not_told_as_the_lifespans() -> None:
    assert refusal(Data(BANK, 3), "processor", Processor, given=True) == [
        "  why:   the state given is Data with bank: Bank, processor: int, and none of it is a "
        "Processor",
        "  write: state=a Processor, or an object with the field processor",
    ]
    assert refusal(None, "processor", Processor, given=True)[0].endswith("the state given is None")


@pytest.mark.rule("7.1")
def test_a_dict_is_told_to_be_looked_into_by_key() -> None:
    assert refusal({"bank": BANK}, "processor", Processor, given=True) == [
        "  why:   the state given is dict with bank: Bank (looked into by key), and none of it is "
        "a Processor",
        '  write: state=a Processor, or a dict with the key "processor"',
    ]


@pytest.mark.rule("7.1")
def test_a_lifespan_that_yields_nothing_is_refused() -> None:
    with pytest.raises(DeclarationError, match="the lifespan yielded nothing"):
        resolve_state(None, "processor", Processor)


@pytest.mark.rule("7.1")
@pytest.mark.parametrize("state", [object(), 3, "text", (), {}, SimpleNamespace()])
def test_states_without_fields_are_told_as_they_are(state: object) -> None:
    with pytest.raises(DeclarationError, match=f"the lifespan yielded {type(state).__name__}"):
        resolve_state(state, "processor", Processor)


async def handler(refund: int, processor: State[Processor]) -> None: ...


@pytest.mark.rule("7.1")
def test_an_app_without_lifespan_is_refused_with_the_line_to_write() -> None:
    expected = [
        "refused: parameter processor: State[Processor]",
        f"  where: {site_of(handler)}",
        "  why:   the app has no lifespan, so there is no state to pass",
        '  write: App("…", lifespan=clients), an async context manager that yields it',
    ]
    with pytest.raises(DeclarationError) as caught:
        mount(handler).refuse_without_lifespan()
    assert str(caught.value).splitlines() == expected
    with pytest.raises(DeclarationError) as caught:
        bind(handler, UNSET)
    assert str(caught.value).splitlines() == expected


def test_a_handler_without_state_needs_no_lifespan() -> None:
    async def stateless(refund: int) -> None: ...

    mount(stateless).refuse_without_lifespan()


@pytest.mark.rule("7.1")
def test_the_refusal_names_the_handler() -> None:
    with pytest.raises(DeclarationError) as caught:
        bind(handler, BANK)
    assert f"where: {site_of(handler)}" in str(caught.value)
