"""Looking into the in-process server of a test."""

from __future__ import annotations

from surestream.redis import RedisBroker
from surestream.redis.in_process import InProcessRedis
from surestream.redis.link import Link
from surestream.testing import TestApp


async def length(tb: TestApp, broker: RedisBroker, key: str) -> object:
    """How many entries a stream has."""
    server = tb.run.context.servers[broker]
    assert isinstance(server, InProcessRedis)
    link = Link(server.connection_factory(), name="look")
    await link.open()
    try:
        return await link.call("XLEN", key)
    finally:
        await link.close()
