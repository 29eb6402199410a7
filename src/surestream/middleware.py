"""Code of the user's around every delivery and every publish."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast

from surestream.delivery import Delivery
from surestream.errors import DeclarationTypeError, SureStreamError
from surestream.message import Outgoing

__all__ = [
    "CallNext",
    "Middleware",
    "PublishMiddleware",
    "Send",
    "around_delivery",
    "around_publish",
    "checked",
]

CallNext = Callable[[Delivery], Awaitable[object]]
Middleware = Callable[[Delivery, CallNext], Awaitable[object]]
"""``async def timed(delivery, call_next): return await call_next(delivery)``

Runs around the handler, after the payload is decoded and within its ``timeout``. An outcome (or a
value to reply) that it returns, and an exception that it raises, count as the handler's. ``None``
decides nothing: what the handler returned or raised stands, so that a forgotten ``return`` loses no
message (rule 2.2). One that does not call on has to return an outcome. Calling on twice, or when
the middleware has ended, raises ``SureStreamError``, and the delivery has failed: another run is
what ``retry()`` asks for.
"""

Send = Callable[[Outgoing], Awaitable[None]]
PublishMiddleware = Callable[[Outgoing, Send], Awaitable[None]]
"""``async def stamped(message, send): await send(replace(message, headers=...))``

Runs around what handlers and programs publish, replies included; not around copies and dead
letters, which go as they arrived (rule 4.1). Not calling ``send`` publishes nothing. ``send`` may
be called again where it raised; once it has stored a message, calling it again raises
``SureStreamError``.
"""

Invoke = Callable[[Delivery, object], Coroutine[Any, Any, object]]


def around_delivery(middleware: Sequence[Middleware], invoke: Invoke) -> Invoke:
    """``invoke`` with the middleware around it, the first one outermost; itself without any."""
    if not middleware:
        return invoke

    async def wrapped(delivery: Delivery, value: object) -> object:
        async def innermost(delivery: Delivery) -> object:
            return await invoke(delivery, value)

        call: CallNext = innermost
        for each in reversed(middleware):
            call = partial(_call, each, call)
        return await call(delivery)

    return wrapped


async def _call(middleware: Middleware, call_next: CallNext, delivery: Delivery) -> object:
    way = _WayOn(call_next, _name(middleware))
    try:
        return way.judged(await middleware(delivery, way))
    finally:
        way.close()


class _WayOn:
    """What one middleware calls on with, for one delivery: once."""

    __slots__ = ("_call", "_error", "_fault", "_middleware", "_result", "_state")

    _UNUSED, _RUNNING, _ENDED, _CLOSED = range(4)

    def __init__(self, call: CallNext, middleware: str) -> None:
        self._call = call
        self._middleware = middleware
        self._state = self._UNUSED
        self._result: object = None
        self._error: BaseException | None = None
        self._fault: SureStreamError | None = None

    async def __call__(self, delivery: Delivery) -> object:
        if self._state != self._UNUSED:
            when = "when it had ended" if self._state == self._CLOSED else "twice"
            self._fault = SureStreamError(
                f"the middleware {self._middleware} called on {when}: a delivery runs its handler "
                "once, `return retry()` asks for another"
            )
            raise self._fault
        self._state = self._RUNNING
        try:
            self._result = await self._call(delivery)
        except BaseException as error:
            self._error = error
            raise
        finally:
            if self._state == self._RUNNING:
                self._state = self._ENDED
        return self._result

    def judged(self, result: object) -> object:
        """What counts, the middleware having returned ``result``."""
        if self._fault is not None:
            raise self._fault
        if self._state == self._RUNNING:
            raise SureStreamError(
                f"the middleware {self._middleware} ended before what it called: await call_next"
            )
        if result is not None:
            return result
        if self._state == self._UNUSED:
            raise TypeError(
                f"the middleware {self._middleware} neither called on nor returned an outcome: "
                "write `return await call_next(delivery)`, or `return ack()` (rule 2.2)"
            )
        if self._error is not None:
            raise self._error
        return self._result

    def close(self) -> None:
        """It is over: the handler must not be run any more. Errors are let go with their frames."""
        self._state = self._CLOSED
        self._error = self._fault = None


def around_publish(middleware: Sequence[PublishMiddleware], send: Send) -> Send:
    """``send`` with the middleware around it, the first one outermost; itself without any.

    For one message: with middleware, what is returned stores one at most.
    """
    if not middleware:
        return send
    send = _Once(send)
    for each in reversed(middleware):
        send = partial(_send, each, send)
    return send


async def _send(middleware: PublishMiddleware, send: Send, message: Outgoing) -> None:
    await middleware(message, send)


class _Once:
    """Stores one message, however often that has to be tried."""

    __slots__ = ("_busy", "_send")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._busy = False

    async def __call__(self, message: Outgoing) -> None:
        if self._busy:
            raise SureStreamError(
                f"a publish middleware sent a second message, to {message.address}: one publish "
                "stores one message, publish others by themselves"
            )
        self._busy = True
        try:
            await self._send(message)
        except BaseException:
            self._busy = False
            raise


def checked(setting: str, middleware: object, arguments: str) -> tuple[Any, ...]:
    """Middleware as given by a user: a sequence of async callables of two arguments."""
    if callable(middleware) or not isinstance(middleware, Sequence) or isinstance(middleware, str):
        raise DeclarationTypeError(
            f"{setting}={_name(middleware)}",
            why="it is a list of async functions, in the order in which they are entered",
            write=f"{setting}=[{_name(middleware) if callable(middleware) else 'timed'}]",
        )
    given = tuple(cast("Sequence[object]", middleware))
    for each in given:
        _check_one(setting, each, arguments)
    return given


def _check_one(setting: str, each: object, arguments: str) -> None:
    fault = _fault(each, arguments)
    if fault is not None:
        function = _name(each).rpartition(".")[2] if callable(each) else "timed"
        raise DeclarationTypeError(
            f"{setting}=[{_name(each)}]", why=fault, write=f"async def {function}({arguments}): …"
        )


def _fault(each: object, arguments: str) -> str | None:
    if not callable(each):
        return "it is not callable"
    if isinstance(each, type):
        return "it is a class: give one of its objects, or a function"
    try:
        inspect.signature(each, follow_wrapped=False).bind(None, None)
    except TypeError:
        return f"it is called with ({arguments})"
    except ValueError:  # not written in Python: nothing can be told
        return None
    called: object = each
    while isinstance(called, functools.partial):
        called = cast("functools.partial[object]", called).func
    if not inspect.isroutine(called):
        called = getattr(called, "__call__", called)  # noqa: B004
    written = inspect.unwrap(cast("Callable[..., object]", called))
    for function in (called, written):
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            return "it yields: what stands around the call is written around `await`"
    plain = inspect.isfunction(getattr(called, "__func__", called))
    if plain and not any(map(inspect.iscoroutinefunction, (called, written))):
        return "it is no async function: nothing would await it"
    return None


def _name(each: object) -> str:
    while isinstance(each, functools.partial):
        each = cast("functools.partial[object]", each).func
    if not callable(each):
        return repr(each)
    name = getattr(each, "__qualname__", None) or type(each).__qualname__
    return str(name).rpartition("<locals>.")[2]
