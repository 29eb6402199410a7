"""Carries out what the redelivery rules decide: settle, copy, park, dead-letter (section 5)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from surestream.contract import Stored, Subscription, Transport
from surestream.delivery import Delivery
from surestream.middleware import PublishMiddleware
from surestream.outcome import Backoff, Kind, Outcome
from surestream.runtime.delays import Timers
from surestream.runtime.holding import Holding
from surestream.runtime.observe import Observer
from surestream.runtime.redelivery import (
    Acknowledge,
    Copy,
    Counters,
    DeadLetter,
    Discard,
    GiveBack,
    Leave,
    Park,
    Plan,
    count_attempt,
    decide,
)
from surestream.runtime.reports import Reports
from surestream.runtime.storing import Storing, UnsentError, Waiting, is_final, is_known
from surestream.runtime.successors import read_counters
from surestream.runtime.terms import Mounted

__all__ = ["Settling"]

log = logging.getLogger("surestream.dispatch")

FLUSH_AT = 64
BUSY = 64
CROWDED = 256
EASED_BELOW = 128
STORE_AGAIN = Backoff(first=0.1, factor=2, limit=5, jitter=0.2)
REFUSED_AGAIN = 60.0


class Settling:
    """Settles the deliveries of one subscription.

    :attr:`done` collects acknowledgements; whoever appends sees to it that :meth:`flush` runs
    (rule 7.6). Everything else happens in the background: the worker is free meanwhile.
    """

    def __init__(
        self,
        mounted: Mounted,
        subscription: Subscription,
        transport: Transport,
        *,
        service: str,
        chance: random.Random,
        observer: Observer | None,
        publish_middleware: Sequence[PublishMiddleware],
        room_changed: Callable[[], None],
        unsent: Callable[[Delivery, Exception], None],
    ) -> None:
        self._mounted = mounted
        self._subscription = subscription
        self.reports = Reports(mounted.name, mounted.terms.max_attempts)
        self._store = Storing(
            mounted,
            subscription,
            transport,
            service,
            observer,
            self.reports,
            publish_middleware,
        )
        self._unsent = unsent
        self._chance = chance
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], Waiting] = {}
        self._flush_due = False
        self._eased = asyncio.Event()
        self.handed_over = 0
        """How many delays were handed over at the stop (rule 5.8)."""
        self.lost = 0
        """How many could not be, their original being settled."""
        self.storing = 0
        """How many successors are being stored at this moment."""
        self.done: list[Delivery] = []
        self.holding = Holding(mounted.max_unsettled, room_changed)
        self.timers: Timers[Waiting] = Timers(self._start)
        self.left: dict[Delivery, None] = {}
        """Deliveries left unacknowledged until the next session."""

    # -- acknowledgements -----------------------------------------------------------------

    def flush(self) -> None:
        """Write the acknowledgements collected so far."""
        if self.done:
            done, self.done = self.done, []
            self._subscription.acknowledge(done)
            if self.reports.debug:
                self.reports.done(done)
            if self._observer is not None:
                for delivery in done:
                    self._observer.settled(delivery, Acknowledge(), None)

    def flush_soon(self) -> None:
        """Write them in the next turn of the loop, together with what comes until then."""
        if not self._flush_due and self.done:
            self._flush_due = True
            self._loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_due = False
        self.flush()

    # -- plans ----------------------------------------------------------------------------

    def counters(self, delivery: Delivery) -> Counters:
        """What is known about how often ``delivery`` was tried."""
        return read_counters(delivery, delivery.address)

    def settle(
        self, delivery: Delivery, outcome: Outcome, error: BaseException | None = None
    ) -> None:
        """Decide by the rules and carry it out."""
        if outcome.kind is Kind.ACK:
            self._acknowledge(delivery)
            return
        abilities = self._mounted.abilities
        counters = self.counters(delivery)
        attempt = count_attempt(counters, abilities.counter)
        delay = outcome.delay
        if outcome.backoff is not None:
            delay = outcome.backoff.delay(attempt, self._chance)
        if delay > abilities.max_delay:
            self.reports.warn(
                "a delay of %.3g s is cut to the %.3g s that are possible",
                delay,
                abilities.max_delay,
            )
        plan = decide(outcome.kind, delay, self._mounted.terms, abilities, counters)
        self.carry_out(delivery, plan, attempt, error)

    def carry_out(
        self, delivery: Delivery, plan: Plan, attempt: int, error: BaseException | None = None
    ) -> None:
        """Do what ``plan`` says; returns at once. Acknowledgements collected before go first."""
        self.flush()
        after = 0.0
        if isinstance(plan, GiveBack | Copy | Park | DeadLetter):
            after = plan.after
        self.reports.planned(delivery, attempt, plan, after, self._mounted.terms.dead_letter)
        if self._observer is not None:
            self._observer.planned(delivery, plan, after)
        match plan:
            case Acknowledge() | Discard():
                self._acknowledge(delivery, plan)
            case Leave():
                self.left[delivery] = None
            case Copy() | DeadLetter() if after > 0:
                if isinstance(plan, Copy) and plan.settle_first:
                    self._acknowledge(delivery, plan)
                self.timers.add(after, Waiting(delivery, plan, error))
            case _:
                if isinstance(plan, Copy) and plan.settle_first:
                    self._acknowledge(delivery, plan)
                self._start(Waiting(delivery, plan, error))

    def _acknowledge(self, delivery: Delivery, plan: Plan | None = None) -> None:
        if self._mounted.abilities.settles:
            self._subscription.acknowledge((delivery,))
        if self._observer is not None:
            self._observer.settled(delivery, plan or Acknowledge(), None)

    # -- successors -----------------------------------------------------------------------

    def _start(self, waiting: Waiting) -> None:
        self._track(waiting, self._until_stored(waiting))

    def _track(self, waiting: Waiting, work: Coroutine[Any, Any, None]) -> None:
        self.holding.add(waiting.delivery)
        task = self._loop.create_task(work)
        self._tasks[task] = waiting
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        waiting = self._tasks.pop(task)
        self.holding.remove(waiting.delivery)
        if not task.cancelled() and task.exception() is not None:
            log.error("settling %r failed", waiting.delivery, exc_info=task.exception())
        if waiting.failure is not None:
            self._unsent(waiting.delivery, waiting.failure)

    async def _until_stored(self, waiting: Waiting) -> None:
        tries = 0
        refused = False
        stored: Stored | None = None
        while True:
            self.storing += 1
            try:
                stored = await self._store.store(waiting)
            except UnsentError as error:
                waiting.failure = error.cause
                break
            except Exception as error:
                final = is_final(error)
                if final and self._store.otherwise(waiting, error):
                    continue
                if not is_known(error):
                    log.exception("storing a successor of %r failed", waiting.delivery)
                tries += 1
                wait = REFUSED_AGAIN if final else STORE_AGAIN.delay(tries, self._chance)
                if not refused:
                    self.reports.held(waiting.delivery, error, wait)
                if final and not refused:
                    refused = True
                    self.holding.refused += 1
                if self._observer is not None:
                    self._observer.held(waiting.delivery, error)
            else:
                break
            finally:
                self._one_less()
            await asyncio.sleep(wait)
        if refused:
            self.holding.refused -= 1
        if stored is None:
            return
        if stored is Stored.UNHEARD:
            self.reports.unheard(waiting.delivery, waiting.address)
        if self._observer is not None:
            self._observer.settled(waiting.delivery, waiting.plan, stored)

    def _one_less(self) -> None:
        self.storing -= 1
        if self.storing < EASED_BELOW:
            self._eased.set()

    async def eased(self) -> None:
        """Wait until few enough successors are being stored (bounded memory)."""
        while self.storing >= CROWDED:
            self._eased.clear()
            await self._eased.wait()

    # -- the end --------------------------------------------------------------------------

    def held(self) -> Iterator[Delivery]:
        """Everything unsettled that no worker has: due later, under way, or left."""
        yield from self.done
        yield from self.holding
        for waiting in self.timers:
            if not waiting.settled_first:
                yield waiting.delivery
        yield from self.left

    def hand_over(self, limit: int | None) -> list[Delivery]:
        """At a graceful stop: publish what waits in memory, with its due time (rule 5.8).

        Returns what is to be given back instead; :attr:`handed_over` and :attr:`lost` count.
        """
        started = 0
        kept: list[Delivery] = []
        for wait, entry in self.timers.take_all():
            copy = isinstance(entry.plan, Copy) and self._mounted.hand_over
            if copy and (limit is None or started < limit):
                started += 1
                self._track(entry, self._until_handed_over(entry, wait))
            elif entry.settled_first:
                self.lost += 1
            else:
                kept.append(entry.delivery)
        return kept

    async def _until_handed_over(self, entry: Waiting, wait: float) -> None:
        tries = 0
        while True:
            try:
                stored = await self._store.hand_over(entry, wait)
            except Exception as error:
                if is_final(error) and self._store.otherwise(entry, error):
                    return await self._until_stored(entry)
                if not is_known(error):
                    log.exception("handing over %r failed", entry.delivery)
                tries += 1
                pause = STORE_AGAIN.delay(tries, self._chance)
                self.reports.held(entry.delivery, error, pause)
                await asyncio.sleep(pause)
            else:
                break
        if stored is Stored.UNHEARD and entry.settled_first:
            self.lost += 1
        else:
            self.handed_over += 1

    async def finish(self) -> None:
        """Wait until nothing is under way any more; cancel it to give up."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def abandon(self) -> list[Delivery]:
        """Stop trying; returns the deliveries that stay unsettled."""
        given_up = dict(self._tasks)
        for task in given_up:
            task.cancel()
        if given_up:
            await asyncio.wait(given_up)
        unsettled = [one.delivery for one in given_up.values() if not one.settled_first]
        self.lost += len(given_up) - len(unsettled)
        return unsettled
