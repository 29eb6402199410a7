"""Questions about annotations of handler parameters."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Union, cast

from surestream.context import StateMarker
from surestream.delivery import Key
from surestream.runtime.calls.meanings import OFFERED
from surestream.runtime.publishing import BoundPublisher

__all__ = ["accepts", "inside", "is_mark", "is_offered", "is_union", "spelled", "without_none"]


def spelled(hint: object) -> str:
    """An annotation as a user would write it: no modules, ``State[…]`` for its marks."""
    if hint is type(None):
        return "None"
    if hint is ...:
        return "..."
    arguments = typing.get_args(hint)
    if not arguments:
        named = isinstance(hint, type | typing.NewType)
        return hint.__name__ if named else repr(hint).replace("typing.", "")
    if typing.get_origin(hint) is Annotated:
        inner, *marks = arguments
        if any(isinstance(mark, StateMarker) for mark in marks):
            return "State" if isinstance(inner, typing.TypeVar) else f"State[{spelled(inner)}]"
    if is_union(hint):
        return " | ".join(map(spelled, arguments))
    if typing.get_origin(hint) in (Literal, Callable):
        return repr(hint).replace("typing.", "").replace("collections.abc.", "")
    name: object = getattr(hint, "__name__", None) or repr(typing.get_origin(hint))
    return f"{name}[{', '.join(map(spelled, arguments))}]"


def is_union(hint: Any) -> bool:
    """``A | B``, ``Union`` or ``Optional``."""
    origin: Any = typing.get_origin(hint)
    return origin is Union or origin is types.UnionType


def is_offered(hint: object) -> bool:
    """A class that the runtime passes by itself, such as ``Headers`` or a broker's publisher."""
    return isinstance(hint, type) and (hint in OFFERED or issubclass(hint, BoundPublisher))


def is_mark(mark: object) -> bool:
    """Whether what stands in ``Annotated[…]`` means something to the runtime, also where it is
    the class of a mark written instead of one."""
    if isinstance(mark, Key | StateMarker) or mark is Key or mark is StateMarker:
        return True
    origin = typing.get_origin(mark)
    if origin is Annotated:
        return any(isinstance(each, StateMarker) for each in cast(Any, mark).__metadata__)
    return origin is Key


def without_none(hint: Any) -> Any:
    """``X`` of ``X | None``, so that a handler can be called by hand without it; a payload
    that may be null stays as it is."""
    if not is_union(hint):
        return hint
    others = [each for each in typing.get_args(hint) if each is not type(None)]
    if len(others) != 1:
        return hint
    other = others[0]
    marked = typing.get_origin(other) is Annotated and any(map(is_mark, other.__metadata__))
    return other if marked or is_offered(other) else hint


def inside(hint: Any) -> Iterator[object]:
    """All types and marks that stand inside ``hint``."""
    for each in typing.get_args(hint):
        yield each
        yield from inside(each)


def accepts(annotation: Any, given: type) -> bool:
    """Whether a value of type ``given`` fits; ``True`` where that cannot be told."""
    if annotation is Any:
        return True
    if isinstance(annotation, typing.NewType):
        return accepts(annotation.__supertype__, given)
    if is_union(annotation):
        return any(accepts(each, given) for each in typing.get_args(annotation))
    kind: object = typing.get_origin(annotation) or annotation
    if not (isinstance(kind, type) and isinstance(cast(object, given), type)):
        return True
    try:
        return issubclass(given, kind)
    except TypeError:  # a protocol with attributes
        return True
