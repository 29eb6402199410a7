"""The default codec: JSON by msgspec, and by pydantic for pydantic's own types."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Annotated, Any, cast

import msgspec

from surestream.codec import models
from surestream.codec.protocol import Decode
from surestream.errors import DeclarationTypeError, EncodeError

__all__ = ["JsonCodec"]


class JsonCodec:
    """JSON by msgspec; pydantic models, pydantic dataclasses and what holds them by pydantic.

    Undecodable are also: numbers beyond a double, a byte order mark, lone surrogates, nesting
    beyond the parser's limit. Of an object's repeated keys the last counts. Not-a-number and
    infinity are written as ``null``. Pydantic models are written with their aliases, so that
    the same type reads them. Validators of attrs classes run, converters do not.
    """

    content_type: str = "application/json"

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(enc_hook=_encode_foreign).encode

    def decoder(self, type_: Any) -> Decode:
        """The parser for ``type_``, called without anything of ours in between.

        Raises ``DeclarationTypeError`` for a type that no JSON document can become.
        """
        try:
            raw = _raw_decoder(type_)
            if raw is not None:
                return raw
            if models.needs_pydantic(type_):
                return models.json_decoder(type_)
            return _json_decoder(type_)
        except DeclarationTypeError:
            raise
        except Exception as error:
            raise _undecodable(type_, _first_line(error)) from error

    def encode(self, value: object) -> bytes:
        """``value`` as JSON, or as it is where it is ``bytes`` or ``str``.

        Raises ``EncodeError``.
        """
        kind = type(value)
        try:
            if isinstance(value, bytes):
                return value
            if isinstance(value, str):
                return value.encode()
            if isinstance(value, bytearray | memoryview):
                return bytes(cast("bytearray | memoryview[int]", value))
            if models.is_pydantic_dataclass(kind):
                return models.encode_dataclass(value)
            return self._encode(value)
        except EncodeError:
            raise
        except Exception as error:
            what = f"a value of type {kind.__qualname__} cannot be written as a payload"
            raise EncodeError(f"{what}: {_first_line(error)}") from error


def _encode_foreign(value: object) -> object:
    """What msgspec does not know, inside a value it writes."""
    written = models.encode_model(value)
    if written is None:
        raise EncodeError(f"a value of type {type(value).__qualname__} cannot be written as JSON")
    return msgspec.Raw(written)


def _raw_decoder(type_: Any) -> Decode | None:
    base: Any = type_
    constrained = False
    while True:
        if typing.get_origin(base) is Annotated:
            base = typing.get_args(base)[0]
            constrained = True
        elif isinstance(base, typing.NewType):
            base = base.__supertype__
        else:
            break
    if base is bytearray or base is memoryview:
        return cast(Decode, base)
    if base is not bytes and base is not str:
        return None
    read: Decode = bytes if base is bytes else bytes.decode
    if not constrained:
        return read
    if models.needs_pydantic(type_):
        validate = models.value_validator(type_)
        return lambda payload: validate(read(payload))
    return lambda payload: msgspec.convert(read(payload), type_)


def _json_decoder(type_: Any) -> Decode:
    # Imported here: only a mount needs it, and importing the package should be quick.
    from msgspec import inspect

    for node in _nodes(inspect.type_info(type_), set()):
        if isinstance(node, inspect.CustomType) and node.cls is not object:
            kind = node.cls
            raise _undecodable(
                type_, f"no JSON value can become a {kind.__module__}.{kind.__qualname__}"
            )
    return msgspec.json.Decoder(type_).decode


def _nodes(node: object, seen: set[int]) -> Iterator[object]:
    """All parts of a type as ``msgspec.inspect`` tells them, which must be decodable."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, tuple):
        for each in cast(tuple[object, ...], node):
            yield from _nodes(each, seen)
        return
    if not isinstance(node, msgspec.Struct) or type(node).__module__ != "msgspec.inspect":
        return
    if not getattr(node, "required", True):
        return  # a field with a default may be of any type: the document leaves it out
    yield node
    for name in node.__struct_fields__:
        yield from _nodes(getattr(node, name), seen)


def _undecodable(type_: Any, why: str) -> DeclarationTypeError:
    name = type_.__qualname__ if isinstance(type_, type) else repr(type_)
    return DeclarationTypeError(
        f"payload type {name}",
        why=why,
        write="a msgspec.Struct, pydantic model, dataclass, attrs class, TypedDict, container, "
        "bytes or str",
    )


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
