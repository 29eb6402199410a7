"""A plain blocking Redis connection, for filling streams and asking the server how a run went."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from itertools import islice
from typing import cast

import hiredis

Argument = str | bytes | int
pack = cast(
    "Callable[[tuple[Argument, ...]], bytes]",
    hiredis.pack_command,  # pyright: ignore[reportUnknownMemberType]  the stub names no result
)


class Wire:
    """One connection; every call waits for its reply, at most 30 s."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def close(self) -> None:
        self._socket.close()

    def call(self, *command: Argument) -> object:
        """The server's reply; an error reply is raised."""
        self._socket.sendall(pack(command))
        return self._reply()

    def call_many(self, commands: Iterable[tuple[Argument, ...]], at_once: int = 1_000) -> int:
        """Sends the commands in pipelines of `at_once`; answers how many there were."""
        remaining = iter(commands)
        count = 0
        while chunk := [pack(command) for command in islice(remaining, at_once)]:
            self._socket.sendall(b"".join(chunk))
            for _ in chunk:
                self._reply()
            count += len(chunk)
        return count

    def pending(self, stream: str, group: str) -> int:
        """Entries that were delivered to the group and are not acknowledged."""
        summary = cast("list[int]", self.call("XPENDING", stream, group))
        return summary[0]

    def _reply(self) -> object:
        while (reply := cast("object", self._reader.gets())) is False:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        if isinstance(reply, Exception):
            raise reply
        return reply
