"""A process that starts others: it passes signals on and ends last."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from surestream.cli.crew import Crew
from surestream.cli.faults import UseError, print_fault
from surestream.cli.launch import Launch
from surestream.cli.logs import set_up_logging
from surestream.cli.reloading import Reloading
from surestream.cli.running import check_timeout, look_here_first
from surestream.cli.signals import ENDED_AT_ONCE, StopSignals, say
from surestream.cli.statuses import CLEAN, WRONG_USE, signaled
from surestream.cli.target import check_target
from surestream.cli.watching import changed_sources, check_folders, refuse_without_watchfiles

__all__ = ["Keeper", "run_reloading", "run_workers"]

log = logging.getLogger("surestream")


class Keeper(Protocol):
    """Who keeps processes running."""

    @property
    def name(self) -> str:
        """What is asked to stop, for the log."""
        ...

    async def run(self) -> int:
        """Until everything has ended; the exit status."""
        ...

    def stop(self) -> None:
        """The first signal: stop gracefully."""

    def end_now(self) -> None:
        """Another one: end at once."""


def run_workers(launch: Launch) -> int:
    """``surestream run --workers N``; returns the exit status."""
    return _supervise(launch, "--workers", lambda: Crew(launch, chance=random.Random()))


def run_reloading(launch: Launch, folders: Sequence[Path]) -> int:
    """``surestream run --reload``, for changes below ``folders``; returns the exit status."""

    def reloading() -> Keeper:
        refuse_without_watchfiles()
        checked = check_folders(folders)
        return Reloading(launch, checked, changed_sources(checked))

    return _supervise(launch, "--reload", reloading)


def _supervise(launch: Launch, option: str, make: Callable[[], Keeper]) -> int:
    signals = StopSignals().install()
    try:
        if os.name != "posix":
            raise UseError(f"{option} is for Linux and macOS")
        # What no process could make good is told here, and once.
        look_here_first()
        check_target(launch.target)
        check_timeout(launch.shutdown_timeout)
        keeper = make()
    except UseError as fault:
        print_fault(fault)
        return WRONG_USE
    set_up_logging(launch.log_level)
    with asyncio.Runner() as runner:
        return runner.run(_under(signals, keeper, launch.target))


async def _under(signals: StopSignals, keeper: Keeper, target: str) -> int:
    loop = asyncio.get_running_loop()
    at_once: signal.Signals | None = None

    def first() -> None:
        name = "" if signals.received is None else signals.received.name
        log.info("%s: %s, stopping %s; a second signal ends at once", target, name, keeper.name)
        keeper.stop()

    def another(number: signal.Signals) -> None:
        nonlocal at_once
        if at_once is None:
            at_once = number
            say(f"{number.name} {ENDED_AT_ONCE}")
        keeper.end_now()

    # Every process bounds its own stop; this one ends when they have.
    signals.limit = None
    signals.notify = lambda: loop.call_soon_threadsafe(first)
    signals.again = lambda number: loop.call_soon_threadsafe(another, number)
    if signals.received is not None:
        return CLEAN
    try:
        status = await keeper.run()
    finally:
        signals.notify = signals.only_keep
        signals.again = signals.ignore
    return status if at_once is None else signaled(at_once)
