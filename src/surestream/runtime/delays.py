"""Delays that wait in this process: a heap and one timer."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from surestream.clock import steady_time

__all__ = ["Timers"]

T = TypeVar("T")

LONGEST_SLEEP = 86_400.0
"""No loop timer is longer than a day: some loops overflow on years."""
ROUNDING = 1e-6


class Timers(Generic[T]):
    """Holds entries until they are due, then hands them to ``ring``; never early.

    ``ring`` must not raise. Memory is one small tuple an entry.
    """

    def __init__(self, ring: Callable[[T], None]) -> None:
        self._ring = ring
        self._heap: list[tuple[float, int, T]] = []
        self._sequence = 0
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._armed = 0.0

    def add(self, wait: float, entry: T) -> None:
        """Hold ``entry`` for ``wait`` seconds."""
        self._sequence += 1
        heapq.heappush(self._heap, (steady_time(self._loop) + wait, self._sequence, entry))
        self._arm()

    def take_all(self) -> list[tuple[float, T]]:
        """Stop holding: all entries with the seconds each still had to wait."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        now = steady_time(self._loop)
        waiting = [(max(due - now, 0.0), entry) for due, _, entry in sorted(self._heap)]
        self._heap.clear()
        return waiting

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[T]:
        return (entry for _, _, entry in self._heap)

    def _arm(self) -> None:
        if not self._heap:
            return
        now = steady_time(self._loop)
        at = min(self._heap[0][0], now + LONGEST_SLEEP)
        if self._handle is not None:
            if self._armed <= at:
                return
            self._handle.cancel()
        self._armed = at
        self._handle = self._loop.call_at(self._loop.time() + (at - now), self._wake)

    def _wake(self) -> None:
        self._handle = None
        latest = steady_time(self._loop) + ROUNDING
        while self._heap and self._heap[0][0] <= latest:
            self._ring(heapq.heappop(self._heap)[2])
        self._arm()
