"""Processes that exist only here: a test says when they are up and how they end."""

from __future__ import annotations

import asyncio
import errno

from surestream.cli.launch import Launch


class FakeProcess:
    """As :class:`~surestream.cli.processes.ServiceProcess`."""

    def __init__(self, launch: Launch, pid: int, *, stops: bool) -> None:
        self.launch = launch
        self.pid = pid
        self.running = False
        self.asked = 0
        self.ended_now = 0
        self._stops = stops
        self._news = asyncio.Event()
        self._began = asyncio.get_running_loop().time()
        self._until: float | None = None
        self._end = asyncio.get_running_loop().create_future()

    @property
    def lived(self) -> float:
        until = asyncio.get_running_loop().time() if self._until is None else self._until
        return until - self._began

    def come_up(self) -> None:
        self.running = True
        self._news.set()

    def die(self, status: int) -> None:
        self._until = asyncio.get_running_loop().time()
        self._end.set_result(status)
        self._news.set()

    async def up_or_ended(self) -> None:
        await self._news.wait()

    async def ended(self) -> int:
        return await asyncio.shield(self._end)

    def ask_to_stop(self) -> None:
        self.asked += 1
        if self._stops and not self._end.done():
            self.die(0)

    def end_now(self) -> None:
        self.ended_now += 1


class Spawner:
    """Starts them, and keeps them in the order they were started."""

    def __init__(self, *, stops: bool = True) -> None:
        self.started: list[FakeProcess] = []
        self.refuses = False
        self._stops = stops

    async def __call__(self, launch: Launch) -> FakeProcess:
        await asyncio.sleep(0)
        if self.refuses:
            raise OSError(errno.EAGAIN, "no more processes")
        self.started.append(FakeProcess(launch, 100 + len(self.started), stops=self._stops))
        return self.started[-1]

    @property
    def numbers(self) -> list[int]:
        """Which worker each of them is."""
        return [process.launch.number for process in self.started]
