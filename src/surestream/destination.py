"""A type that knows where its values are published: ``@outgoing("payments")``."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Final, TypeVar, cast

from surestream.declaration import check_address
from surestream.errors import DeclarationError, DeclarationTypeError, calling_site

__all__ = ["destination_of", "outgoing"]

_C = TypeVar("_C", bound=type)
_MARK: Final = "__surestream_destination__"
_EXAMPLE: Final = '@outgoing("payments") above the class'


def outgoing(destination: str) -> Callable[[_C], _C]:
    """Declare where values of a class are published, so that ``publish(value)`` needs no name.

    Works on every class whose values know it: ``msgspec.Struct``, pydantic models, dataclasses,
    attrs classes, named tuples. Subclasses inherit the destination and may declare their own.

    Raises ``DeclarationTypeError`` for a name that is no text and for what is no such class,
    ``DeclarationError`` for a name nothing can be published to and for a second destination.
    """
    if isinstance(cast(object, destination), type):
        raise DeclarationTypeError(
            f"@outgoing on {cast('type[object]', destination).__qualname__}",
            where=calling_site("@outgoing"),
            why="the destination is missing",
            write=_EXAMPLE,
        )
    try:
        check_address(destination, "destination")
    except DeclarationError as error:
        raise type(error)(
            error.what, where=calling_site("@outgoing"), why=error.why, write=_EXAMPLE
        ) from None

    def declare(kind: _C) -> _C:
        _check_class(kind)
        declared: object = kind.__dict__.get(_MARK)
        if declared is not None:
            raise DeclarationError(
                f"@outgoing({destination!r}) on {kind.__qualname__}",
                where=calling_site("@outgoing"),
                why=f"its destination is {declared!r} already",
                write="one destination, or publish(name, value) where it differs",
            )
        setattr(kind, _MARK, destination)
        return kind

    return declare


def destination_of(value: object) -> str | None:
    """The destination declared for a value or a type, by :func:`outgoing`, or ``None``."""
    kind = value if isinstance(value, type) else type(value)
    return cast("str | None", getattr(kind, _MARK, None))


def _check_class(kind: object) -> None:
    if not isinstance(kind, type):
        raise DeclarationTypeError(
            f"@outgoing on {kind!r}",
            where=calling_site("@outgoing"),
            why="a destination belongs to a class",
            write=_EXAMPLE,
        )
    if typing.is_typeddict(kind):
        raise DeclarationTypeError(
            f"@outgoing on {kind.__qualname__}",
            where=calling_site("@outgoing"),
            why="values of a TypedDict are plain dicts: they do not know their type",
            write="publish(name, value), or a msgspec.Struct or dataclass",
        )
