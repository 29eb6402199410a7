"""Which part of what the lifespan yielded a ``State[T]`` parameter means."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, cast

from surestream.declaration import UNSET
from surestream.errors import DeclarationError
from surestream.runtime.calls.annotations import is_union, spelled

__all__ = ["no_lifespan", "resolve_state"]


def resolve_state(state: object, name: str, type_: Any, *, given: bool = False) -> object:
    """The value for the parameter ``name: State[type_]``.

    That is ``state`` itself where it is of the type, else the only one of its fields (of a
    dataclass, attrs class, Struct, mapping, named tuple, tuple or any object) that is; where
    several are, the field called like the parameter. A stand-in that is no instance counts if
    it has every public method of the type and is the state itself or the field of that name.
    ``given``: a test gave the state with ``state=``, no lifespan did; refusals say so.

    Raises ``DeclarationError`` where nothing fits or it is not clear what does.
    """
    if state is UNSET:
        raise no_lifespan(name, type_)
    fields = _fields(state, name)
    container = isinstance(state, Mapping | tuple | list)
    named = next((value for field, value in fields if field == name), UNSET)
    if container and named is not UNSET and _is(named, type_):
        return named
    if _is(state, type_):
        return state
    found = [(field, value) for field, value in fields if _is(value, type_)]
    if named is not UNSET and any(field == name for field, _ in found):
        return named
    if len({id(value) for _, value in found}) == 1:
        return found[0][1]
    if not found:
        for stand_in in (named, UNSET if container else state):
            if stand_in is not UNSET and _behaves(stand_in, type_):
                return stand_in
        refused = _lacking(state, named, name, type_, given)
        raise refused or _nothing(state, fields, name, type_, given)
    raise DeclarationError(
        _parameter(name, type_),
        why=f"the state has several: {', '.join(field for field, _ in found)}",
        write=f"{found[0][0]}: State[{spelled(type_)}], called like the field that is meant",
    )


def no_lifespan(name: str, type_: Any) -> DeclarationError:
    """The refusal of a state parameter in an app that has no state."""
    return DeclarationError(
        _parameter(name, type_),
        why="the app has no lifespan, so there is no state to pass",
        write='App("…", lifespan=clients), an async context manager that yields it',
    )


def _parameter(name: str, type_: Any) -> str:
    return f"parameter {name}: State[{spelled(type_)}]"


def _lacking(
    state: object, named: object, name: str, type_: Any, given: bool
) -> DeclarationError | None:
    """The refusal of what was meant as a stand-in, with the members that it lacks."""
    kind = spelled(type_)
    members = _members(type_)
    stand_in = state if named is UNSET else named
    lacks = sorted(each for each in members if not hasattr(stand_in, each))
    # A number or a text is no stand-in, nor is a holder of fields that has nothing in common.
    if stand_in is None or type(stand_in).__module__ == "builtins" or not lacks:
        return None
    if named is UNSET and len(lacks) == len(members):
        return None
    where = "state=" if given else "the lifespan's state"
    has = "is a" if named is UNSET else f"has {name}:"
    told = ", ".join(f"{kind}.{each}" for each in lacks[:3]) + (", …" if lacks[3:] else "")
    it = "it" if len(lacks) == 1 else "them"
    mock = f"add {it}, subclass {kind}, or AsyncMock(spec={kind})"
    return DeclarationError(
        _parameter(name, type_),
        why=f"{where} {has} {type(stand_in).__name__}, which lacks {told}",
        write=mock if given else f"add {it}, or subclass {kind}",
    )


def _nothing(
    state: object, fields: list[tuple[str, object]], name: str, type_: Any, given: bool
) -> DeclarationError:
    kind = spelled(type_)
    by_key = isinstance(state, Mapping)
    origin = "the state given is" if given else "the lifespan yielded"
    if state is None:
        why = f"{origin} {'None' if given else 'nothing'}"
    else:
        has = ", ".join(f"{field}: {type(value).__name__}" for field, value in fields)
        why = f"{origin} {type(state).__name__}" + (f" with {has}" if has else "")
        why += " (looked into by key)" if by_key else ""
        why += f", and none of it is a {kind}"
    holder = f'a dict with the key "{name}"' if by_key else f"an object with the field {name}"
    return DeclarationError(
        _parameter(name, type_),
        why=why,
        write=f"state=a {kind}, or {holder}"
        if given
        else f"yield a {kind} in the lifespan, or {holder}",
    )


def _fields(state: object, wanted: str) -> list[tuple[str, object]]:
    """The parts of the state by name, ``wanted`` also where it is a property."""
    if isinstance(state, Mapping):
        return [(str(key), value) for key, value in cast(Mapping[object, object], state).items()]
    if isinstance(state, tuple | list):
        items = cast("tuple[object, ...] | list[object]", state)
        names: tuple[str, ...] | None = getattr(items, "_fields", None)
        return list(zip(names or [f"[{i}]" for i in range(len(items))], items, strict=True))
    unset = object()
    values = ((field, getattr(state, field, unset)) for field in _attributes(state, wanted))
    return [(field, value) for field, value in values if value is not unset]


def _attributes(state: object, wanted: str) -> Iterable[str]:
    found: list[str] = [*getattr(state, "__dict__", ())]
    for kind in type(state).__mro__:
        slots: str | Iterable[str] = kind.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    found += getattr(state, "__struct_fields__", ())
    return dict.fromkeys([*(field for field in found if not field.startswith("_")), wanted])


def _is(value: object, type_: Any) -> bool:
    if type_ is Any:
        return True
    if isinstance(type_, typing.NewType):
        return _is(value, type_.__supertype__)
    origin: object = typing.get_origin(type_)
    arguments = typing.get_args(type_)
    if origin is Annotated:
        return _is(value, arguments[0])
    if is_union(type_):
        return any(_is(value, each) for each in arguments)
    if origin is Literal:
        return value in arguments
    kind = type_ if origin is None else origin
    if not isinstance(kind, type):
        return False
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that is not @runtime_checkable
        return _behaves(value, cast(object, kind))


def _behaves(value: object, type_: Any) -> bool:
    """Whether ``value`` has every public method of a class, or every member of a protocol."""
    members = _members(type_)
    return bool(members) and all(hasattr(value, name) for name in members)


def _members(type_: Any) -> set[str]:
    """The public methods of a class, all members of a protocol; none of what is no class."""
    members: set[str] = set()
    if not isinstance(type_, type):
        return members
    for kind in type_.__mro__[:-1]:
        if kind is typing.Protocol or kind is typing.Generic:
            continue
        members |= {name for name, member in vars(kind).items() if callable(member)}
        if getattr(kind, "_is_protocol", False):
            members |= set(vars(kind)) | set(vars(kind).get("__annotations__", ()))
    return {name for name in members if not name.startswith("_")} | (members & {"__call__"})
