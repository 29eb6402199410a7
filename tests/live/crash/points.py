"""Where the sweep strikes: at the n-th command that a process writes to Redis.

``kill before``: the process ends before the command is written. ``kill after``: it ends when the
reply has been read and nothing was done about it. ``cut before``: the connection ends before the
command is written. ``cut after``: it ends with the reply unread. ``hang``: the process loses the
connection once the command is written, and the server does not notice.

Commands count over all connections, in the order in which they are written. What names a
connection and asks for a sign of life is left out.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from typing import Final, Literal

import surestream.redis.broker as broker_module
from surestream.redis import scripted
from surestream.redis.address import RedisAddress
from surestream.redis.driver import (
    Connection,
    ConnectionFactory,
    DriverConnectionError,
    ResponseError,
    pack,
    unpack,
)
from surestream.redis.script import Script

__all__ = ["CUT", "CUTS", "KILLED", "KILLS", "How", "Point", "watch_connections"]

KILLED: Final = 77
CUT: Final = 76

How = Literal["kill before", "kill after", "cut before", "cut after", "hang"]
KILLS: Final[tuple[How, ...]] = ("kill before", "kill after")
CUTS: Final[tuple[How, ...]] = ("cut before", "cut after", "hang")


class Point:
    """One place to strike. ``number=0``: never. Nothing counts before :meth:`arm`."""

    def __init__(self, how: How, number: int) -> None:
        self.how = how
        self.number = number
        self.armed = False
        self.struck = False
        self.seen: list[str] = []

    def arm(self) -> None:
        """Count from here on."""
        self.armed = True

    def counted(self, command: list[bytes]) -> int:
        """The number of a command, 0 for one that does not count."""
        if not self.armed or command[0] in (b"CLIENT", b"PING"):
            return 0
        self.seen.append(_name(command))
        return len(self.seen)

    def at(self, number: int, *how: How) -> bool:
        """Whether this is the place, and one of these the way."""
        return number > 0 and self.number == number and self.how in how

    def strike(self) -> None:
        """End the process, or have the caller lose its connection."""
        self.struck = True
        # What was written before has arrived by now.
        time.sleep(0.02)
        print(f"{self.how} call {self.number}: {self.seen[self.number - 1]}", flush=True)
        if self.how in KILLS:
            os._exit(KILLED)


class WatchedConnection:
    """A connection of the driver on which the sweep may strike."""

    def __init__(self, inner: Connection, point: Point) -> None:
        self._inner = inner
        self._point = point
        self._asked: deque[int] = deque()
        self._left = False

    async def connect(self) -> None:
        await self._inner.connect()

    async def send_packed_command(
        self, command: Iterable[bytes], check_health: bool = True
    ) -> None:
        packed = b"".join(command)
        written: list[bytes] = []
        for arguments in unpack(packed):
            number = self._point.counted(arguments)
            if self._point.at(number, "kill before", "cut before"):
                # What one write holds need not arrive as a whole.
                await self._inner.send_packed_command((b"".join(written),), False)
                self._point.strike()
                raise await self._lost()
            self._asked.append(number)
            written.append(pack(*arguments))
        await self._inner.send_packed_command((packed,), check_health)
        if any(self._point.at(number, "hang") for number in self._asked):
            self._left = True
            self._point.strike()
            raise await self._lost()

    async def read_response(
        self,
        disable_decoding: bool = False,
        timeout: float | None = None,
        *,
        disconnect_on_error: bool = True,
    ) -> object:
        try:
            reply = await self._inner.read_response(
                disable_decoding, timeout, disconnect_on_error=disconnect_on_error
            )
        except ResponseError:
            await self._replied()
            raise
        await self._replied()
        return reply

    async def _replied(self) -> None:
        if self._asked and self._point.at(self._asked.popleft(), "kill after", "cut after"):
            self._point.strike()
            raise await self._lost()

    async def _lost(self) -> DriverConnectionError:
        await self.disconnect(nowait=True)
        return DriverConnectionError("struck")

    async def disconnect(self, nowait: bool = False) -> None:
        if self._left:
            # It stays open for the server until this process is gone.
            _LEFT.append(self._inner)
        else:
            await self._inner.disconnect(nowait)


_LEFT: Final[list[Connection]] = []


def watch_connections(point: Point) -> None:
    """Every connection made in this process from now on knows of ``point``."""
    make_factory = broker_module.connection_factory

    def watched(address: RedisAddress) -> ConnectionFactory:
        make = make_factory(address)
        return lambda: WatchedConnection(make(), point)

    broker_module.connection_factory = watched


def _name(command: list[bytes]) -> str:
    name = command[0].decode()
    if name in ("EVAL", "EVALSHA"):
        return _SCRIPTS.get(command[1], name)
    return " ".join(word.decode(errors="replace") for word in command[:2])


_SCRIPTS: Final = {
    text: label
    for label, script in vars(scripted).items()
    if isinstance(script, Script)
    for text in (script.digest, script.source)
}
