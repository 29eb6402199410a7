"""Work that other threads do for the loop: a paused clock waits for it, really."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Any, Protocol, cast

from surestream.testing.loop import LoopInside, name_of

__all__ = ["Busy", "ExecutorJobs"]


class Busy(Protocol):
    """Somebody who knows of threads under way."""

    @property
    def under_way(self) -> int:
        """How many threads work for the loop now. Counted down in the loop, once what the
        thread brought back has arrived there."""
        ...

    def names(self) -> Iterable[str]:
        """What they run, for messages to a person."""
        ...


class ExecutorJobs:
    """What was given to ``loop.run_in_executor``, and so to ``asyncio.to_thread``."""

    def __init__(self, inside: LoopInside) -> None:
        self._inside = inside
        self._original: Callable[..., asyncio.Future[object]] = inside.loop.run_in_executor
        self._jobs: dict[asyncio.Future[object], Callable[..., object]] = {}

    def watch(self) -> None:
        """Begin to count."""
        self._inside.replace_executor(self._run)

    def forget(self) -> None:
        """Count no more."""
        self._inside.restore_executor()
        self._jobs.clear()

    @property
    def under_way(self) -> int:
        return len(self._jobs)

    def names(self) -> Iterable[str]:
        return [name_of(_inner(job)) for job in self._jobs.values()]

    def _run(
        self, executor: Any, func: Callable[..., object], *args: object
    ) -> asyncio.Future[object]:
        future = self._original(executor, func, *args)
        self._jobs[future] = func
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: asyncio.Future[object]) -> None:
        self._jobs.pop(future, None)


def _inner(job: object) -> object:
    """The function itself; ``asyncio.to_thread`` wraps it to run in a context."""
    if not isinstance(job, functools.partial):
        return job
    partial = cast("functools.partial[object]", job)
    owner: object = getattr(partial.func, "__self__", None)
    return partial.args[0] if isinstance(owner, Context) and partial.args else partial.func
