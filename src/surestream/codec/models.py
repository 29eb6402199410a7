"""Pydantic's types. Pydantic is imported only where a type needs it, so that the package
neither depends on it nor pays for its import."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, Final, Protocol, cast
from weakref import WeakKeyDictionary

import msgspec

__all__ = [
    "dataclass_as_json",
    "dump_of",
    "dumped_dataclass",
    "is_pydantic_dataclass",
    "json_decoder",
    "jsonable",
    "model_as_json",
    "needs_pydantic",
    "value_validator",
]

_MODULES: Final = frozenset({"pydantic", "pydantic_core", "annotated_types"})


class _Validator(Protocol):
    def validate_json(self, payload: bytes, /) -> object: ...
    def validate_python(self, value: object, /) -> object: ...


class _Adapter(Protocol):
    """The part of ``pydantic.TypeAdapter`` in use here."""

    pydantic_complete: bool

    @property
    def validator(self) -> _Validator: ...
    def rebuild(self, *, raise_errors: bool) -> object: ...
    def dump_json(self, value: object, /, *, by_alias: bool) -> bytes: ...
    def dump_python(self, value: object, /, *, by_alias: bool) -> object: ...


_writers: Final[WeakKeyDictionary[type, _Adapter]] = WeakKeyDictionary()


def _adapter(type_: Any) -> _Adapter:
    from pydantic import TypeAdapter

    adapter = cast(_Adapter, TypeAdapter[object](type_))
    if not adapter.pydantic_complete:
        # A name in a model that is not there yet: refused now, not at the first message.
        adapter.rebuild(raise_errors=True)
    return adapter


def json_decoder(type_: Any) -> Callable[[bytes], object]:
    """Pydantic's own parser and validator for ``type_``. Raises what pydantic raises for a type
    that it cannot build."""
    return _adapter(type_).validator.validate_json


def value_validator(type_: Any) -> Callable[[object], object]:
    """Pydantic's validator for a value that needs no parsing."""
    return _adapter(type_).validator.validate_python


def is_pydantic_dataclass(kind: type) -> bool:
    """Whether ``kind`` itself is decorated (a plain subclass of one is not)."""
    return "__is_pydantic_dataclass__" in kind.__dict__


def dataclass_as_json(value: object) -> bytes:
    """A pydantic dataclass as JSON, by its own serializers."""
    return _writer(type(value)).dump_json(value, by_alias=True)


def dumped_dataclass(value: object) -> object:
    """A pydantic dataclass in plain Python types, by its own serializers."""
    return _writer(type(value)).dump_python(value, by_alias=True)


def _writer(kind: type) -> _Adapter:
    writer = _writers.get(kind)
    if writer is None:
        writer = _writers[kind] = _adapter(kind)
    return writer


def model_as_json(value: object) -> bytes | None:
    """A pydantic model as JSON, or ``None`` for anything else."""
    if not hasattr(value, "__pydantic_serializer__"):
        return None
    write: Callable[..., str] | None = getattr(value, "model_dump_json", None)
    return None if write is None else write(by_alias=True).encode()


def dump_of(value: object) -> Callable[[], object] | None:
    """What gives a pydantic model in plain Python types; ``None`` for anything else."""
    if not hasattr(value, "__pydantic_serializer__"):
        return None
    dump: Callable[..., object] | None = getattr(value, "model_dump", None)
    return None if dump is None else partial(dump, by_alias=True)


def jsonable(value: object) -> object:
    """What a dump left as it was (a URL, a path, a secret), as pydantic writes it in JSON.
    Raises what pydantic raises, and ``TypeError`` for a value that nobody knows."""
    from pydantic_core import to_jsonable_python

    convert = cast("Callable[..., object]", to_jsonable_python)
    return convert(value, by_alias=True, fallback=_path)


def _path(value: object) -> object:
    # The one type that pydantic writes by its field alone.
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a value of type {type(value).__qualname__} in it is unknown to pydantic")


def needs_pydantic(type_: Any) -> bool:
    """Whether a model, a pydantic dataclass or a pydantic constraint is somewhere in it."""
    if "pydantic" not in sys.modules:
        return False  # then no type of the program can be one of pydantic's
    return any(map(_is_pydantic, _parts(type_, [])))


def _is_pydantic(part: object) -> bool:
    if isinstance(part, type):
        return hasattr(part, "__pydantic_validator__") or is_pydantic_dataclass(part)
    return type(part).__module__.partition(".")[0] in _MODULES


def _parts(type_: Any, seen: list[object]) -> Iterator[object]:
    if any(type_ is each for each in seen):
        return
    seen.append(type_)
    yield type_
    inner: Iterable[object] = typing.get_args(type_)
    if typing.get_origin(type_) is typing.Annotated:
        inner = (typing.get_args(type_)[0], *type_.__metadata__)
    elif isinstance(type_, typing.NewType):
        inner = (type_.__supertype__,)
    elif _has_fields(type_):
        inner = typing.get_type_hints(type_, include_extras=True).values()
    for each in inner:
        yield from _parts(each, seen)


def _has_fields(kind: object) -> bool:
    return isinstance(kind, type) and (
        is_dataclass(cast(object, kind))
        or issubclass(kind, msgspec.Struct)
        or typing.is_typeddict(cast(object, kind))
        or hasattr(cast(object, kind), "__attrs_attrs__")
        or hasattr(cast(object, kind), "_fields")
    )
