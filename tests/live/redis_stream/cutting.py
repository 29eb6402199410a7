"""Connections that are cut where a test says so."""

from __future__ import annotations

from collections.abc import Iterable

from surestream.redis.driver import Connection, ConnectionFactory, DriverConnectionError, unpack
from surestream.redis.script import Script

__all__ = ["Cutter"]


class Cutter:
    """Makes connections of a factory, and loses the reply to a script: the server has run it, and
    the connection ends before the reply is read."""

    def __init__(self, connect: ConnectionFactory) -> None:
        self._connect = connect
        self.script: Script | None = None
        """Lose the next reply to this one."""
        self.lost = 0
        """How many replies were lost."""

    def factory(self) -> Connection:
        """What goes where a factory goes."""
        return _Cut(self._connect(), self)

    def meant(self, command: list[bytes]) -> bool:
        """Whether this is the command whose reply shall be lost."""
        script = self.script
        if script is None or command[1] not in (script.digest, script.source):
            return False
        self.script = None
        return True


class _Cut:
    def __init__(self, inner: Connection, cutter: Cutter) -> None:
        self._inner = inner
        self._cutter = cutter
        self._sent = 0
        self._read = 0
        self._cut_at = 0

    async def connect(self) -> None:
        await self._inner.connect()

    async def send_packed_command(
        self, command: Iterable[bytes], check_health: bool = True
    ) -> None:
        packed = b"".join(command)
        for one in unpack(packed):
            self._sent += 1
            if len(one) > 1 and self._cutter.meant(one):
                self._cut_at = self._sent
        await self._inner.send_packed_command((packed,), check_health)

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
        finally:
            self._read += 1
        if self._read == self._cut_at:
            self._cutter.lost += 1
            raise DriverConnectionError("cut by the test")
        return reply

    async def disconnect(self, nowait: bool = False) -> None:
        await self._inner.disconnect(nowait)
