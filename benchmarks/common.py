"""What every contender shares: the message, the job it is given, and the clock that measures it."""

from __future__ import annotations

import asyncio
import importlib
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

import msgspec

from benchmarks.wire import Wire

FIRST_ID = 1_000_000
"""Ids start high so that every payload has the same length."""

READ_COUNT = 100
"""Entries asked for in one read, by every contender that lets one say so."""

BLOCK_MS = 2_000
"""Longest wait of one blocking read, in milliseconds."""

WORKERS = 8
"""Handlers at a time, on the path where they suspend."""

COUNT_FIELD = b"h:x-ruststream-retry-count"
"""The field of a copy that tells how often it was tried."""

HEADERS = {
    "content-type": "application/json",
    "x-tenant": "shop-17",
    "x-trace": "4bf92f3577b34da6a3ce929d0e0e4736",
}


class Order(msgspec.Struct):
    """The typed object of all comparisons: 7 fields, about 120 bytes of JSON."""

    id: int
    customer: str
    sku: str
    quantity: int
    price_cents: int
    currency: str
    express: bool


def order(number: int) -> Order:
    """The `number`th order, counted from 0."""
    return Order(FIRST_ID + number, "customer-4821", "SKU-88231-B", 3, 129900, "EUR", True)


def sum_of_ids(entries: int) -> int:
    """What the ids of the first `entries` orders add up to."""
    return entries * FIRST_ID + entries * (entries - 1) // 2


@dataclass(frozen=True)
class Job:
    """One run of one contender, in a child process of its own."""

    target: str
    """`module:function` that does the work."""

    host: str
    port: int
    stream: str
    group: str
    entries: int
    concurrent: int = 1
    """Publishes in flight at once."""

    loop: str = "uvloop"
    marks: tuple[int, ...] = ()
    """Counts of handled entries at which the resident memory is noted."""

    idle_seconds: float = 0.0
    """Above 0: stay connected to an empty stream for so long before the entries come."""

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"


@dataclass
class Measurement:
    """What one run showed. Seconds are wall time, memory is in megabytes (10⁶ bytes)."""

    seconds: float
    cpu_seconds: float
    rss_mb: float
    handled: int
    ids: int
    failed: int = 0
    """First attempts that asked for another, on the path of retries."""

    idle_cpu: float = 0.0
    """CPU seconds per wall second while nothing came."""

    rss_at: dict[int, float] = field(default_factory=dict[int, float])


def cpu_seconds() -> float:
    """CPU time of this process so far, all threads, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def rss_mb(*, peak: bool) -> float:
    """Resident memory of this process, now or at its highest.

    Linux keeps `ru_maxrss` of the parent across a fork, so its own file is read where it exists.
    """
    status = Path("/proc/self/status")
    if status.exists():
        label = "VmHWM:" if peak else "VmRSS:"
        for line in status.read_text().splitlines():
            if line.startswith(label):
                return int(line.split()[1]) * 1024 / 1e6
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest / 1e6 if sys.platform == "darwin" else highest * 1024 / 1e6


class Stopwatch:
    """Wall and CPU time between `start` and `stop`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    def start(self) -> None:
        self._cpu = cpu_seconds()
        self._wall = time.perf_counter()

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self._wall
        self.cpu_seconds = cpu_seconds() - self._cpu


class Identified(Protocol):
    @property
    def id(self) -> int: ...


class Tally:
    """Counts the orders that reach a handler; times from the first one to the last acknowledged.

    `wire` is what the server is asked over; without one there is no server.
    """

    def __init__(self, job: Job, wire: Wire | None) -> None:
        self.job = job
        self.order_type: type[Identified] = Order
        self.handled = 0
        self.failed = 0
        self.ids = 0
        self.rss_at: dict[int, float] = {}
        self.watch = Stopwatch()
        self._begun = False
        self._wire = wire
        self._all_handled = asyncio.Event()
        self._marks = sorted({1, *job.marks, job.entries}, reverse=True)
        self._next_mark = self._marks.pop()

    def begin(self) -> None:
        """Starts the clock, where that is before the first call of a handler."""
        if not self._begun:
            self._begun = True
            self.watch.start()

    def fail(self) -> None:
        """Called by a handler instead of `count` when it asks for another attempt."""
        if not self.failed:
            self.begin()
        self.failed += 1

    def count(self, received: Identified) -> None:
        """Called by every handler, once a message, with what it was given."""
        if type(received) is not self.order_type:
            raise TypeError(f"the handler got {type(received)}, not {self.order_type}")
        self.ids += received.id
        self.handled += 1
        if self.handled == self._next_mark:
            self._passed_mark()

    def _passed_mark(self) -> None:
        if self.handled == 1:
            self.begin()
        if self.handled in self.job.marks:
            self.rss_at[self.handled] = rss_mb(peak=False)
        if self.handled == self.job.entries:
            self._all_handled.set()
        self._next_mark = self._marks.pop() if self._marks else -1

    async def settled(self) -> None:
        """Returns when every entry is handled and acknowledged, and stops the clock.

        Asks the server over a connection of its own; the question blocks the loop for the
        tenth of a millisecond it takes, alike for everyone.
        """
        await self._all_handled.wait()
        if self._wire is None:
            self.watch.stop()
            return
        # No event tells when the server has everything: it must be asked.
        while self._wire.pending(self.job.stream, self.job.group):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        self.watch.stop()


async def publish_all(job: Job, send: Callable[[Order], Awaitable[object]]) -> None:
    """Sends the job's orders, `job.concurrent` at a time, each awaited."""
    orders = (order(number) for number in range(job.entries))
    if job.concurrent == 1:
        await _send_each(orders, send)
    else:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(job.concurrent):
                tasks.create_task(_send_each(orders, send))


async def _send_each(orders: Iterator[Order], send: Callable[[Order], Awaitable[object]]) -> None:
    for each in orders:
        await send(each)


Consumer = Callable[[Job, Tally], Awaitable[None]]
Publisher = Callable[[Job, Stopwatch], Awaitable[None]]


def load(target: str) -> Callable[..., object]:
    """The function behind `module:function`."""
    module, _, name = target.partition(":")
    return cast("Callable[..., object]", getattr(importlib.import_module(module), name))
