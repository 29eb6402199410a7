"""The declaration of a Redis broker."""

from __future__ import annotations

import ssl
from typing import Any

from surestream.broker import Broker
from surestream.codec import Codec
from surestream.contract import RunContext, Transport
from surestream.delivery import Key
from surestream.redis.address import RedisAddress
from surestream.redis.driver import connection_factory
from surestream.redis.sources import ConsumerGroup, EntryId, RedisSource, StreamKey
from surestream.redis.transport import RedisTransport

__all__ = ["RedisBroker"]


class RedisBroker(Broker[RedisSource]):
    """A Redis or Valkey server, 6.2 or later.

    ``url``: ``redis://[user[:password]@]host[:port][/database]``, ``rediss://`` for TLS,
    ``unix:///path``; see :meth:`RedisAddress.parse
    <surestream.redis.address.RedisAddress.parse>`. ``username``, ``password``, ``database`` and
    ``tls`` (a context, or ``True`` for the system's certificates) win over the URL's own parts;
    credentials are never shown. ``codec``: how payloads are read and written (JSON).

    What is published goes to the end of the stream named by the destination.

    Raises ``DeclarationError`` for a URL that is none.
    """

    source_type = RedisSource
    known_keys: frozenset[Key[Any]] | None = frozenset({EntryId, StreamKey, ConsumerGroup})

    def __init__(
        self,
        url: str = "redis://localhost:6379",
        *,
        username: str | None = None,
        password: str | None = None,
        database: int | None = None,
        tls: ssl.SSLContext | bool | None = None,
        codec: Codec | None = None,
    ) -> None:
        super().__init__(codec=codec)
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
            connect, display = connection_factory(self.address), self.address.display
        return RedisTransport(
            connect, display=display, service=context.service, chance=context.chance
        )

    def __repr__(self) -> str:
        return f"RedisBroker({self.address.display!r})"
