"""Rooms over a real server and over the in-process one: the same checks, the same answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from surestream.redis.address import RedisAddress
from surestream.redis.driver import connection_factory
from surestream.redis.in_process import InProcessRedis
from surestream.redis.link import Link
from tests.live.redis_stream.room import Room
from tests.servers import RedisServer


@pytest.fixture(params=["live", "in process"])
async def room(request: pytest.FixtureRequest) -> AsyncIterator[Room]:
    """A room over an empty server that the test does not stop."""
    if request.param == "live":
        server: RedisServer = request.getfixturevalue("redis_server")
        server.flush()
        connect = connection_factory(RedisAddress.parse(server.url))
        control: object = server
    else:
        control = InProcessRedis()
        connect = control.connection_factory()
    link = Link(connect, name="look")
    await link.open()
    room = Room(connect, link, control)
    yield room
    await room.close()


@pytest.fixture
async def own_room(own_redis: RedisServer) -> AsyncIterator[Room]:
    """A room over a real server that the test may kill."""
    connect = connection_factory(RedisAddress.parse(own_redis.url))
    link = Link(connect, name="look")
    await link.open()
    room = Room(connect, link, own_redis)
    yield room
    await room.close()
