"""MessagePack payloads: what is as in JSON, and what MessagePack can do besides."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Annotated, Any, NewType

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.codec import DECODE_ERRORS, MsgpackCodec, as_decode_error
from surestream.errors import DeclarationTypeError, DecodeError, EncodeError
from surestream.redis import RedisBroker
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

CODEC = MsgpackCodec()

UserId = NewType("UserId", str)


class Speed(Enum):
    SLOW = "slow"
    FAST = "fast"


class Rich(pydantic.BaseModel):
    """Everything that is more than a number or a text."""

    key: uuid.UUID
    when: datetime
    local: datetime
    day: date
    wait: timedelta
    amount: Decimal
    body: bytes
    tags: set[str]
    pair: tuple[int, str]
    by_number: dict[int, str]
    speed: Speed
    link: pydantic.HttpUrl
    host: IPv4Address
    path: PurePosixPath
    inner: Model | None = None


RICH = Rich(
    key=uuid.UUID(int=7),
    when=datetime(2026, 5, 1, 12, 30, 0, 250, tzinfo=UTC),
    local=datetime(2026, 5, 1, 12, 30),  # noqa: DTZ001  a time without a zone is meant
    day=date(2026, 5, 1),
    wait=timedelta(minutes=3),
    amount=Decimal("12.50"),
    body=bytes(range(256)),
    tags={"a", "b"},
    pair=(1, "x"),
    by_number={1: "one", -2: "two"},
    speed=Speed.FAST,
    link=pydantic.HttpUrl("https://example.org/a"),
    host=IPv4Address("127.0.0.1"),
    path=PurePosixPath("a/b"),
    inner=Model(id=1),
)


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
        RICH,
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
        (list[bytes], [b"\x82\xa2", b""]),
        (dict[int, bytes], {1: b"\xff"}),
        (dict[tuple[int, int], str], {(1, 2): "a"}),
        (float, float("inf")),
        (datetime, datetime(2026, 5, 1, tzinfo=UTC)),
    ],
    ids=str,
)
def test_containers_and_scalars_come_back(type_: Any, value: object) -> None:
    assert decode(type_, CODEC.encode(value)) == value


def test_what_is_written_is_plain_messagepack() -> None:
    assert CODEC.encode(Struct(1, "a")) == b"\x82\xa2id\x01\xa4card\xa1a"
    assert CODEC.encode(Model(id=1, card="a")) == b"\x82\xa2id\x01\xa4card\xa1a"
    assert CODEC.encode(Aliased(amountCents=3)) == b"\x81\xabamountCents\x03"
    assert CODEC.content_type == "application/msgpack"


def test_a_time_with_a_zone_comes_back_as_the_same_moment() -> None:
    eastern = datetime(2026, 5, 1, 8, 0, tzinfo=timezone(timedelta(hours=-4)))

    back = decode(datetime, CODEC.encode(eastern))

    assert back == eastern
    assert back.tzinfo is UTC


@pytest.mark.case("DE-02")
@pytest.mark.parametrize("payload", [b"\x82\xa2", bytes(range(256)), b"\0\0", b"\xc1", b""])
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
    with pytest.raises(DecodeError, match=r"not UTF-8: .* at byte 1"):
        decode(str, b"a\xff")


WEIRD = {
    "empty": b"",
    "cut": b"\x82\xa2id",
    "JSON": b'{"id":1}',
    "never used": b"\xc1",
    "not UTF-8": b"\x82\xa2id\x01\xa4card\xa1\xff",
    "wrong shape": b"\x92\x01\x02",
    "wrong type": b"\x81\xa2id\xa1x",
    "missing": b"\x80",
    "nil": b"\xc0",
    "two documents": b"\x81\xa2id\x01\x81\xa2id\x02",
    "nested 100,000 deep": b"\x81\xa2id" + b"\x91" * 100_000,
    "nested 100,000 deep as maps": b"\x81\xa2id" * 100_000,
    "4 billion elements": b"\x81\xa2id\xdd\xff\xff\xff\xff",
    "4 billion bytes": b"\x81\xa2id\xc6\xff\xff\xff\xff",
    "a timestamp of no length": b"\x81\xa2id\xc7\x00\xff",
    "an extension": b"\x81\xa2id\xd6\x05abcd",
    "a map as a key": b"\x81\x81\x01\x02\x03",
}


@pytest.mark.rule("2.6")
@pytest.mark.case("DE-02", "DE-03", "DE-07")
@pytest.mark.parametrize("payload", WEIRD.values(), ids=WEIRD)
@pytest.mark.parametrize("type_", [Struct, Model, Data, Checked, Attrs, Typed])
def test_what_is_not_the_type_is_a_decode_error(type_: Any, payload: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(type_, payload)


@given(st.binary(max_size=64))
def test_any_bytes_are_decoded_or_refused(payload: bytes) -> None:
    for type_ in (Struct, Model, str, Any, list[int], dict[str, Model]):
        with contextlib.suppress(DecodeError):
            decode(type_, payload)


def test_the_reason_names_the_place() -> None:
    with pytest.raises(DecodeError, match=r"Expected `int`, got `str` - at `\$\[0\].id`"):
        decode(list[Struct], CODEC.encode([{"id": "x"}]))
    with pytest.raises(DecodeError, match=r"^Input should be a valid integer.* - at `\$\[0\].id`$"):
        decode(list[Model], CODEC.encode([{"id": "x"}]))


def test_the_decoder_is_the_parsers_own() -> None:
    # given a type that msgspec decodes, then no function of ours stands in between
    read = CODEC.decoder(Struct)
    assert isinstance(getattr(read, "__self__", None), msgspec.msgpack.Decoder)


class Plain:
    """Nothing that a document could become."""


@pytest.mark.rule("7.1")
@pytest.mark.parametrize(
    ("type_", "why"),
    [
        (Plain, r"no MessagePack value can become a .*Plain"),
        (list[Plain], r"no MessagePack value can become a .*Plain"),
        (Plain | Data, r"Plain"),
    ],
    ids=str,
)
def test_a_type_that_can_never_be_decoded_is_refused(type_: Any, why: str) -> None:
    with pytest.raises(DeclarationTypeError, match=why):
        CODEC.decoder(type_)


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    thing: Plain


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Plain(), "Plain cannot be written as MessagePack"),
        ([Plain()], "Plain cannot be written as MessagePack"),
        (IPv4Address("127.0.0.1"), "IPv4Address cannot be written as MessagePack"),
        (Loose(thing=Plain()), "Loose .* type Plain in it is unknown"),
        ("\ud800", "surrogates not allowed"),
        ({"a": "\ud800"}, "surrogates not allowed"),
        (2**64, "can't serialize ints"),
    ],
    ids=repr,
)
def test_what_cannot_be_written_is_an_encode_error(value: object, why: str) -> None:
    with pytest.raises(EncodeError, match=why):
        CODEC.encode(value)


def test_a_failing_serializer_is_an_encode_error() -> None:
    class Broken(pydantic.BaseModel):
        id: int

        @pydantic.field_serializer("id")
        def write(self, value: int) -> int:
            raise LookupError("not today")

    with pytest.raises(EncodeError, match=r"Broken .*not today"):
        CODEC.encode(Broken(id=1))


def test_a_secret_is_not_written() -> None:
    class Login(pydantic.BaseModel):
        password: pydantic.SecretStr

    assert b"hush" not in CODEC.encode(Login(password=pydantic.SecretStr("hush")))


def test_models_inside_other_values_are_written() -> None:
    @dataclasses.dataclass
    class Batch:
        models: list[Model]
        addresses: list[Rich]

    batch = Batch([Model(id=1)], [RICH])

    assert decode(Batch, CODEC.encode(batch)) == batch


def test_a_broker_takes_it() -> None:
    assert isinstance(RedisBroker(codec=CODEC).codec, MsgpackCodec)


def test_pydantic_is_not_imported_for_other_types() -> None:
    program = (
        "import sys, msgspec\n"
        "from surestream.codec import MsgpackCodec\n"
        "codec = MsgpackCodec()\n"
        "codec.decoder(list[int])(codec.encode([1]))\n"
        "assert 'pydantic' not in sys.modules and 'pydantic_core' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
