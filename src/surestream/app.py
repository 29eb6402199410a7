"""The application: brokers, lifespan, and how it runs."""

from __future__ import annotations

import inspect
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

from surestream.broker import Broker
from surestream.declaration import UNSET, Unset, duration
from surestream.errors import DeclarationError, DeclarationTypeError, calling_site
from surestream.middleware import Middleware, PublishMiddleware, checked
from surestream.runtime.lifecycle import Run
from surestream.runtime.observe import Observer

__all__ = ["App", "Lifespan"]

Lifespan = Callable[["App"], AbstractAsyncContextManager[object]]
"""Opens what handlers need and gives it to them as ``State[...]``; closes it at the stop."""

B = TypeVar("B", bound=Broker[Any])


class App:
    """A service: a name, brokers, a lifespan. A declaration without I/O (rule 7.1).

    ``lifespan``: an async context manager function of the app; what it yields is the state
    that handlers ask for by ``State[T]``. ``middleware`` and ``publish_middleware``: async
    functions around every handler and every publish of the service, outermost first.
    ``strict``: refuse to start where there would be a warning. ``connect_timeout``: seconds to
    wait at start for a broker that is down (30). ``shutdown_timeout``: seconds a graceful stop
    may take (30; rule 7.3).
    """

    def __init__(
        self,
        title: str,
        *,
        version: str = "0.1.0",
        lifespan: Lifespan | None = None,
        middleware: Sequence[Middleware] = (),
        publish_middleware: Sequence[PublishMiddleware] = (),
        strict: bool = False,
        connect_timeout: float | timedelta = 30.0,
        shutdown_timeout: float | timedelta = 30.0,
    ) -> None:
        try:
            self.title = _text("title", title)
            self.version = _text("version", version)
            self.strict = _yes_or_no("strict", strict)
            self.middleware: Sequence[Middleware] = checked(
                "middleware", middleware, "delivery, call_next"
            )
            self.publish_middleware: Sequence[PublishMiddleware] = checked(
                "publish_middleware", publish_middleware, "message, send"
            )
            self.connect_timeout = duration("connect_timeout", connect_timeout)
            self.shutdown_timeout = duration("shutdown_timeout", shutdown_timeout)
            self._lifespan = _callable_lifespan(lifespan)
        except DeclarationError as error:
            raise error.at(calling_site("App(…)")) from None
        self._brokers: list[Broker[Any]] = []

    def add(self, broker: B) -> B:
        """Add a broker and return it, so that handlers can be included on it."""
        _check_broker(broker)
        if broker in self._brokers:
            raise DeclarationError(
                f"add({broker!r}) twice",
                where=calling_site("add(…)"),
                why="it is part of this app already",
                write="one add() for each broker",
            )
        self._brokers.append(broker)
        return broker

    @property
    def brokers(self) -> tuple[Broker[Any], ...]:
        """The brokers in the order they were added."""
        return tuple(self._brokers)

    def open_lifespan(self) -> AbstractAsyncContextManager[object] | None:
        """A new lifespan for one run (called by the run)."""
        return None if self._lifespan is None else self._lifespan(self)

    def new_run(
        self,
        *,
        in_process: bool = False,
        consume: bool = True,
        state: object | Unset = UNSET,
        observer: Observer | None = None,
        chance: random.Random | None = None,
        threads_idle: Callable[[], None] | None = None,
        shutdown_timeout: float | timedelta | None = None,
        addresses: Mapping[Broker[Any], str] | None = None,
    ) -> Run:
        """A run that was not started yet. ``in_process`` uses the in-process servers,
        ``consume=False`` connects without handling, ``state`` replaces the lifespan,
        ``shutdown_timeout`` (seconds or ``timedelta``) the app's. ``addresses``: URLs of the
        brokers whose servers are elsewhere than declared."""
        if shutdown_timeout is not None:
            shutdown_timeout = duration("shutdown_timeout", shutdown_timeout)
        run = Run(
            self,
            in_process=in_process,
            consume=consume,
            state=state,
            observer=observer,
            chance=chance,
            threads_idle=threads_idle,
            shutdown_timeout=shutdown_timeout,
        )
        if addresses:
            run.context.addresses = dict[object, str](addresses.items())
        return run

    @asynccontextmanager
    async def running(self, *, consume: bool = True) -> AsyncGenerator[Run, None]:
        """Run inside another program: ``async with app.running(): ...``.

        Handlers run while the block runs; leaving it stops gracefully (rule 7.3). A fault that
        stops the service raises ``ServiceFailed`` at the end of the block.
        """
        run = self.new_run(consume=consume)
        await run.start()
        try:
            yield run
        finally:
            await run.stop()

    def __repr__(self) -> str:
        return f"App({self.title!r}, version={self.version!r})"


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DeclarationTypeError(
            f"App {name}={value!r}", why=f"{name} is text", write='App("refunds", version="0.1.0")'
        )
    return value


def _check_broker(broker: object) -> None:
    if isinstance(broker, Broker):
        return
    hint = "it is the class of a broker: call it" if isinstance(broker, type) else "no broker"
    raise DeclarationTypeError(
        f"add({broker!r})",
        where=calling_site("add(…)"),
        why=hint,
        write='app.add(RedisBroker("redis://localhost:6379"))',
    )


def _callable_lifespan(value: Lifespan | None) -> Lifespan | None:
    if value is None:
        return None
    fault = _lifespan_fault(value)
    if fault is None:
        return value
    raise DeclarationTypeError(
        f"lifespan={getattr(value, '__qualname__', repr(value))}",
        why=fault,
        write="@asynccontextmanager above async def clients(app): … yield Clients(…)",
    )


def _lifespan_fault(value: object) -> str | None:
    if not callable(value):
        return "it is no function that opens an async context manager"
    if any(
        kind(value)
        for kind in (
            inspect.isasyncgenfunction,
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
        )
    ):
        return "calling it gives no async context manager: its decorator is missing"
    try:
        inspect.signature(value).bind(None)
    except TypeError:
        return "it is called with the app, and with nothing else"
    except ValueError:  # not written in Python: nothing can be told
        return None
    return None


def _yes_or_no(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise DeclarationTypeError(f"{name}={value!r}", why="it is a yes or no", write=f"{name}=True")
