"""Code of the user's around every delivery and every publish."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast

from surestream.delivery import Delivery
from surestream.errors import DeclarationTypeError
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

Runs around the handler, after the payload is decoded. What it returns or raises counts as what
the handler returned or raised, so it can look at outcomes, change them, or answer without
calling on.
"""

Send = Callable[[Outgoing], Awaitable[None]]
PublishMiddleware = Callable[[Outgoing, Send], Awaitable[None]]
"""``async def stamped(message, send): await send(replace(message, headers=...))``

Runs around what handlers and programs publish, replies included; not around copies and dead
letters, which go as they arrived (rule 4.1). Not calling ``send`` publishes nothing.
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
    return await middleware(delivery, call_next)


def around_publish(middleware: Sequence[PublishMiddleware], send: Send) -> Send:
    """``send`` with the middleware around it, the first one outermost; itself without any."""
    for each in reversed(middleware):
        send = partial(_send, each, send)
    return send


async def _send(middleware: PublishMiddleware, send: Send, message: Outgoing) -> None:
    await middleware(message, send)


def checked(setting: str, middleware: object, arguments: str) -> tuple[Any, ...]:
    """Middleware as given by a user: a sequence of async callables of two arguments."""
    if callable(middleware) or not isinstance(middleware, Sequence) or isinstance(middleware, str):
        raise DeclarationTypeError(
            f"{setting}={middleware!r}",
            why="it is a list of async functions, in the order in which they are entered",
            write=f"{setting}=[{getattr(middleware, '__name__', 'timed')}]",
        )
    given = tuple(cast("Sequence[object]", middleware))
    for each in given:
        _check_one(setting, each, arguments)
    return given


def _check_one(setting: str, each: object, arguments: str) -> None:
    name = getattr(each, "__name__", repr(each))
    write = f"async def {name}({arguments}): …"
    if not callable(each):
        raise DeclarationTypeError(f"{setting}=[{each!r}]", why="it is not callable", write=write)
    try:
        inspect.signature(each).bind(None, None)
    except TypeError:
        raise DeclarationTypeError(
            f"{setting}=[{name}]", why=f"it is called with ({arguments})", write=write
        ) from None
    call = each if inspect.isroutine(each) else getattr(each, "__call__", each)  # noqa: B004
    if inspect.isfunction(call) and not inspect.iscoroutinefunction(call):
        raise DeclarationTypeError(
            f"{setting}=[{name}]",
            why="it is no async function: nothing would await it",
            write=write,
        )
