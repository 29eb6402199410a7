"""What the paused clock has to know of an event loop's inside. The one place that does.

asyncio offers no public way to ask "is anything ready to run?" and "when is the next timer
due?". Every pure Python loop (``asyncio.BaseEventLoop``, since Python 3.4) keeps both in plain
attributes; a loop that does not is refused, never guessed at.
"""

from __future__ import annotations

import asyncio
import math
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias, cast

from surestream.errors import DeclarationError

__all__ = ["Events", "LoopInside", "describe"]

Events: TypeAlias = Sequence[object]
"""What a selector has to tell: for the loop alone to understand."""
Select: TypeAlias = Callable[[float | None], Events]
"""Waits for events, for so many seconds at most; ``None``: as long as it takes."""


class Selector(Protocol):
    """What a loop waits with."""

    @property
    def select(self) -> Select: ...


READY: Final = "_ready"  # handles to run, a deque
TIMERS: Final = "_scheduled"  # timer handles, a heap; now and then a new list takes its place
SELECTOR: Final = "_selector"  # asked for events in every turn; a proactor on Windows
RESOLUTION: Final = "_clock_resolution"  # a timer runs once it is due before time() + this


class LoopInside:
    """The parts of one event loop that a paused clock reads and replaces.

    Raises ``DeclarationError`` for a loop that cannot be paused: uvloop keeps its own time
    (rule 8.1).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        if (
            not isinstance(loop, BaseEventLoop)
            or not {READY, TIMERS, SELECTOR, RESOLUTION} <= vars(loop).keys()
        ):
            kind = f"{type(loop).__module__}.{type(loop).__qualname__}"
            raise DeclarationError(
                f"a paused clock on {kind}",
                why="this event loop keeps a time of its own, which nobody can stop",
                write="asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) for tests",
            )
        self.loop: Final = loop
        self._attributes = cast("dict[str, object]", vars(loop))

        self._selector = cast("dict[str, object]", vars(self._attributes[SELECTOR]))
        self._covered: object = None

    def ready(self) -> Sequence[asyncio.Handle]:
        """Callbacks that run in this turn, asked for where the loop asks its selector."""
        return cast("Sequence[asyncio.Handle]", self._attributes[READY])

    def next_timer(self) -> float:
        """When the first timer is due, by the loop's clock; infinite where there is none. Asked
        for where the loop asks its selector: it has thrown away what is cancelled."""
        timers = cast("list[asyncio.TimerHandle]", self._attributes[TIMERS])
        return timers[0].when() if timers else math.inf

    @property
    def select(self) -> Select:
        """How the loop asks its selector at present."""
        return cast(Selector, self._attributes[SELECTOR]).select

    def replace_select(self, select: Select) -> None:
        """Let the loop ask ``select`` for events."""
        self._covered = self._selector.get("select")
        self._selector["select"] = select

    def restore_select(self) -> None:
        """Back to what it asked before: in general the selector's own method."""
        if self._covered is None:
            del self._selector["select"]
        else:
            self._selector["select"] = self._covered

    @property
    def clock(self) -> Callable[[], float]:
        """What ``loop.time`` is at present."""
        return self.loop.time

    def replace_clock(self, clock: Callable[[], float]) -> None:
        """Let ``loop.time()``, and with it every timer of the loop, follow ``clock``."""
        self._attributes.pop("time", None)
        # The loop's own time is left alone rather than covered by itself.
        if clock != self.loop.time:
            self._attributes["time"] = clock

    @property
    def resolution(self) -> float:
        """Seconds by which the loop runs a timer early."""
        return cast(float, self._attributes[RESOLUTION])

    @resolution.setter
    def resolution(self, seconds: float) -> None:
        self._attributes[RESOLUTION] = seconds

    def replace_executor(self, run: Callable[..., asyncio.Future[object]]) -> None:
        """Let ``loop.run_in_executor`` be ``run``."""
        self._attributes["run_in_executor"] = run

    def restore_executor(self) -> None:
        """Back to the loop's own ``run_in_executor``."""
        self._attributes.pop("run_in_executor", None)


def describe(handle: asyncio.Handle) -> str:
    """Which task or function a callback belongs to, for messages to a person."""
    callback: object = getattr(handle, "_callback", None)
    owner: object = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return describe_task(cast("asyncio.Task[object]", owner))
    return name_of(callback)


def describe_task(task: asyncio.Task[object]) -> str:
    """A task's coroutine, and where it stands."""
    name = name_of(task.get_coro())
    for frame in task.get_stack(limit=1):
        return f"{name} at {frame.f_code.co_filename}:{frame.f_lineno}"
    return name


def name_of(thing: object) -> str:
    """The name that a function or coroutine has in its source."""
    while (inner := cast(object, getattr(thing, "func", None))) is not None:
        thing = inner
    name: object = getattr(thing, "__qualname__", None)
    return name if isinstance(name, str) else repr(thing)


def stuck_tasks(loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    """Every task that waits on ``loop``."""
    for task in asyncio.all_tasks(loop):
        yield describe_task(cast("asyncio.Task[object]", task))
