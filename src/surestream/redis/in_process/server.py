"""The in-process server and the connections to it."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterable
from typing import Any

from surestream.clock import wall_time
from surestream.redis.driver import (
    Connection,
    ConnectionFactory,
    DriverConnectionError,
    RedisError,
    unpack,
)
from surestream.redis.in_process.client import Blocked, InProcessClient
from surestream.redis.in_process.model import new_server, replace_time

__all__ = ["InProcessRedis"]


class InProcessRedis:
    """A Redis 7.0 of its own, empty at first, reached by any number of links of one event loop.

    ``InProcessRedis().connection_factory()`` goes where a real server's factory goes. Time in it is
    :func:`~surestream.clock.wall_time`, and blocking reads wait on the loop's clock, so that a
    paused clock moves both.
    """

    display = "redis://in-process"

    def __init__(self) -> None:
        replace_time(_as_the_clock_says)
        self._model = new_server()
        self._blocked = Blocked()
        self._connections: set[_InProcessConnection] = set()
        self._running = True

    @property
    def running(self) -> bool:
        """Whether it takes connections."""
        return self._running

    def connection_factory(self, database: int = 0) -> ConnectionFactory:
        """Connections to ``database`` of this server."""

        def make() -> Connection:
            return _InProcessConnection(self, database)

        return make

    def stop(self) -> None:
        """Go away as a killed server does: every connection ends, no new one is taken."""
        self._running = False
        self.drop_connections()

    def start(self, *, keep_data: bool = True) -> None:
        """Come back after :meth:`stop`, with the data or without; scripts are forgotten."""
        self._model.script_cache.clear()
        if not keep_data:
            with self._model.lock:
                for database in tuple(self._model.dbs.values()):
                    database.clear()
        self._running = True

    def drop_connections(self) -> None:
        """Cut every connection; the server goes on."""
        for connection in tuple(self._connections):
            connection.cut("the in-process server dropped the connection")

    def attach(self, connection: _InProcessConnection, database: int) -> InProcessClient:
        """Take a connection in."""
        if not self._running:
            raise DriverConnectionError("the in-process server is stopped")
        self._connections.add(connection)
        return InProcessClient(
            self._model,
            database,
            blocked=self._blocked,
            deliver=connection.deliver,
            cut=connection.cut,
        )

    def detach(self, connection: _InProcessConnection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)


class _InProcessConnection:
    """The port of :class:`~surestream.redis.driver.Connection` onto the in-process server.

    The commands of one write run at once, on the loop, in order.
    """

    def __init__(self, server: InProcessRedis, database: int) -> None:
        self._server = server
        self._database = database
        self._client: InProcessClient | None = None
        self._replies: deque[object] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._end = "the connection is closed"

    async def connect(self) -> None:
        self._client = self._server.attach(self, self._database)

    async def send_packed_command(
        self, command: Iterable[bytes], check_health: bool = True
    ) -> None:
        for arguments in unpack(b"".join(command)):
            if self._client is None:
                raise DriverConnectionError(self._end)
            self._client.take(arguments)

    async def read_response(
        self,
        disable_decoding: bool = False,
        timeout: float | None = None,
        *,
        disconnect_on_error: bool = True,
    ) -> object:
        while not self._replies:
            if self._client is None:
                raise DriverConnectionError(self._end)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        reply = self._replies.popleft()
        if isinstance(reply, RedisError):
            raise reply
        return reply

    async def disconnect(self, nowait: bool = False) -> None:
        self.cut("the connection is closed")

    def deliver(self, reply: object) -> None:
        """Hand the client the next reply."""
        self._replies.append(reply)
        self._rouse()

    def cut(self, reason: str) -> None:
        """End the connection; replies that came before are still read."""
        self._server.detach(self)
        client, self._client = self._client, None
        if client is not None:
            self._end = reason
            client.leave()
        self._rouse()

    def _rouse(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Time:
    """What ``fakeredis`` sees in the place of the module ``time``.

    Other users of it in this process see no change: without a paused clock it is the wall time.
    """

    def __init__(self, original: object) -> None:
        self._original = original

    def time(self) -> float:
        # Whole microseconds, a hair above: the model cuts them to milliseconds, and a sum of
        # virtual seconds that lies a hair below would be a millisecond early.
        return math.nextafter(round(wall_time(), 6), math.inf)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def _as_the_clock_says(original: object) -> object:
    return original if isinstance(original, _Time) else _Time(original)
