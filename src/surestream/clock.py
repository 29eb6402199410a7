"""The one clock.

Durations come from the running event loop (``loop.time()``), so that the paused clock of
:mod:`surestream.testing` moves everything at once; dates come from :func:`wall_time`, which
follows the same paused clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

__all__ = ["follow_wall_clock", "forget_wall_clock", "steady_time", "wall_time"]

_clocks: WeakKeyDictionary[asyncio.AbstractEventLoop, Callable[[], float]] = WeakKeyDictionary()


def wall_time() -> float:
    """Seconds since the Unix epoch, by the paused clock where the running loop has one."""
    if _clocks:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return time.time()
        clock = _clocks.get(loop)
        if clock is not None:
            return clock()
    return time.time()


def steady_time(loop: asyncio.AbstractEventLoop) -> float:
    """Seconds of a steady clock at this very moment, by the paused clock where ``loop`` has one.

    ``loop.time()`` will not do where nothing may be early: uvloop looks at the clock once a turn
    and cuts it to milliseconds.
    """
    return loop.time() if loop in _clocks else time.monotonic()


def follow_wall_clock(loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
    """Make :func:`wall_time` on ``loop`` follow ``clock`` (the test room's business)."""
    _clocks[loop] = clock


def forget_wall_clock(loop: asyncio.AbstractEventLoop) -> None:
    """Undo :func:`follow_wall_clock`."""
    _clocks.pop(loop, None)
