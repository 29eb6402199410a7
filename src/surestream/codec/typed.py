"""What the codecs of this package have in common, whatever they write."""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, cast

import msgspec

from surestream.codec import models
from surestream.codec.protocol import Decode
from surestream.errors import DeclarationTypeError, EncodeError

__all__ = ["TypedCodec"]


class TypedCodec(ABC):
    """Values by msgspec, pydantic's own types by pydantic; ``bytes`` and ``str`` are raw.

    A subclass names its format and brings the parsers and writers of it. ``write`` turns
    everything into a payload that is neither raw nor a pydantic dataclass.
    """

    content_type: str
    format: ClassVar[str]
    """How refusals name it."""

    def __init__(self, write: Callable[[object], bytes]) -> None:
        self._write = write

    def decoder(self, type_: Any) -> Decode:
        """The parser for ``type_``, called without anything of ours in between.

        Raises ``DeclarationTypeError`` for a type that no document can become.
        """
        try:
            raw = _raw_decoder(type_)
            if raw is not None:
                return raw
            if models.needs_pydantic(type_):
                return self.model_decoder(type_)
            self._refuse_custom(type_)
            return self.value_decoder(type_)
        except DeclarationTypeError:
            raise
        except Exception as error:
            raise _undecodable(type_, _first_line(error)) from error

    def encode(self, value: object) -> bytes:
        """``value`` as a document, or as it is where it is ``bytes`` or ``str``.

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
                return self.encode_dataclass(value)
            return self._write(value)
        except EncodeError:
            raise
        except Exception as error:
            what = f"a value of type {kind.__qualname__} cannot be written as a payload"
            raise EncodeError(f"{what}: {_first_line(error)}") from error

    @abstractmethod
    def value_decoder(self, type_: Any) -> Decode:
        """msgspec's parser for ``type_``."""

    @abstractmethod
    def model_decoder(self, type_: Any) -> Decode:
        """The parser for a type that pydantic has to validate."""

    @abstractmethod
    def encode_dataclass(self, value: object) -> bytes:
        """A pydantic dataclass by its own serializers."""

    @classmethod
    def foreign(cls, value: object, written: bytes | None) -> msgspec.Raw:
        """What stands in a document for a value that msgspec does not know: ``written``, or a
        refusal where nobody could write it."""
        if written is None:
            what = f"a value of type {type(value).__qualname__}"
            raise EncodeError(f"{what} cannot be written as {cls.format}")
        return msgspec.Raw(written)

    def _refuse_custom(self, type_: Any) -> None:
        # Imported here: only a mount needs it, and importing the package should be quick.
        from msgspec import inspect

        for node in _nodes(inspect.type_info(type_), set()):
            if isinstance(node, inspect.CustomType) and node.cls is not object:
                kind = node.cls
                raise _undecodable(
                    type_,
                    f"no {self.format} value can become a {kind.__module__}.{kind.__qualname__}",
                )


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
