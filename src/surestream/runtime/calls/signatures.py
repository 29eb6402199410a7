"""What a handler's signature says, annotations resolved: read once, when it is mounted."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Never, NoReturn, TypeVar, cast

from surestream.context import Attempt, Publisher, State
from surestream.delivery import Delivery
from surestream.errors import DeclarationError, DeclarationTypeError, Site
from surestream.message import Headers
from surestream.outcome import Outcome
from surestream.runtime.calls.annotations import is_union, spelled
from surestream.subscriber import written_function

__all__ = ["EMPTY", "Parameter", "Signature", "closure_values", "read_signature"]

EMPTY: Final = inspect.Parameter.empty
"""No default, or no annotation."""

_NO_PROMISE: Final[tuple[object, ...]] = (EMPTY, Any, object, NoReturn, Never, type(None))
_VOCABULARY: Final[dict[str, object]] = {
    "Attempt": Attempt,
    "Delivery": Delivery,
    "Headers": Headers,
    "Outcome": Outcome,
    "Publisher": Publisher,
    "State": State,
}
"""Resolvable in annotations also where a module imports them for type checkers only."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter that the runtime may have to fill."""

    name: str
    hint: Any
    """The annotation, resolved; ``EMPTY`` without one."""
    default: object
    positional: bool

    @property
    def required(self) -> bool:
        """It has no default."""
        return self.default is EMPTY

    def __str__(self) -> str:
        return self.name if self.hint is EMPTY else f"{self.name}: {spelled(self.hint)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """What calling a handler takes and gives."""

    parameters: tuple[Parameter, ...]
    is_async: bool
    """Calling it gives something to await; otherwise it runs in a thread."""
    is_native: bool
    """It is an ``async def`` itself: calling it gives a coroutine."""
    none_acks: bool
    """Returning ``None`` acknowledges (rule 2.2)."""


def read_signature(
    handler: Callable[..., object], site: Site, *, replies: bool = False
) -> Signature:
    """Read a handler's signature.

    Raises ``DeclarationError`` for what no message can be passed to: ``*args``, ``**kwargs``,
    an annotation that cannot be resolved, a generator, a result that is no outcome.
    """
    called = _called(handler)
    _refuse_generators(called, site)
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError, NameError) as error:
        raise DeclarationTypeError(
            f"handler {site.handler}",
            where=site,
            why=f"its signature cannot be read: {error}",
            write="a def or async def around it, with annotated parameters",
        ) from error
    names = _Names(handler, site)
    bound = _bound_by_keyword(handler)
    parameters = tuple(
        _parameter(each, names, site)
        for each in signature.parameters.values()
        if each.name not in bound
    )
    returns = names.resolve("the result", signature.return_annotation)
    is_native = inspect.iscoroutinefunction(called)
    is_async = is_native or _gives_awaitable(called, returns)
    if is_async and not is_native:
        returns = _awaited(returns)
    return Signature(
        parameters=parameters,
        is_async=is_async,
        is_native=is_native,
        none_acks=_none_acks(returns, site, replies),
    )


def closure_values(function: types.FunctionType) -> dict[str, object]:
    """The variables of enclosing functions that ``function`` uses, as far as they are set."""
    values: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # assigned later than this function was made
            values[name] = cell.cell_contents
    return values


def _parameter(found: inspect.Parameter, names: _Names, site: Site) -> Parameter:
    if found.kind in (found.VAR_POSITIONAL, found.VAR_KEYWORD):
        raise DeclarationTypeError(
            f"parameter {str(found).partition(':')[0]} of {site.handler}",
            where=site,
            why="each parameter needs a name and a type, so that it is known what to pass",
            write="refund: Refund (a wrapper keeps the names with functools.wraps)",
        )
    hint = names.resolve(f"parameter {found.name!r}", found.annotation)
    return Parameter(found.name, hint, found.default, found.kind is not found.KEYWORD_ONLY)


class _Names:
    """The names that a handler's annotations may use."""

    def __init__(self, handler: object, site: Site) -> None:
        self._site = site
        written = written_function(handler)
        self._global: dict[str, Any] = {} if written is None else written.__globals__
        self._local: dict[str, Any] = {
            name: value for name, value in _VOCABULARY.items() if name not in self._global
        }
        if written is not None:
            self._local |= closure_values(written)
            type_parameters: tuple[Any, ...] = getattr(written, "__type_params__", ())
            self._local |= {each.__name__: each for each in type_parameters}

    def resolve(self, what: str, annotation: object) -> Any:
        if annotation is EMPTY:
            return EMPTY

        def holder() -> None: ...

        holder.__annotations__ = {"it": annotation}
        try:
            hints = typing.get_type_hints(holder, self._global, self._local, include_extras=True)
        except Exception as error:
            text = annotation if isinstance(annotation, str) else spelled(annotation)
            why = f"its annotation {text!r} cannot be resolved: {error}"
            write = "an annotation that holds at run time"
            if isinstance(error, NameError):
                name = error.name or text
                why += " (local to a function, or imported for type checkers only?)"
                write = f"{name} at module level, imported outside `if TYPE_CHECKING:`"
            raise DeclarationError(
                f"{what} of {self._site.handler}", where=self._site, why=why, write=write
            ) from error
        hint = hints["it"]
        while type(hint).__name__ == "TypeAliasType":  # `type Alias = …`
            hint = hint.__value__
        return hint


