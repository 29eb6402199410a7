"""One live subscription: its workers, its read-ahead, its settlements, its claims."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import copy_context
from typing import Any

from surestream.contract import Counter, Subscription, SubscriptionTerms, Transport
from surestream.delivery import Delivery
from surestream.errors import SureStreamError
from surestream.middleware import Middleware, PublishMiddleware, around_delivery
from surestream.runtime.calls.threads import HandlerThreads
from surestream.runtime.delays import Timers
from surestream.runtime.intake import Intake
from surestream.runtime.observe import Observer
from surestream.runtime.orphans import Orphans
from surestream.runtime.publishing import in_handler
from surestream.runtime.redelivery import count_attempt, on_arrival
from surestream.runtime.settling import Settling
from surestream.runtime.successors import not_before
from surestream.runtime.terms import Mounted
from surestream.runtime.touching import Touching
from surestream.runtime.verdicts import Verdicts
from surestream.runtime.worker import Worker

__all__ = ["Consumer"]

log = logging.getLogger("surestream.dispatch")

HAND_OVER_LIMITS = {"topic": 500}
"""How many delays are handed over at a stop, by family (rule 5.8); no entry: all."""


class Consumer:
    """Runs one mounted handler. Also the ``Origin`` of its deliveries."""

    def __init__(
        self,
        mounted: Mounted,
        *,
        service: str,
        chance: random.Random,
        observer: Observer | None,
        threads: HandlerThreads,
        lease: float | None,
        middleware: Sequence[Middleware],
        publish_middleware: Sequence[PublishMiddleware],
        fatal: Callable[[BaseException], None],
    ) -> None:
        self.mounted = mounted
        self.observer = observer
        self._service = service
        self._chance = chance
        self._threads = threads
        self._fatal = fatal
        self._lease = lease
        self._middleware = (*middleware, *mounted.middleware)
        self._publish_middleware = publish_middleware
        self._tasks: list[asyncio.Task[None]] = []
        self.workers: list[Worker] = []
        self.attention = False
        """Workers must ask :meth:`next_delivery` before they take the next message."""
        self.cut_off = False
        """Handlers that still run are being cancelled: the shutdown timeout is over."""
        self._stopping = False
        self._opened = False
        self._owner = asyncio.current_task()
        self._routed: set[Delivery] = set()
        self._given_back = 0
        self._counts_by_server = mounted.abilities.counter is Counter.SERVER
        self._handles_first = not mounted.abilities.gives_back

    # -- Origin ---------------------------------------------------------------------------

    @property
    def subscription(self) -> str:
        """The subscription's name in logs."""
        return self.mounted.name

    @property
    def max_attempts(self) -> int | None:
        """The cap declared for it."""
        return self.mounted.terms.max_attempts

    def attempt(self, delivery: Delivery) -> int:
        """The number of this delivery, the first being 1."""
        return count_attempt(self.settling.counters(delivery), self.mounted.abilities.counter)

    def held(self) -> Iterator[Delivery]:
        """Every delivery that was handed out and is not settled yet."""
        if not self._opened:
            return
        yield from self.intake.queued()
        for worker in self.workers:
            if worker.running is not None:
                yield worker.running
        yield from self.settling.held()
        yield from self._later

    # -- start ----------------------------------------------------------------------------

    async def open(self, transport: Transport) -> None:
        """Create the subscription; nothing is read yet."""
        mounted = self.mounted
        terms = SubscriptionTerms(
            name=mounted.name,
            where=str(mounted.site),
            max_attempts=mounted.terms.max_attempts,
            dead_letter=mounted.terms.dead_letter,
            workers=mounted.workers,
        )
        self.live: Subscription = await transport.subscribe(mounted.source, terms, self)
        self.settling = Settling(
            mounted,
            self.live,
            transport,
            service=self._service,
            chance=self._chance,
            observer=self.observer,
            publish_middleware=self._publish_middleware,
            room_changed=self._room_changed,
            unsent=self._unsent,
        )
        self.verdicts = Verdicts(
            mounted,
            self.settling,
            observer=self.observer,
            attempt=self.attempt,
            failed=self.failed,
        )
        abilities = mounted.abilities
        guarded = abilities.counts_crashes or self._counts_by_server
        self.intake = Intake(
            self.live,
            workers=mounted.workers,
            by_key=mounted.by_key,
            cautious=guarded and mounted.terms.max_attempts == 1,
            failed=self.failed,
        )
        self._later: Timers[Delivery] = Timers(self._due)
        self.orphans = Orphans(mounted, self.live, self.call_attention)
        self.touching = Touching(
            mounted, self.live, self._lease, held=self.held, workers=self.workers
        )
        self._opened = True

    def start(self, call: Callable[[Delivery, object], Any]) -> None:
        """Begin to read and handle; ``call`` is the handler with its parameters bound."""
        loop = asyncio.get_running_loop()
        context = copy_context()
        context.run(in_handler.set, True)
        invoke: Callable[[Delivery, object], Coroutine[Any, Any, object]] = call
        if not self.mounted.call.is_async:
            invoke = functools.partial(self._in_thread, call)
        self.invoke = around_delivery(self._middleware, invoke)
        self.intake.start()
        for number in range(self.mounted.workers):
            worker = Worker(self, number)
            self.workers.append(worker)
            name = f"surestream {self.mounted.name} worker {number}"
            task = loop.create_task(worker.run(), name=name, context=context.copy())
            task.add_done_callback(self._worker_ended)
            self._tasks.append(task)
        self.orphans.start()
        self.touching.start()

    async def _in_thread(
        self, call: Callable[[Delivery, object], object], delivery: Delivery, value: object
    ) -> object:
        return await self._threads.run(call, delivery, value)

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failed(task.exception() or SureStreamError("a worker ended"))
        elif task.cancelled() and not self.cut_off:
            self.failed(SureStreamError(f"{task.get_name()} was cancelled from outside"))

    def failed(self, error: BaseException) -> None:
        """This subscription cannot go on: the service stops, loudly (rule 7.5)."""
        self._fatal(error)

    # -- for workers ----------------------------------------------------------------------

    async def next_delivery(
        self, worker: Worker, lane: int, queue: deque[Delivery]
    ) -> Delivery | None:
        """The next delivery for ``worker``, ``None`` at the stop. Waits."""
        while True:
            if self._stopping:
                return queue.popleft() if queue and self._handles_first else None
            if self._routed and queue and queue[0] in self._routed:
                return queue.popleft()
            if self.intake.paused is None and self.orphans.due_for(lane):
                orphan = await self.orphans.take()
                if orphan is not None and await self._keeps(worker, lane, orphan):
                    if not self._counts_by_server:
                        self.settling.reports.taken_over(orphan)
                    return orphan
            self._mind()
            if self._stopping:
                continue
            if queue and self.intake.paused is None:
                return queue.popleft()
            await self.intake.wait(lane)

    async def _keeps(self, worker: Worker, lane: int, orphan: Delivery) -> bool:
        """Whether ``worker`` runs it; one that belongs to another lane is sent there, so that
        messages of one key still run one after another."""
        home = self.intake.lane_of(orphan)
        if home in (None, lane):
            worker.redelivered = True
            return True
        if self.workers[home].running is None and not self.intake.lanes[home]:
            self._routed.add(orphan)
            orphan.special = True
            self.intake.put_first(orphan, home)
        else:
            await self.orphans.put_off(orphan, home)
        return False

    def _mind(self) -> None:
        self.attention = self._stopping or self.orphans.due or self.intake.paused is not None

    @property
    def ending(self) -> bool:
        """Whether a cancelled worker is meant to end: the shutdown timeout is over, or the task
        that runs the service is gone. Otherwise a handler cancelled its own task (rule 2.4)."""
        task = asyncio.current_task()
        abandoned = self._owner is None or self._owner.done()
        return self.cut_off or (abandoned and task is not None and task.cancelling() > 0)

    def call_attention(self) -> None:
        """Something changed that workers must look at."""
        self._mind()
        if self.attention:
            self.intake.wake_one()

    async def breathe(self) -> None:
        """Let the event loop turn: writes, timers, signals, other subscriptions."""
        await asyncio.sleep(0)
        await self.live.confirmed()
        await self.settling.eased()

    def redelivered_ended(self) -> None:
        """A worker is done with a delivery taken over from a dead one."""
        self.orphans.ended()

    def admit(self, worker: Worker, delivery: Delivery) -> bool:
        """Whether a special delivery goes to the handler now."""
        if delivery in self._routed:
            self._routed.remove(delivery)
            worker.redelivered = True
        fault = delivery.fault
        if fault is not None:
            self.verdicts.undecodable(delivery, fault)
            return False
        wait = not_before(delivery)
        if wait > 0:
            self._later.add(wait, delivery)
            return False
        counters = self.settling.counters(delivery)
        plan = on_arrival(self.mounted.terms, self.mounted.abilities, counters)
        if plan is None:
            return True
        self.settling.carry_out(delivery, plan, self.mounted.terms.max_attempts or 1)
        return False

    def _due(self, delivery: Delivery) -> None:
        self.intake.put([delivery])

    def _unsent(self, delivery: Delivery, error: Exception) -> None:
        self.verdicts.unsent(delivery, error)

    async def interrupted(self, delivery: Delivery) -> None:
        """A handler was cut off by the stop: its delivery goes back, no attempt spent (2.4);
        that of a thread which cannot be ended stays unsettled (7.3)."""
        if self.observer is not None:
            self.observer.returned(delivery, None, asyncio.CancelledError())
        log.warning("%s %s: cut off by the stop", self.mounted.name, delivery.id)
        if self.mounted.call.is_async:
            await self._return([delivery])

    def _room_changed(self) -> None:
        full = self.settling.holding.full
        self.intake.pause("too many messages wait for a successor" if full else None)
        self._mind()

    @property
    def trouble(self) -> str | None:
        """Why this subscription is degraded, or ``None``."""
        if not self._opened:
            return None
        if self.intake.paused is not None:
            return f"{self.mounted.name}: {self.intake.paused}"
        if self.settling.holding.refused:
            return f"{self.mounted.name}: {self.settling.holding.refused} messages are refused"
        return None

    # -- stop -----------------------------------------------------------------------------

    def halt(self) -> None:
        """Start no more messages."""
        self._stopping = self.attention = True
        self.orphans.stop()
        self.intake.wake_all()

    async def stop(self) -> None:
        """No more messages; returns when the handlers under way have ended (rule 7.3)."""
        if not self._handles_first:
            self.halt()
        await self.intake.stop()
        self.halt()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.settling.flush()

    async def cut(self) -> list[str]:
        """The time is over: cancel what still runs. Returns what was cut off."""
        self.cut_off = True
        stuck = [task for task in self._tasks if not task.done()]
        for task in stuck:
            task.cancel()
        if stuck:
            await asyncio.wait(stuck, timeout=1.0)
        return [f"{self.mounted.name} ({self.mounted.site})"] * len(stuck)

    async def finish(self) -> None:
        """After the handlers: give back what was not started, hand delays over, wait for
        settlements under way."""
        self.settling.flush()
        limit = HAND_OVER_LIMITS.get(self.mounted.source.family)
        kept = self.settling.hand_over(limit)
        late = [delivery for _, delivery in self._later.take_all()]
        await self._return([*self.intake.take_queued(), *late])
        while True:
            await self._return(kept, spent=self._counts_by_server)
            self._given_back += len(kept)
            await self.settling.finish()
            if not self.settling.timers:
                return
            # A reply that could not be sent after all has asked for a delay.
            kept = self.settling.hand_over(limit)

    async def _return(self, deliveries: list[Delivery], *, spent: bool = False) -> None:
        if not deliveries:
            return
        if self._handles_first:
            log.warning("%s: %d messages are lost", self.mounted.name, len(deliveries))
            return
        try:
            await self.live.give_back(deliveries, spent=spent)
        except SureStreamError as error:
            log.warning(
                "%s: %d messages could not be given back (%s); they are taken over from us",
                self.mounted.name,
                len(deliveries),
                error,
            )

    async def close(self) -> None:
        """Free everything, also what no stop has ended; bounded."""
        self.halt()
        await self.cut()
        await self.intake.close()
        self.touching.stop()
        given_up = await self.settling.abandon()
        if given_up:
            log.warning("%s: %d messages stay unsettled", self.mounted.name, len(given_up))
            await self._return(given_up, spent=self._counts_by_server)
        handed_over, lost = self.settling.handed_over, self.settling.lost
        if handed_over or self._given_back or lost:
            log.log(
                logging.WARNING if lost else logging.INFO,
                "%s: of the delays that waited in memory %d were handed over, %d given back, "
                "%d lost",
                self.mounted.name,
                handed_over,
                self._given_back,
                lost,
            )
        await self.live.close()
