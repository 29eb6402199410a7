"""Payloads into types and back, and every way in which they are not what was asked for."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, NewType

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.codec import DECODE_ERRORS, JsonCodec, as_decode_error
from surestream.errors import DeclarationTypeError, DecodeError, EncodeError
from tests.unit.handlers.payload_types import (
    Aliased,
    Attrs,
    Checked,
    Data,
    Holder,
    Model,
    Named,
    Struct,
    Typed,
)

CODEC = JsonCodec()


UserId = NewType("UserId", str)


def decode(type_: Any, payload: bytes) -> Any:
    """As a worker does it."""
    read = CODEC.decoder(type_)
    try:
        return read(payload)
    except DECODE_ERRORS as error:
        raise as_decode_error(error) from error


@pytest.mark.parametrize(
    "value",
    [
        Struct(1, "a"),
        Model(id=1, card="a"),
        Data(1, "a"),
        Checked(1, "a"),
        Attrs(1, "a"),
        Named(1, "a"),
        Aliased(amountCents=3),
        Holder(Model(id=2)),
        Decimal("1.50"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_as_what_it_was(value: object) -> None:
    assert decode(type(value), CODEC.encode(value)) == value


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Typed, {"id": 1, "card": "a"}),
        (list[Struct], [Struct(1)]),
        (dict[str, Model], {"a": Model(id=1)}),
        (list[Model], [Model(id=1), Model(id=2)]),
        (Model | None, None),
        (list[Checked], [Checked(1)]),
        (Mapping[str, int], {"a": 1}),
        (Annotated[int, msgspec.Meta(gt=0)], 3),
        (Annotated[int, pydantic.Field(gt=0)], 3),
        (Any, {"a": [1, None]}),
        (object, [1]),
        (int | None, None),
    ],
    ids=str,
)
def test_containers_and_scalars_come_back(type_: Any, value: object) -> None:
    assert decode(type_, CODEC.encode(value)) == value


@pytest.mark.case("DE-02")
@pytest.mark.parametrize("payload", [b"\x82\xa2", bytes(range(256)), b"\0\0", b'"\\ud800"', b""])
def test_bytes_are_the_payload_itself(payload: bytes) -> None:
    assert decode(bytes, payload) is payload
    assert CODEC.encode(payload) is payload
    assert decode(bytearray, payload) == payload
    assert CODEC.encode(memoryview(payload)) == payload


@pytest.mark.case("DE-02")
def test_text_is_the_payload_as_strict_utf_8() -> None:
    assert decode(str, "grüße".encode()) == "grüße"
    assert CODEC.encode("grüße") == "grüße".encode()
    assert decode(UserId, b"u-1") == "u-1"
    assert decode(str, b"") == ""
    with pytest.raises(DecodeError, match=r"not UTF-8: .* at byte 1"):
        decode(str, b"a\xff")


@pytest.mark.parametrize(
    "type_",
    [
        Annotated[str, msgspec.Meta(max_length=3)],
        Annotated[bytes, msgspec.Meta(max_length=3)],
        Annotated[str, pydantic.StringConstraints(max_length=3)],
    ],
)
def test_limits_on_raw_payloads_hold(type_: Any) -> None:
    assert decode(type_, b"abc") in ("abc", b"abc")
    with pytest.raises(DecodeError, match="3"):
        decode(type_, b"abcd")


WEIRD = {
    "1e400": b'{"id":1e400}',
    "byte order mark": b'\xef\xbb\xbf{"id":1}',
    "nested 100,000 deep": b'{"id":' + b"[" * 100_000,
    "nested 100,000 deep as objects": b'{"id":' * 100_000,
    "lone surrogate": b'{"id":1,"card":"\\ud800"}',
    "empty": b"",
    "cut": b'{"id":1',
    "not JSON": b"hello",
    "not UTF-8": b'{"id":1,"card":"\xff"}',
    "wrong shape": b"[1,2]",
    "wrong type": b'{"id":"x"}',
    "missing": b"{}",
    "null": b"null",
    "not a number": b'{"id":NaN}',
    "5,000 digits": b'{"id":' + b"9" * 5000 + b"}",
    "msgpack": b"\x82\xa2id\x01",
    "two documents": b'{"id":1}{"id":2}',
}


@pytest.mark.rule("2.6")
@pytest.mark.case("DE-02", "DE-03", "DE-07")
@pytest.mark.parametrize("payload", WEIRD.values(), ids=WEIRD)
@pytest.mark.parametrize("type_", [Struct, Model, Data, Checked, Attrs, Typed])
def test_what_is_not_the_type_is_a_decode_error(type_: Any, payload: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(type_, payload)


@pytest.mark.rule("2.6")
@pytest.mark.case("DE-07")
@pytest.mark.parametrize("payload", WEIRD.values(), ids=WEIRD)
@pytest.mark.parametrize("type_", [Any, list[int], dict[str, Model], int | None])
def test_nothing_but_a_decode_error_leaves_the_decoder(type_: Any, payload: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode(type_, payload)


@given(st.binary(max_size=64))
def test_any_bytes_are_decoded_or_refused(payload: bytes) -> None:
    for type_ in (Struct, Model, str, Any):
        with contextlib.suppress(DecodeError):
            decode(type_, payload)


@pytest.mark.case("DE-07")
def test_of_repeated_keys_the_last_counts() -> None:
    assert decode(Struct, b'{"id":1,"id":2}') == Struct(2)
    assert decode(Model, b'{"id":1,"id":2}') == Model(id=2)


def test_the_reason_names_the_place() -> None:
    with pytest.raises(DecodeError, match=r"Expected `int`, got `str` - at `\$\[0\].id`"):
        decode(list[Struct], b'[{"id":"x"}]')
    with pytest.raises(DecodeError, match=r"^Input should be a valid integer.* - at `\$\[0\].id`$"):
        decode(list[Model], b'[{"id":"x"}]')


def test_a_long_list_of_problems_is_cut() -> None:
    with pytest.raises(DecodeError, match=r"and 7 more$"):
        decode(list[Model], b"[" + b",".join([b"{}"] * 10) + b"]")


@pytest.mark.rule("2.6")
def test_what_the_types_own_checks_raise_is_a_decode_error() -> None:
    @dataclasses.dataclass
    class Picky:
        id: int

        def __post_init__(self) -> None:
            raise LookupError("no such id")

    with pytest.raises(DecodeError, match="LookupError: no such id") as caught:
        decode(Picky, b'{"id":1}')
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_validator_of_attrs_runs() -> None:
    with pytest.raises(DecodeError, match="must be > 0"):
        decode(Attrs, b'{"id":0}')


def test_a_decode_error_of_ones_own_codec_stays_itself() -> None:
    own = DecodeError("schema 12 is unknown")
    assert as_decode_error(own) is own


def test_the_decoder_is_the_parsers_own() -> None:
    # given a type that msgspec decodes, then no function of ours stands in between
    read = CODEC.decoder(Struct)
    assert isinstance(getattr(read, "__self__", None), msgspec.json.Decoder)


class Plain:
    """Nothing that JSON could become."""


class Unfinished(pydantic.BaseModel):
    other: "Missing"  # type: ignore[name-defined]  # noqa: F821, UP037


class Mixed(msgspec.Struct):
    model: Model


@pytest.mark.rule("7.1")
@pytest.mark.parametrize(
    ("type_", "why"),
    [
        (Plain, r"no JSON value can become a .*Plain"),
        (list[Plain], r"Plain"),
        (Callable[[int], int], r"Callable"),
        (Plain | Data, r"Plain"),
        (Mixed, r"Unable to generate pydantic-core schema for .*Mixed"),
        (Unfinished, r"Missing"),
        (list[Unfinished], r"Missing"),
    ],
    ids=str,
)
def test_a_type_that_can_never_be_decoded_is_refused(type_: Any, why: str) -> None:
    with pytest.raises(DeclarationTypeError, match=why) as caught:
        CODEC.decoder(type_)
    assert "write: a msgspec.Struct, pydantic model" in str(caught.value)


def test_a_field_with_a_default_may_be_of_any_type() -> None:
    class WithCache(msgspec.Struct):
        id: int
        cache: Plain | None = None

    assert decode(WithCache, b'{"id":1}') == WithCache(1)


def test_constraints_with_metadata_that_cannot_be_hashed_are_decoded() -> None:
    type_ = Annotated[int, pydantic.Field(gt=0, json_schema_extra={"a": []}), ["unhashable"]]
    assert decode(type_, b"1") == 1


def test_a_type_that_holds_itself_is_decoded() -> None:
    assert decode(Tree, b'{"children":[{"children":[]}]}') == Tree([Tree([])])


class Tree(msgspec.Struct):
    children: "list[Tree]"  # noqa: UP037


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Plain(), "Plain cannot be written as JSON"),
        ([Plain()], "Plain cannot be written as JSON"),
        ("\ud800", "surrogates not allowed"),
        ({"a": "\ud800"}, "surrogates not allowed"),
        ({(1, 2): 3}, "tuple cannot be written as JSON"),
        (test_a_type_that_holds_itself_is_decoded, "function cannot be written as JSON"),
    ],
    ids=repr,
)
def test_what_cannot_be_written_is_an_encode_error(value: object, why: str) -> None:
    with pytest.raises(EncodeError, match=why):
        CODEC.encode(value)


def test_a_value_that_holds_itself_is_an_encode_error() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(EncodeError, match="recursion"):
        CODEC.encode(value)


def test_a_failing_serializer_is_an_encode_error() -> None:
    class Broken(pydantic.BaseModel):
        id: int

        @pydantic.field_serializer("id")
        def write(self, value: int) -> int:
            raise LookupError("not today")

    with pytest.raises(EncodeError, match=r"Broken .*not today"):
        CODEC.encode(Broken(id=1))


def test_pydantic_is_not_imported_for_other_types() -> None:
    program = (
        "import sys, msgspec\n"
        "from surestream.codec import JsonCodec\n"
        "codec = JsonCodec()\n"
        "codec.decoder(list[int])(codec.encode([1]))\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
