"""Types that know where their values go."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from surestream.destination import destination_of, outgoing
from surestream.errors import DeclarationError, DeclarationTypeError


@outgoing("payments")
class Struct(msgspec.Struct, frozen=True):
    id: int = 1


@outgoing("payments")
class Model(pydantic.BaseModel):
    id: int = 1


@outgoing("payments")
@dataclasses.dataclass(slots=True)
class Data:
    id: int = 1


@dataclasses.dataclass(slots=True)
@outgoing("payments")
class DataInside:
    id: int = 1


@outgoing("payments")
@attrs.define
class Attrs:
    id: int = 1


@outgoing("payments")
class Named(NamedTuple):
    id: int = 1


@pytest.mark.parametrize("kind", [Struct, Model, Data, DataInside, Attrs, Named])
def test_a_value_and_its_type_know_their_destination(kind: Any) -> None:
    assert destination_of(kind) == "payments"
    assert destination_of(kind()) == "payments"


def test_a_subclass_inherits_and_may_choose_another() -> None:
    class Inherits(Struct, frozen=True):
        pass

    @outgoing("payments.urgent")
    class Chooses(Struct, frozen=True):
        pass

    assert destination_of(Inherits()) == "payments"
    assert destination_of(Chooses()) == "payments.urgent"
    assert destination_of(Struct()) == "payments"


@pytest.mark.parametrize("value", [3, "text", b"", None, {"id": 1}, object, list[int]])
def test_anything_else_has_none(value: object) -> None:
    assert destination_of(value) is None


@pytest.mark.rule("7.1")
@pytest.mark.case("CV-01")
@pytest.mark.parametrize("name", ["", " ", "a b", "dead.*", "updates/+/dead", "x\n", "x" * 70_000])
def test_a_name_nothing_can_be_published_to_is_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match=r'write: @outgoing\("payments"\) above the class'):
        outgoing(name)


@pytest.mark.rule("7.1")
@pytest.mark.parametrize("name", [None, b"payments", 3])
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(DeclarationTypeError, match=r'write: @outgoing\("payments"\)'):
        outgoing(name)


@pytest.mark.rule("7.1")
def test_a_forgotten_destination_is_refused() -> None:
    with pytest.raises(DeclarationTypeError, match="the destination is missing"):

        @outgoing  # type: ignore[arg-type]
        class Forgotten:
            pass


@pytest.mark.rule("7.1")
def test_a_second_destination_is_refused() -> None:
    with pytest.raises(DeclarationError, match="its destination is 'payments' already"):
        outgoing("refunds")(Struct)


@pytest.mark.rule("7.1")
def test_what_is_no_class_or_forgets_its_class_is_refused() -> None:
    class Typed(TypedDict):
        id: int

    with pytest.raises(DeclarationTypeError, match="values of a TypedDict are plain dicts"):
        outgoing("payments")(Typed)
    declare: Any = outgoing("payments")
    with pytest.raises(DeclarationTypeError, match="a destination belongs to a class"):
        declare(Struct())
