"""Publishing: a value becomes a message with an address, bytes and headers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Protocol, overload

from surestream.codec import Codec
from surestream.declaration import UNSET, Unset, check_address
from surestream.destination import destination_of
from surestream.errors import DeclarationError, DeclarationTypeError
from surestream.message import HeaderValues, Outgoing, header_pairs, is_reserved

__all__ = ["BoundPublisher", "Publishing", "finished", "in_handler", "prepare", "unreserved"]

in_handler: ContextVar[bool] = ContextVar("surestream_in_handler", default=False)
"""Whether the code runs in a handler: there our own headers are kept from leaking (4.10)."""


def prepare(
    codec: Codec,
    destination: object,
    value: object | Unset,
    headers: HeaderValues | None,
    options: object | None = None,
) -> Outgoing:
    """Build the message: ``destination`` is an address, or a value whose type declares one.

    Raises ``DeclarationError`` for an address nothing can be published to or a value without a
    declared destination, ``EncodeError`` for what the codec cannot write.
    """
    if value is UNSET:
        value = destination
        address = destination_of(value)
        if address is None:
            raise DeclarationError(
                f"publish({type(value).__name__}(…)) without an address",
                why="the type declares no destination",
                write=f'publish("an.address", value), or @outgoing("an.address") on '
                f"{type(value).__name__}",
            )
    elif isinstance(destination, str):
        address = check_address(destination, "publish address")
    else:
        raise DeclarationTypeError(
            f"publish({destination!r}, …)", why="an address is text", write='publish("refunds", …)'
        )
    pairs = header_pairs(headers)
    if in_handler.get():
        pairs = tuple(pair for pair in pairs if not is_reserved(pair[0]))
    return Outgoing(address, codec.encode(value), pairs, options)


def unreserved(headers: HeaderValues | None) -> HeaderValues | None:
    """``headers`` without those that belong to the runtime (rule 4.10)."""
    if not headers:
        return headers
    return {name: value for name, value in headers.items() if not is_reserved(str(name))}


def finished(message: object, *, clean: bool) -> Outgoing:
    """What publish middleware made of a message, checked; ``clean``: without headers that belong
    to the runtime.

    Raises ``DeclarationError`` for what cannot be published.
    """
    if not isinstance(message, Outgoing):
        raise DeclarationTypeError(
            f"publish middleware sent {message!r}",
            why="what is sent is a message",
            write="await send(replace(message, …))",
        )
    check_address(message.address, "the address from publish middleware")
    payload: object = message.payload
    if not isinstance(payload, bytes):
        raise DeclarationTypeError(
            f"publish middleware sent a payload of type {type(payload).__name__}",
            why="a payload is bytes",
            write="await send(replace(message, payload=…))",
        )
    pairs: list[tuple[str, bytes]] = []
    for name, value in message.headers:
        ((name, value),) = header_pairs({name: value})
        if not (clean and is_reserved(name)):
            pairs.append((name, value))
    return replace(message, headers=tuple(pairs))


class Publish(Protocol):
    """What publishes on one broker of one run."""

    def __call__(
        self,
        destination: object,
        value: object = ...,
        headers: HeaderValues | None = None,
        options: object | None = None,
    ) -> Coroutine[Any, Any, None]: ...


class Publishing(ABC):
    """``publish``, as a broker and the publishers of handlers have it."""

    @abstractmethod
    def _publish(
        self,
        destination: object,
        value: object = UNSET,
        headers: HeaderValues | None = None,
        options: object | None = None,
    ) -> Coroutine[Any, Any, None]: ...

    @overload
    async def publish(
        self, destination: str, value: object, /, *, headers: HeaderValues | None = None
    ) -> None: ...
    @overload
    async def publish(self, value: object, /, *, headers: HeaderValues | None = None) -> None: ...

    async def publish(
        self,
        destination: object,
        value: object = UNSET,
        /,
        *,
        headers: HeaderValues | None = None,
    ) -> None:
        """Publish ``value`` to ``destination``, or to the one its type declares.

        Returns when the broker has confirmed. Works in handlers, inside ``app.running()`` and
        inside ``broker.connected()``. Raises ``NotRunning`` elsewhere, ``EncodeError``,
        ``DeclarationError``, ``ConnectionLost`` or ``BrokerRefused``.
        """
        await self._publish(destination, value, headers)


class BoundPublisher(Publishing):
    """The publisher that a handler asks for: bound to its broker in this run.

    A broker with more to say about a publish names a subclass as its ``publisher_type``.
    """

    def __init__(self, publish: Publish) -> None:
        self._bound = publish

    def _publish(
        self,
        destination: object,
        value: object = UNSET,
        headers: HeaderValues | None = None,
        options: object | None = None,
    ) -> Coroutine[Any, Any, None]:
        return self._bound(destination, value, headers, options)
