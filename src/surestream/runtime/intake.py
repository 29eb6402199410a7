"""Read-ahead: takes messages from a subscription into lanes the workers draw from."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from surestream.contract import Subscription
from surestream.delivery import Delivery
from surestream.errors import SureStreamError
from surestream.runtime.terms import ByKey

__all__ = ["Intake"]

log = logging.getLogger("surestream.dispatch")

READ = 128
"""How many messages one read asks for at most."""
READ_BYTES = 4 * 1024 * 1024
"""About how many bytes one read should bring; large messages are read fewer at a time."""


class Intake:
    """The feeder of one subscription and the workers that wait for it.

    At most two reads are in memory: the one being handled and the next (so memory does not
    depend on the backlog). ``cautious``: nothing is read ahead, a read asks for no more than
    there are waiting workers (rule 3.6).
    """

    def __init__(
        self,
        subscription: Subscription,
        *,
        workers: int,
        by_key: ByKey | None,
        cautious: bool,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._subscription = subscription
        self._workers = workers
        self._by_key = by_key
        self._cautious = cautious
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._limit = READ
        self._hungry: asyncio.Future[None] | None = None
        self._next_lane = 0
        self._pause_reason: str | None = None
        lanes = workers if by_key is not None else 1
        self.lanes: list[deque[Delivery]] = [deque() for _ in range(lanes)]
        self._waiters: dict[int, deque[asyncio.Future[None]]] = {
            lane: deque() for lane in range(lanes)
        }
        self.stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._task = self._loop.create_task(self._feed())

    def lane(self, worker: int) -> int:
        """The lane that worker number ``worker`` draws from."""
        return worker if self._by_key is not None else 0

    # -- for workers ----------------------------------------------------------------------

    async def wait(self, lane: int) -> None:
        """Wait until the lane may have something, or :meth:`wake_all`."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters[lane].append(waiter)
        self.check_hunger()
        try:
            await waiter
        finally:
            if waiter in self._waiters[lane]:
                self._waiters[lane].remove(waiter)

    def wake_all(self) -> None:
        """Let every waiting worker look again."""
        for lane, waiters in self._waiters.items():
            self._wake(lane, len(waiters))

    def wake_one(self) -> None:
        """Let one waiting worker of each lane look again."""
        for lane in self._waiters:
            self._wake(lane, 1)

    def check_hunger(self) -> None:
        """Let the feeder read again if there is room (called when workers took something)."""
        if self._hungry is not None and not self._hungry.done() and self._room() > 0:
            self._hungry.set_result(None)

    @property
    def waiting(self) -> int:
        """How many workers wait for a message."""
        return sum(len(waiters) for waiters in self._waiters.values())

    def queued(self) -> Iterator[Delivery]:
        """What was read and not started."""
        for lane in self.lanes:
            yield from lane

    # -- the feeder -----------------------------------------------------------------------

    def pause(self, reason: str | None) -> None:
        """Stop asking for more (with a reason), or go on (with ``None``)."""
        self._pause_reason = reason
        if reason is None:
            self.check_hunger()
            self.wake_all()

    @property
    def paused(self) -> str | None:
        """Why intake pauses, if it does."""
        return self._pause_reason

    def _room(self) -> int:
        if self._pause_reason is not None:
            return 0
        if self._cautious:
            return self._free()
        return self._limit if sum(map(len, self.lanes)) <= self._limit else 0

    def _free(self) -> int:
        """How many messages could be started now, whichever they are."""
        free = max(self.waiting - sum(map(len, self.lanes)), 0)
        if self._by_key is None:
            return free
        # Any message may belong to a lane that is at work: only one is sure to start.
        return 1 if free == len(self.lanes) else 0

    async def _feed(self) -> None:
        try:
            while not self.stopping:
                limit = self._room()
                if limit <= 0:
                    self._hungry = self._loop.create_future()
                    await self._hungry
                    self._hungry = None
                    continue
                batch = await self._subscription.pull(limit)
                if self._cautious:
                    batch = await self._startable(batch)
                if batch:
                    self._adapt(batch)
                    self.put(batch)
                del batch  # while it waits for the next, it keeps none alive
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failed(error)

    async def _startable(self, batch: Sequence[Delivery]) -> Sequence[Delivery]:
        """Without what came for workers that have taken over something else meanwhile."""
        free = self._free()
        surplus = batch[free:]
        if surplus:
            try:
                await self._subscription.give_back(surplus, spent=False)
            except SureStreamError as error:
                log.warning("%d messages could not be given back: %s", len(surplus), error)
        return batch[:free]

    def put(self, batch: Sequence[Delivery]) -> None:
        """Hand messages to the workers."""
        if self._by_key is None:
            self.lanes[0].extend(batch)
            self._wake(0, len(batch))
            return
        for delivery in batch:
            lane = self.lane_of(delivery)
            if lane is None:
                lane = self._next_lane = (self._next_lane + 1) % len(self.lanes)
            self.lanes[lane].append(delivery)
            self._wake(lane, 1)

    def put_first(self, delivery: Delivery, lane: int) -> None:
        """Hand one message to the worker of ``lane``, before all others."""
        self.lanes[lane].appendleft(delivery)
        self._wake(lane, 1)

    def lane_of(self, delivery: Delivery) -> int | None:
        """The lane a message belongs to; ``None`` where any worker may have it."""
        by_key = self._by_key
        if by_key is None:
            return None
        key: object
        if isinstance(by_key, str):
            key = delivery.headers.raw(by_key)
        else:
            try:
                key = by_key(delivery)
            except Exception:
                log.exception("by_key raised for %r: it goes to any lane", delivery)
                key = None
        if key is None:
            return None
        text = key if isinstance(key, bytes) else str(key).encode("utf-8", "surrogatepass")
        return zlib.crc32(text) % len(self.lanes)

    def _adapt(self, batch: Sequence[Delivery]) -> None:
        size = sum(len(delivery.payload) for delivery in batch) / len(batch)
        self._limit = max(1, min(READ, int(READ_BYTES / max(size, 1))))

    def _wake(self, lane: int, count: int) -> None:
        waiters = self._waiters[lane]
        while count > 0 and waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    async def stop(self) -> None:
        """Read no more. What is queued stays queued; workers wake and look."""
        self.stopping = True
        self.wake_all()
        if self._task is None:
            return
        try:
            await self._subscription.stop_pulling()
            if self._hungry is not None and not self._hungry.done():
                self._hungry.set_result(None)
            await asyncio.wait([self._task], timeout=5.0)
        except SureStreamError as error:
            log.warning("the subscription could not be told to stop: %s", error)
        finally:
            await self.close()

    async def close(self) -> None:
        """End the reading, whatever it waits for."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def take_queued(self) -> list[Delivery]:
        """Everything read and not started, no longer queued."""
        queued = list(self.queued())
        for lane in self.lanes:
            lane.clear()
        return queued
