"""A Redis server that answers what a test tells it to, on a free loopback port."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import hiredis

__all__ = ["StubServer"]

Answer = Callable[[list[bytes]], bytes | None]

_GREETING = {b"SETNAME": b"+OK\r\n", b"ID": b":7\r\n", b"PING": b"+PONG\r\n"}


def echo(command: list[bytes]) -> bytes:
    """Answer with the last argument."""
    return b"$%d\r\n%b\r\n" % (len(command[-1]), command[-1])


class StubServer:
    """``answer`` gives the bytes of a reply, or ``None`` for none; unset it echoes.

    ``greet=False`` gives the link's own commands to ``answer`` too. While ``mute`` is set
    nothing is answered; while ``deaf``, nothing is even read.
    """

    def __init__(
        self,
        answer: Answer = echo,
        *,
        greet: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self.answer = answer
        self.greet = greet
        self.mute = False
        self.deaf = False
        self.received: list[list[bytes]] = []
        self.accepted = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.port = 0
        self._hearing = asyncio.Event()

    @property
    def url(self) -> str:
        return f"redis{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        """End every connection."""
        for writer in self._writers:
            writer.transport.abort()
        self._hearing.set()

    def send(self, raw: bytes) -> None:
        """Send bytes that nobody asked for, over every connection."""
        for writer in self._writers:
            writer.write(raw)

    def hear(self) -> None:
        """Read again, after ``deaf``."""
        self.deaf = False
        self._hearing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)
        parser: Any = hiredis.Reader()
        try:
            while data := await reader.read(65536):
                parser.feed(data)
                while (command := parser.gets()) is not False:
                    self.received.append(command)
                    raw = self._reply(command)
                    if raw is not None:
                        writer.write(raw)
                if self.deaf:
                    await self._hearing.wait()
        except OSError:
            return
        finally:
            self._writers.remove(writer)
            writer.close()

    def _reply(self, command: list[bytes]) -> bytes | None:
        if self.mute:
            return None
        own = command[1] if command[0] == b"CLIENT" else command[0]
        if self.greet and own in _GREETING:
            return _GREETING[own]
        return self.answer(command)
