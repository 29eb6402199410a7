"""Running a handler: in its own context, within its time limit, exceptions as outcomes."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any

from surestream.errors import HandlerTimeout

__all__ = ["limited", "resume"]


@types.coroutine
def resume(
    coroutine: Coroutine[Any, Any, object], context: Context, waited: object
) -> Generator[Any, Any, object]:
    """Go on with a coroutine whose first step was ``context.run(coroutine.send, None)`` and
    gave ``waited``; every further step runs in the same context (rule 7.6)."""
    while True:
        try:
            sent = yield waited
        except GeneratorExit:
            context.run(coroutine.close)
            raise
        except BaseException as error:
            try:
                waited = context.run(coroutine.throw, error)
            except StopIteration as stop:
                return stop.value
        else:
            try:
                waited = context.run(coroutine.send, sent)
            except StopIteration as stop:
                return stop.value


async def limited(
    coroutine: Coroutine[Any, Any, object],
    context: Context,
    waited: object,
    limit: float,
    timeout: float,
) -> object:
    """:func:`resume` up to the loop's time ``limit``, which is ``timeout`` seconds after the
    handler began; running out is ``HandlerTimeout`` (rule 2.5)."""
    clock = asyncio.timeout_at(limit)
    try:
        async with clock:
            return await resume(coroutine, context, waited)
    except TimeoutError as error:
        if clock.expired():
            raise HandlerTimeout(f"the handler ran longer than {timeout:g} s") from error
        raise
