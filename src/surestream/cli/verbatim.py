"""A broker that takes payloads as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surestream.broker import Broker
from surestream.codec import Codec, Decode
from surestream.contract import RunContext, Transport
from surestream.errors import EncodeError
from surestream.middleware import PublishMiddleware
from surestream.runtime.lifecycle import Run
from surestream.runtime.publishing import BoundPublisher
from surestream.runtime.terms import Mounted

__all__ = ["Verbatim"]


class Verbatim:
    """``broker`` with its own connection and publish middleware, and no codec: what was typed
    is what travels."""

    def __init__(self, broker: Broker[Any]) -> None:
        self._broker = broker
        self.mounts: Sequence[Mounted] = ()
        self.codec: Codec = _Bytes()
        self.publish_middleware: Sequence[PublishMiddleware] = broker.publish_middleware
        self.publisher_type: type[BoundPublisher] = broker.publisher_type

    def transport(self, context: RunContext) -> Transport:
        """The broker's own."""
        return self._broker.transport(context)

    def joined(self, run: Run) -> None:
        """Nobody publishes through it but who made it."""

    def left(self, run: Run) -> None:
        """It is over."""

    def __repr__(self) -> str:
        return repr(self._broker)


class _Bytes:
    content_type = "application/octet-stream"

    def decoder(self, type_: Any) -> Decode:
        return bytes

    def encode(self, value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        raise EncodeError(f"a payload is bytes, not {type(value).__name__}")
