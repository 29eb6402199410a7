"""``--reload``: one process, started anew when the user's files change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final

from surestream.cli.launch import Launch
from surestream.cli.processes import ServiceProcess, Spawn, spawn
from surestream.cli.statuses import CLEAN, FAILED
from surestream.cli.text import joined

__all__ = ["Reloading"]

log = logging.getLogger("surestream")

MANY: Final = 3
FROM_TERMINAL: Final = partial(spawn, terminal=True)


class Reloading:
    """For a person at work on the service.

    At a change the old process is stopped gracefully, and then a new one started. One that ends
    by itself, such as one whose files are broken, waits for the next change.
    """

    name = "the service"

    def __init__(
        self,
        launch: Launch,
        folders: Sequence[Path],
        changes: AsyncGenerator[list[str], None],
        *,
        spawn: Spawn = FROM_TERMINAL,
    ) -> None:
        self._launch = launch
        self._folders = folders
        self._changes = changes
        self._spawn = spawn
        self._changed: set[str] = set()
        self._news = asyncio.Event()
        self._stopping = False
        self._process: ServiceProcess | None = None

    async def run(self) -> int:
        """Until it is told to stop; the exit status of the last process."""
        watching = asyncio.create_task(self._watch())
        try:
            status = CLEAN
            while not self._stopping:
                status = await self._live(watching)
                if watching.done() and not self._stopping:
                    log.critical("cannot watch for changes: %r", watching.exception())
                    return FAILED
                if not self._stopping:
                    log.info("starting the service anew")
            return status
        except OSError as error:
            log.critical("cannot start a process: %s", error)
            return FAILED
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    def stop(self) -> None:
        """Stop gracefully."""
        self._stopping = True
        self._news.set()

    def end_now(self) -> None:
        """End at once."""
        if self._process is not None:
            self._process.end_now()

    async def _watch(self) -> None:
        try:
            async with aclosing(self._changes) as changes:
                log.info("starts anew when a Python file changes below %s", self._below())
                async for names in changes:
                    self._changed.update(names)
                    self._news.set()
        finally:
            self._news.set()

    async def _live(self, watching: asyncio.Task[None]) -> int:
        """One process, from its start to the moment for the next one; how it ended."""
        self._forget()
        process = self._process = await self._spawn(self._launch)
        ending = asyncio.ensure_future(process.ended())
        news = asyncio.ensure_future(self._news.wait())
        await asyncio.wait({ending, news}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            if self._changed and not self._stopping:
                log.info("%s changed: stopping the service", self._what())
            process.ask_to_stop()
            status = await ending
        else:
            status = ending.result()
            if not self._stopping and not self._changed and not watching.done():
                log.warning("the service ended with status %s: waiting for a change", status)
            await news
        self._process = None
        return status

    def _forget(self) -> None:
        self._changed.clear()
        if not self._stopping:
            self._news.clear()

    def _what(self) -> str:
        names = sorted(self._changed)
        if len(names) > MANY:
            return f"{', '.join(names[:MANY])} and {len(names) - MANY} more files"
        return joined(names, "and")

    def _below(self) -> str:
        return joined([str(folder) for folder in self._folders], "and")
