"""A handler and what it reads: ``@subscriber(source)``, or ``Subscriber(source, handler)``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Generic, ParamSpec, TypeVar, cast

from surestream.contract import Source
from surestream.errors import DeclarationTypeError, Site, calling_site

__all__ = ["Subscriber", "site_of", "subscriber", "written_function"]

S_co = TypeVar("S_co", bound=Source, covariant=True)
_S = TypeVar("_S", bound=Source)
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
_R = TypeVar("_R")


class Subscriber(Generic[S_co, P, R_co]):
    """A handler bound to the source it reads. Include it on a broker to have it run.

    ``handler`` is anything that can be called: ``async def``, ``def`` (runs in a thread), an
    object with ``__call__``, a bound method, a ``functools.partial``. Called by hand, a
    subscriber is the handler, with the handler's own signature.

    Raises ``DeclarationTypeError`` for a source or handler that is none.
    """

    def __init__(self, source: S_co, handler: Callable[P, R_co]) -> None:
        _check_source(source, handler)
        if isinstance(handler, Subscriber):
            handler = cast("Subscriber[Source, P, R_co]", handler).handler
        elif isinstance(handler, staticmethod):
            handler = cast("staticmethod[P, R_co]", handler).__func__
        _check_handler(handler)
        self._source = source
        self._handler = handler
        self._site = site_of(handler)
        functools.update_wrapper(self, handler, updated=())

    @property
    def source(self) -> S_co:
        """What it reads."""
        return self._source

    @property
    def handler(self) -> Callable[P, R_co]:
        """The handler as it was given."""
        return self._handler

    @property
    def site(self) -> Site:
        """Where the handler is written."""
        return self._site

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self._handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<subscriber {self._site.handler} of {self._source!r}>"


def subscriber(source: _S) -> Callable[[Callable[P, _R]], Subscriber[_S, P, _R]]:
    """Make the function below read ``source``::

        @subscriber(RedisStream("refunds", group="refunds"))
        async def process_refund(refund: Refund) -> Outcome: ...

    Raises ``DeclarationTypeError`` where the source is missing or none, or what is decorated
    cannot be called.
    """
    _check_source(source, None)

    def decorate(handler: Callable[P, _R]) -> Subscriber[_S, P, _R]:
        if isinstance(handler, Subscriber):
            taken = cast("Subscriber[Source, P, _R]", handler)
            raise DeclarationTypeError(
                f"a second @subscriber on {taken.site.handler}",
                where=taken.site,
                why=f"it reads {taken.source!r} already, and would read only one of them",
                write=f"Subscriber({source!r}, {taken.site.handler}), included beside it",
            )
        return Subscriber(source, handler)

    return decorate


def site_of(handler: object) -> Site:
    """The name, file and line of a handler; the file below the working directory is relative."""
    written = written_function(handler)
    named = written if written is not None else handler
    name = str(getattr(named, "__qualname__", None) or type(named).__qualname__)
    name = name.rpartition("<locals>.")[2].removesuffix(".__call__")
    if written is None:
        return Site(name, "<not Python>", 0)
    path = Path(written.__code__.co_filename)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return Site(name, str(path), written.__code__.co_firstlineno)


def written_function(handler: object) -> FunctionType | None:
    """The ``def`` that stands behind a handler: below partials, methods, ``functools.wraps``
    and ``__call__``; ``None`` where it is not written in Python."""
    found = handler
    while isinstance(found, functools.partial):
        found = cast("functools.partial[object]", found).func
    if not (inspect.isroutine(found) or isinstance(found, type)):
        found = inspect.getattr_static(type(found), "__call__", None)
    if callable(found):
        found = inspect.unwrap(cast("Callable[..., object]", found))
    found = getattr(found, "__func__", found)
    return found if isinstance(found, FunctionType) else None


def _check_source(source: object, handler: object) -> None:
    if isinstance(source, Source):
        return
    if handler is None and inspect.isfunction(source):
        raise DeclarationTypeError(
            f"@subscriber on {site_of(source).handler}",
            where=site_of(source),
            why="it does not say what the handler reads",
            write='@subscriber(RedisStream("refunds", group="refunds"))',
        )
    why = "a subscriber reads a source"
    if isinstance(source, type) and issubclass(source, Source):
        why = "this is the class of a source: call it"
    elif isinstance(source, str):
        why = "a name alone does not say which broker and structure it is"
    raise DeclarationTypeError(
        f"source {source!r}",
        where=site_of(handler) if callable(handler) else calling_site("@subscriber"),
        why=why,
        write='a source such as RedisStream("refunds", group="refunds")',
    )


def _check_handler(handler: object) -> None:
    if callable(handler) and not isinstance(handler, type):
        return
    why = f"a handler is called, and {type(handler).__name__} cannot be"
    write = "async def, def, or an object with async def __call__"
    if isinstance(handler, classmethod):
        why, write = "the method is not bound yet", "Subscriber(source, TheClass.method)"
    elif isinstance(handler, type):
        why = "it is a class: a message would only build an object of it"
        write = f"Subscriber(source, {handler.__qualname__}())"
    raise DeclarationTypeError(
        f"handler {handler!r}", where=calling_site("Subscriber(…)"), why=why, write=write
    )
