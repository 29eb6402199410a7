"""The closure that calls a handler for one message, in the cheapest shape its arguments allow."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from surestream.delivery import Delivery
from surestream.runtime.calls.meanings import Argument, Fixed, Meaning, Payload, Read

__all__ = ["Call", "bound_call"]

Call = Callable[[Delivery, object], Any]
"""A handler as the runtime calls it: with the delivery and the decoded payload."""

_Getter = Callable[[Delivery, object], object]


def bound_call(
    handler: Callable[..., Any], arguments: Sequence[Argument], *, awaiting: bool
) -> Call:
    """``handler`` with its arguments, of which only payload and facts are left open.

    ``awaiting``: the handler gives something to await that need not be a coroutine; the call
    gives a coroutine.
    """
    constants = {
        each.name: each.meaning.value
        for each in arguments
        if each.by_name and isinstance(each.meaning, Fixed)
    }
    call = functools.partial(handler, **constants) if constants else handler
    named = [
        (each.name, _getter(each.meaning))
        for each in arguments
        if each.by_name and not isinstance(each.meaning, Fixed)
    ]
    positional = [each.meaning for each in arguments if not each.by_name]
    bound = _with_names(call, positional, named) if named else _by_position(call, positional)
    return _awaiting(bound) if awaiting else bound


def _by_position(call: Callable[..., Any], meanings: Sequence[Meaning]) -> Call:
    fixed = [each.value for each in meanings[1:] if isinstance(each, Fixed)]
    if meanings and isinstance(meanings[0], Payload) and len(fixed) == len(meanings) - 1:
        return _payload_first(call, fixed)
    return _by_getters(call, [_getter(each) for each in meanings])


def _payload_first(call: Callable[..., Any], fixed: Sequence[object]) -> Call:
    if not fixed:
        return lambda delivery, value: call(value)
    if len(fixed) == 1:
        one = fixed[0]
        return lambda delivery, value: call(value, one)
    constants = tuple(fixed)
    return lambda delivery, value: call(value, *constants)


def _by_getters(call: Callable[..., Any], getters: Sequence[_Getter]) -> Call:
    if not getters:
        return lambda delivery, value: call()
    if len(getters) == 1:
        only = getters[0]
        return lambda delivery, value: call(only(delivery, value))
    if len(getters) == 2:
        one, two = getters
        return lambda delivery, value: call(one(delivery, value), two(delivery, value))
    if len(getters) == 3:
        one, two, three = getters
        return lambda delivery, value: call(
            one(delivery, value), two(delivery, value), three(delivery, value)
        )
    every = tuple(getters)
    return lambda delivery, value: call(*[get(delivery, value) for get in every])


def _with_names(
    call: Callable[..., Any], meanings: Sequence[Meaning], named: Sequence[tuple[str, _Getter]]
) -> Call:
    getters = tuple(map(_getter, meanings))
    names = tuple(named)

    def with_names(delivery: Delivery, value: object) -> Any:
        return call(
            *[get(delivery, value) for get in getters],
            **{name: get(delivery, value) for name, get in names},
        )

    return with_names


def _getter(meaning: Meaning) -> _Getter:
    if isinstance(meaning, Payload):
        return lambda delivery, value: value
    if isinstance(meaning, Read):
        read = meaning.read
        return lambda delivery, value: read(delivery)
    if isinstance(meaning, Fixed):
        fixed = meaning.value
        return lambda delivery, value: fixed
    raise AssertionError(f"{meaning!r} is filled before the call is bound")


def _awaiting(call: Call) -> Call:
    async def awaited(delivery: Delivery, value: object) -> object:
        result: object = call(delivery, value)
        if inspect.isawaitable(result):
            return await cast(Awaitable[object], result)
        return result

    return awaited
