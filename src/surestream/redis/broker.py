"""The declaration of a Redis broker."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from surestream.broker import Broker
from surestream.codec import Codec
from surestream.contract import RunContext, Transport
from surestream.delivery import Key
from surestream.middleware import Middleware, PublishMiddleware
from surestream.redis.address import RedisAddress
from surestream.redis.driver import connection_factory
from surestream.redis.publisher import RedisPublisher, StreamPublishing
from surestream.redis.sources import ConsumerGroup, EntryId, RedisSource, StreamKey
from surestream.redis.transport import RedisTransport
from surestream.runtime.publishing import BoundPublisher

__all__ = ["RedisBroker"]


class RedisBroker(StreamPublishing, Broker[RedisSource]):
    """A Redis or Valkey server, 6.2 or later.

    ``url``: ``redis://[user[:password]@]host[:port][/database]``, ``rediss://`` for TLS,
    ``unix:///path``; see :meth:`RedisAddress.parse
    <surestream.redis.address.RedisAddress.parse>`. ``username``, ``password``, ``database`` and
    ``tls`` (a context, or ``True`` for the system's certificates) win over the URL's own parts;
    credentials are never shown. ``codec``: how payloads are read and written (JSON).
    ``middleware`` and ``publish_middleware``: async functions around every handler and every
    publish of this broker, within those of the app.

    What is published goes to the end of the stream named by the destination.

    Raises ``DeclarationError`` for a URL that is none.
    """

    source_type = RedisSource
    known_keys: frozenset[Key[Any]] | None = frozenset({EntryId, StreamKey, ConsumerGroup})
    publisher_type: type[BoundPublisher] = RedisPublisher

    def __init__(
        self,
        url: str = "redis://localhost:6379",
        *,
        username: str | None = None,
        password: str | None = None,
        database: int | None = None,
        tls: ssl.SSLContext | bool | None = None,
        codec: Codec | None = None,
        middleware: Sequence[Middleware] = (),
        publish_middleware: Sequence[PublishMiddleware] = (),
    ) -> None:
        super().__init__(codec=codec, middleware=middleware, publish_middleware=publish_middleware)
        self.address = RedisAddress.parse(
            url, username=username, password=password, database=database, tls=tls
        )

    def transport(self, context: RunContext) -> Transport:
        if context.in_process:
            # Only tests and the demonstration need the model of a server.
            from surestream.redis.in_process import InProcessRedis

            server = context.servers[self] = InProcessRedis()
            connect, display = server.connection_factory(self.address.database), server.display
        else:
            url = context.addresses.get(self)
            address = self.address if url is None else _moved(self.address, url)
            connect, display = connection_factory(address), address.display
        return RedisTransport(
            connect, display=display, service=context.service, chance=context.chance
        )

    def __repr__(self) -> str:
        return f"RedisBroker({self.address.display!r})"


def _moved(declared: RedisAddress, url: str) -> RedisAddress:
    """The server at ``url``. What the URL leaves open is as declared: user and password (an empty
    ``@`` means none), the database, and with ``rediss://`` the TLS context."""
    there = RedisAddress.parse(url)
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        there = replace(there, username=declared.username, password=declared.password)
    if not parts.query and (parts.scheme == "unix" or not parts.path.strip("/")):
        there = replace(there, database=declared.database)
    return replace(there, tls=there.tls and (declared.tls or there.tls))
