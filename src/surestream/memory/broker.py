"""A broker that needs no server."""

from __future__ import annotations

from typing import Any

from surestream.broker import Broker
from surestream.contract import RunContext, Transport
from surestream.delivery import Key
from surestream.memory.server import MemoryServer
from surestream.memory.topic import MemoryTopic, TopicName
from surestream.memory.transport import MemoryTransport

__all__ = ["MemoryBroker"]


class MemoryBroker(Broker[MemoryTopic]):
    """A broker inside the process: needs no server, and forgets everything with its run.

    Each run has a store of its own, the :class:`~surestream.memory.server.MemoryServer` in
    ``run.context.servers[broker]``. ``codec``: how payloads are read and written (JSON).
    """

    source_type = MemoryTopic
    known_keys: frozenset[Key[Any]] | None = frozenset({TopicName})

    def transport(self, context: RunContext) -> Transport:
        server = context.servers[self] = MemoryServer()
        return MemoryTransport(server)
