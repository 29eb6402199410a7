"""Publishing: a value becomes a message with an address, bytes and headers."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from surestream.codec import Codec
from surestream.declaration import UNSET, Unset, check_address
from surestream.destination import destination_of
from surestream.errors import DeclarationError, DeclarationTypeError
from surestream.message import HeaderValues, Outgoing, header_pairs, is_reserved

__all__ = ["BoundPublisher", "in_handler", "prepare"]

in_handler: ContextVar[bool] = ContextVar("surestream_in_handler", default=False)
"""Whether the code runs in a handler: there our own headers are kept from leaking (4.10)."""


def prepare(
    codec: Codec, destination: object, value: object | Unset, headers: HeaderValues | None
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
    return Outgoing(address, codec.encode(value), pairs)


class Publish(Protocol):
    """What publishes on one broker of one run."""

    async def __call__(
        self, destination: object, value: object = ..., headers: HeaderValues | None = None
    ) -> None: ...


class BoundPublisher:
    """The publisher that a handler asks for: bound to its broker in this run."""

    __slots__ = ("_publish",)

    def __init__(self, publish: Publish) -> None:
        self._publish = publish

    async def publish(
        self,
        destination: object,
        value: object = UNSET,
        /,
        *,
        headers: HeaderValues | None = None,
    ) -> None:
        """Publish; returns when the broker has confirmed."""
        await self._publish(destination, value, headers)
