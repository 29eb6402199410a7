"""Appending to streams, and refusals told with the key and both types."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

from surestream.contract import Stored
from surestream.errors import BrokerRefused, SureStreamError
from surestream.message import HeaderPairs, Outgoing
from surestream.redis.driver import Argument
from surestream.redis.errors import NotPermitted, WrongType
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.trimming import Trim
from surestream.redis.wire import entry_fields
from surestream.runtime.reports import cut

__all__ = ["append", "check_size", "encoded", "explained", "fields_to_write", "publish", "told"]

LARGEST: Final = 512 * 1024 * 1024
"""Bytes of one argument that a server takes (its ``proto-max-bulk-len``). Beyond that it would not
answer but end the connection."""

_T = TypeVar("_T")


async def publish(link: ReconnectingLink, message: Outgoing) -> Stored:
    """Append ``message`` to the stream of that name; returns when the server has answered.

    Raises ``BrokerRefused`` (``permanent`` where the same message can never be stored) or
    ``ConnectionLost``.
    """
    target = encoded(message.address)
    fields = fields_to_write(message.payload, message.headers)
    trim = message.options if isinstance(message.options, Trim) else None
    try:
        reply = await append(link, target, fields, () if trim is None else trim.arguments)
    except BrokerRefused as error:
        raise await explained(link, error, target) from error
    if trim is not None:
        trim.check(reply)
    return Stored.STORED


def append(
    link: ReconnectingLink, target: bytes, fields: Sequence[bytes], trim: Sequence[Argument] = ()
) -> asyncio.Future[Reply]:
    """``XADD``, cutting the stream as ``trim`` says."""
    return link.call("XADD", target, *trim, "*", *fields)


def encoded(address: str) -> bytes:
    """A key as it is sent. Raises ``BrokerRefused`` for what is none."""
    if not address:
        raise BrokerRefused("an empty address: a stream needs a name", permanent=True)
    try:
        key = address.encode()
    except UnicodeEncodeError:
        raise BrokerRefused(f"address {cut(address)} is no text", permanent=True) from None
    check_size(key, "the address")
    return key


def fields_to_write(
    payload: bytes | None, headers: HeaderPairs, extra: Sequence[bytes] = ()
) -> list[bytes]:
    """The fields of an entry (:func:`~surestream.redis.wire.entry_fields`), checked for what no
    server takes (``BrokerRefused``)."""
    try:
        fields = entry_fields(payload, headers, extra)
    except UnicodeEncodeError as error:
        raise BrokerRefused(
            f"a header name is no text: {cut(repr(error.object))}", permanent=True
        ) from None
    for field in fields:
        if len(field) > LARGEST:
            check_size(field, "the payload" if field is payload else "a header")
    return fields


def check_size(value: bytes, what: str) -> None:
    """Raises ``BrokerRefused`` for what is larger than any server takes."""
    if len(value) > LARGEST:
        raise BrokerRefused(
            f"{what} has {len(value):,} bytes: Redis takes {LARGEST:,} at most", permanent=True
        )


async def told(
    link: ReconnectingLink, reply: asyncio.Future[_T], key: bytes, wanted: str = "stream"
) -> _T:
    """The reply, or its refusal as :func:`explained` tells it."""
    try:
        return await reply
    except BrokerRefused as error:
        raise await explained(link, error, key, wanted) from error


async def explained(
    link: ReconnectingLink, error: BrokerRefused, key: bytes, wanted: str = "stream"
) -> BrokerRefused:
    """A refusal with the key in it, and with both types where the key holds the wrong one.

    What a person can put right is not permanent: nothing is given up for it.
    """
    name = cut(key.decode("utf-8", "replace"))
    if isinstance(error, WrongType):
        try:
            held = await link.call("TYPE", key)
        except SureStreamError:
            held = None
        kind = held.decode() if isinstance(held, bytes) else "value of another type"
        return BrokerRefused(f"key '{name}' holds a {kind}, and a {wanted} is needed there")
    permanent = error.permanent and not isinstance(error, NotPermitted)
    return BrokerRefused(f"key '{name}': {error}", permanent=permanent)
