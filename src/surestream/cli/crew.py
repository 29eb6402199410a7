"""``--workers N``: processes that share the work, each started again when it dies."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from dataclasses import dataclass, replace
from typing import Final

from surestream.cli.launch import Launch
from surestream.cli.processes import ServiceProcess, Spawn, spawn
from surestream.cli.statuses import CLEAN, FAILED, WRONG_USE
from surestream.runtime.reports import span

__all__ = ["Crew", "pause_after"]

log = logging.getLogger("surestream")

STEADY: Final = 10.0
"""Seconds after which a process that dies has not died at once."""
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
GIVE_UP: Final = 5
"""Processes in a row that died at once, at every seat, after which the crew gives up."""


@dataclass(slots=True)
class _Seat:
    """The place of one worker, whichever process has it."""

    number: int
    process: ServiceProcess | None = None
    lives: int = 0
    short: int = 0
    """How many processes in a row died at once."""
    status: int = CLEAN
    never_ran: bool = False
    """The last process that ended here was not up once, and none has been up since."""

    @property
    def failing(self) -> bool:
        """Whether nothing lasts here: it does not come up, or dies at once again and again."""
        if self.process is not None and self.process.lived >= STEADY:
            return False
        return self.never_ran or self.short >= GIVE_UP


class Crew:
    """``launch.workers`` processes.

    The first one starts alone: what is wrong with the service is then said once, and ends the
    crew with its status. Later a worker that dies is started again, at once or, where it had
    lived less than 10 s, after a pause that grows up to 30 s. The crew gives up when one is
    refused at its first start, and when every worker either does not come up any more or died
    at once five times in a row.
    """

    def __init__(self, launch: Launch, *, chance: random.Random, spawn: Spawn = spawn) -> None:
        self._launch = launch
        self._chance = chance
        self._spawn = spawn
        self._seats = [_Seat(1)]
        self._complete = False
        self._stopping = asyncio.Event()
        self._first = asyncio.Event()

    @property
    def name(self) -> str:
        """What is asked to stop, for the log."""
        return f"{self._launch.workers} workers"

    async def run(self) -> int:
        """Until the crew was told to stop, or gave up; the worst exit status among them."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep(self._seats[0]))
            await self._first.wait()
            if not self._stopping.is_set():
                others = [_Seat(number) for number in range(2, self._launch.workers + 1)]
                self._seats.extend(others)
                for seat in others:
                    group.create_task(self._keep(seat))
        return max(seat.status for seat in self._seats)

    def stop(self) -> None:
        """Stop all of them gracefully."""
        for seat in self._seats:
            if seat.process is None:
                # Its death was told when it happened: this stop is clean.
                seat.status = CLEAN
        self._dismiss()

    def end_now(self) -> None:
        """End all of them at once."""
        for seat in self._seats:
            if seat.process is not None:
                seat.process.end_now()

    def _dismiss(self) -> None:
        self._stopping.set()
        self._first.set()
        for seat in self._seats:
            if seat.process is not None:
                seat.process.ask_to_stop()

    async def _keep(self, seat: _Seat) -> None:
        while not self._stopping.is_set():
            seat.lives += 1
            told = await self._live(seat)
            if self._stopping.is_set():
                return
            if why := self._hopeless(seat):
                if len(self._seats) > 1 or seat.status > WRONG_USE:
                    log.critical("%s%s: stopping", told, why)
                self._dismiss()
                return
            pause = pause_after(seat.short, self._chance)
            level = logging.WARNING if seat.status == CLEAN else logging.ERROR
            when = f"in {span(pause)}" if pause else "now"
            log.log(level, "%s: the next one starts %s", told, when)
            await self._rest(pause)

    async def _live(self, seat: _Seat) -> str:
        """One process, from its start to its end; how it ended."""
        introduces = seat.number == 1 and seat.lives == 1
        launch = replace(self._launch, number=seat.number, introduces=introduces)
        try:
            process = seat.process = await self._spawn(launch)
        except OSError as error:
            seat.status, seat.never_ran, seat.short = FAILED, True, seat.short + 1
            return f"worker {seat.number} cannot be started: {error}"
        if self._stopping.is_set():
            process.ask_to_stop()
        await process.up_or_ended()
        if process.running:
            seat.never_ran = False
            self._first.set()
            self._tell_when_complete()
        seat.status = await process.ended()
        seat.process = None
        seat.never_ran = not process.running
        seat.short = seat.short + 1 if process.lived < STEADY else 0
        return f"worker {seat.number} (process {process.pid}) {_how(seat.status)}"

    def _tell_when_complete(self) -> None:
        processes = [seat.process for seat in self._seats]
        pids = [one.pid for one in processes if one is not None and one.running]
        if not self._complete and len(pids) == self._launch.workers:
            self._complete = True
            log.info("%s run: processes %s", self.name, ", ".join(map(str, pids)))

    def _hopeless(self, seat: _Seat) -> str:
        """Why another process would be no use, after the one that ended at ``seat``; or nothing."""
        if len(self._seats) == 1 or (seat.lives == 1 and seat.status == WRONG_USE):
            return " before it ran" if seat.never_ran else ""
        if all(one.failing for one in self._seats):
            return ", and no worker lasts any more"
        return ""

    async def _rest(self, pause: float) -> None:
        try:
            async with asyncio.timeout(pause):
                await self._stopping.wait()
        except TimeoutError:
            return


def pause_after(short: int, chance: random.Random) -> float:
    """Seconds before the next process, after ``short`` ones in a row that died at once."""
    if short == 0:
        return 0.0
    pause = min(FIRST_PAUSE * 2.0 ** min(short - 1, 10), LONGEST_PAUSE)
    return pause * chance.uniform(0.8, 1.2)


def _how(status: int) -> str:
    if status <= 128:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(status - 128).name}"
    except ValueError:
        return f"ended with status {status}"
