"""A service in a process of its own, as the process that started it sees it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from typing import Final

from surestream.cli.launch import Launch, command_of
from surestream.cli.parent import END_NOW
from surestream.cli.signals import StopSignals
from surestream.cli.statuses import signaled

__all__ = ["ServiceProcess", "Spawn", "spawn"]

STARTING_LIMIT: Final = 10.0
"""Seconds that a process gets to end before it has said how long a stop takes: before its
interpreter and our own modules are up."""
KILL_AFTER: Final = 2.0
"""Seconds beyond the limit that a process has set itself after which it is killed: something
in it keeps even its own deadline from running."""
FLUSH_LIMIT: Final = 1.0
"""Seconds that a process gets to end at once by itself."""
LAST_WORDS: Final = 0.5


class ServiceProcess:
    """One process, from its start to its end. Belongs to one event loop."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.pid = process.pid
        self.running = False
        """Whether the service was up once."""
        self._process = process
        self._writer = writer
        self._limit = STARTING_LIMIT
        self._news = asyncio.Event()
        self._killing: asyncio.TimerHandle | None = None
        self._began = loop.time()
        self._ended: float | None = None
        self._listening = loop.create_task(self._listen(reader))
        self._ending = loop.create_task(self._end())

    @property
    def lived(self) -> float:
        """Seconds from its start to its end, or to now."""
        until = asyncio.get_running_loop().time() if self._ended is None else self._ended
        return until - self._began

    async def up_or_ended(self) -> None:
        """Wait until the service runs, or the process has ended."""
        await self._news.wait()

    async def ended(self) -> int:
        """Wait for the end; the exit status as shells count it: 128 + n after signal n."""
        return await asyncio.shield(self._ending)

    def ask_to_stop(self) -> None:
        """Stop gracefully; what does not stop within its own limit is killed."""
        self._signal(signal.SIGTERM)
        self._kill_in(self._limit + KILL_AFTER)

    def end_now(self) -> None:
        """End without settling anything more."""
        if not self._ending.done():
            self._writer.write(END_NOW)
            self._kill_in(FLUSH_LIMIT)

    def _kill_in(self, seconds: float) -> None:
        if self._killing is not None:
            self._killing.cancel()
        loop = asyncio.get_running_loop()
        self._killing = loop.call_later(seconds, self._signal, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # It may have ended this very moment.
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            match line.split():
                case [b"limit", seconds]:
                    self._limit = float(seconds)
                case [b"running"]:
                    self.running = True
                    self._news.set()
                case _:
                    pass

    async def _end(self) -> int:
        status = await self._process.wait()
        self._ended = asyncio.get_running_loop().time()
        if self._killing is not None:
            self._killing.cancel()
        # What it said last may still be under way; what it started itself may hold the line.
        await asyncio.wait({self._listening}, timeout=LAST_WORDS)
        self._listening.cancel()
        self._writer.close()
        self._news.set()
        return signaled(-status) if status < 0 else status


Spawn = Callable[[Launch], Awaitable[ServiceProcess]]
"""Starts a process. Raises ``OSError`` where the system has none to give."""


async def spawn(launch: Launch, *, terminal: bool = False) -> ServiceProcess:
    """Start a process for ``launch``; ``terminal``: it may read what a person types."""
    ours, theirs = socket.socketpair()
    try:
        with theirs, _signals_held_back():
            # Nothing is awaited before the process exists, so that nothing else runs meanwhile.
            process = await asyncio.create_subprocess_exec(
                *command_of(replace(launch, channel=theirs.fileno())),
                stdin=None if terminal else subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        reader, writer = await asyncio.open_connection(sock=ours)
    except BaseException:
        ours.close()
        raise
    return ServiceProcess(process, reader, writer)


@contextlib.contextmanager
def _signals_held_back() -> Generator[None]:
    """A new process inherits which signals wait: until it has handlers for them, they would end
    it with a traceback, or with a status that is no clean stop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, StopSignals.NUMBERS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, StopSignals.NUMBERS)