def _called(handler: Callable[..., object]) -> object:
    """The function that a call of ``handler`` runs first."""
    found: object = handler
    while isinstance(found, functools.partial):
        found = cast("functools.partial[object]", found).func
    return found if inspect.isroutine(found) else getattr(found, "__call__", found)  # noqa: B004


def _bound_by_keyword(handler: object) -> set[str]:
    bound: set[str] = set()
    while isinstance(handler, functools.partial):
        partial = cast("functools.partial[object]", handler)
        bound |= set(partial.keywords)
        handler = partial.func
    return bound


def _refuse_generators(called: object, site: Site) -> None:
    written = written_function(called)
    for each in (called, written):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise DeclarationTypeError(
                f"handler {site.handler}",
                where=site,
                why="it yields, and a handler gives one outcome",
                write="return ack() instead of yield",
            )


def _gives_awaitable(called: object, returns: Any) -> bool:
    """A ``def`` around an ``async def``, or one that says so in its annotation."""
    if inspect.iscoroutinefunction(written_function(called)):
        return True
    origin: object = typing.get_origin(returns) or returns
    return isinstance(origin, type) and issubclass(origin, Awaitable)


def _awaited(returns: Any) -> Any:
    origin: object = typing.get_origin(returns) or returns
    if not (isinstance(origin, type) and issubclass(origin, Awaitable)):
        return returns  # functools.wraps copied the annotation of the async def
    arguments = typing.get_args(returns)
    return arguments[-1] if arguments else Any


def _none_acks(returns: Any, site: Site, replies: bool) -> bool:
    allowed = list(_results(returns))
    kinds = [_result_kind(each) for each in allowed]
    if replies and all(each is type(None) or each is Outcome for each in allowed):
        raise DeclarationTypeError(
            f"handler {site.handler} -> {spelled(returns)}",
            where=site,
            why="it has a reply_to, and returns nothing that could be published there",
            write="-> Receipt (the type of the reply), or include(…) without reply_to",
        )
    if replies or all(kind is None or kind is Outcome for kind in kinds):
        return None in kinds
    raise DeclarationTypeError(
        f"handler {site.handler} -> {spelled(returns)}",
        where=site,
        why="a handler decides what happens to the message, and this is no outcome (rule 2.2)",
        write="-> Outcome, or -> None where every normal end acknowledges; "
        'include(…, reply_to="an.address") publishes what is returned',
    )


def _results(returns: Any) -> Iterator[Any]:
    """The types that a result may be of, by its annotation."""
    if type(returns).__name__ == "TypeAliasType":  # `type Alias = …`
        yield from _results(returns.__value__)
    elif typing.get_origin(returns) is typing.Annotated:
        yield from _results(typing.get_args(returns)[0])
    elif is_union(returns):
        for each in typing.get_args(returns):
            yield from _results(each)
    else:
        yield returns


def _result_kind(returns: Any) -> object:
    """``Outcome``, ``None`` where nothing was promised, or the wrong type itself."""
    if isinstance(returns, TypeVar) or any(returns is each for each in _NO_PROMISE):
        return None
    if isinstance(returns, type) and issubclass(returns, Outcome):
        return Outcome
    return cast(object, returns)
