"""The memory broker: queues inside the process, for tests, demos and services without a server."""

from __future__ import annotations

from surestream.memory.broker import MemoryBroker
from surestream.memory.server import MemoryServer
from surestream.memory.topic import MemoryTopic, TopicName

__all__ = ["MemoryBroker", "MemoryServer", "MemoryTopic", "TopicName"]
