"""Taking over what dead workers left behind and what is claimed again, without harm to innocents
(rules 3.6, 6.3, 6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from surestream.contract import Counter, Subscription
from surestream.delivery import Delivery
from surestream.errors import SureStreamError
from surestream.runtime.reports import Limited
from surestream.runtime.terms import Mounted

__all__ = ["Orphans"]

LOOK_AGAIN = 5.0
"""Seconds to the next look where the transport names none, and the longest after failed ones."""
LOOK_AFTER_FAILURE = 1.0
"""Seconds to the next look after a failed one; doubled with each further one."""
LOOK_ON = 0.05
"""Seconds to the next look where there is more, but nothing that could be taken."""


class Orphans:
    """Decides when a free worker may take over one delivery.

    Taking raises the server's count, so nothing is taken that cannot run at once. A delivery
    that the next crash would bury runs with no other redelivered one beside it: the one that
    kills the process must not take an innocent with it. A worker that has run one takes a new
    message next, if there is any: however much there is to take over, it is half at most (6.3).
    """

    def __init__(
        self, mounted: Mounted, live: Subscription, call_attention: Callable[[], None]
    ) -> None:
        self._name = mounted.name
        self._call_attention = call_attention
        self._live = live
        self._recovers = mounted.abilities.recovers
        self._by_server = mounted.abilities.counter is Counter.SERVER
        guarded = mounted.abilities.counts_crashes or self._by_server
        self._last_chance = mounted.terms.max_attempts if guarded else None
        self._failures = 0
        self._new_first: set[asyncio.Task[Any] | None] = set()
        self._running = 0
        self._alone = False
        self._alone_wanted = False
        self._lane: int | None = None
        self._taking = False
        self._due = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._report = Limited()

    def start(self) -> None:
        """Look for the first time."""
        if self._recovers:
            self._ring()

    def stop(self) -> None:
        """Take nothing over any more."""
        self._stopped = True
        self._due = False
        if self._timer is not None:
            self._timer.cancel()

    @property
    def due(self) -> bool:
        """Whether a free worker should look whether it may :meth:`take` one."""
        if not self._due or self._taking or self._alone:
            return False
        return not (self._alone_wanted and self._running)

    def due_for(self, lane: int) -> bool:
        """Whether a free worker of ``lane`` should call :meth:`take`."""
        return self.due and self._lane in (None, lane)

    def _ring(self) -> None:
        self._timer = None
        if not self._stopped:
            self._due = True
            self._call_attention()

    def _again(self, wait: float) -> None:
        self._due = False
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(wait, self._ring)

    async def take(self) -> Delivery | None:
        """Take one delivery over for the worker that calls; ``None`` where there is none that could
        run now, or where it is the turn of a new message."""
        worker = asyncio.current_task()
        if worker in self._new_first:
            self._new_first.discard(worker)
            # Without a new message it waits, and is woken.
            asyncio.get_running_loop().call_soon(self._call_attention)
            return None
        self._taking = True
        self._lane = None
        try:
            found = await self._live.recover(1)
        except SureStreamError as error:
            self._report(30, "%s: cannot look for orphans: %s", self._name, error)
            self._again(min(LOOK_AFTER_FAILURE * 2 ** min(self._failures, 8), LOOK_AGAIN))
            self._failures += 1
            return None
        finally:
            self._taking = False
        self._failures = 0
        if not found.deliveries:
            self._alone_wanted = False
            if found.more:
                self._again(LOOK_ON)
            else:
                self._again(LOOK_AGAIN if found.next_in is None else found.next_in)
            return None
        delivery = found.deliveries[0]
        dangerous = self._is_last_chance(delivery)
        if self._stopped or (dangerous and self._running > 0):
            self._alone_wanted = True
            await self._give_back(delivery)
            return None
        self._alone_wanted = False
        self._alone = dangerous
        self._running += 1
        self._new_first.add(worker)
        if not self._alone:
            self._call_attention()
        return delivery

    def _is_last_chance(self, delivery: Delivery) -> bool:
        """Whether the next crash would bury it (rule 3.5)."""
        if self._last_chance is None:
            return False
        count = delivery.attempt if self._by_server else delivery.server_count
        return count >= self._last_chance

    async def _give_back(self, delivery: Delivery) -> None:
        try:
            await self._live.give_back([delivery], spent=False)
        except SureStreamError as error:
            # It stays pending for us, untouched, and comes up again after its lease.
            self._report(30, "%s: cannot give back: %s", self._name, error)

    async def put_off(self, delivery: Delivery, lane: int) -> None:
        """Go back with one whose lane is at work: the worker of that lane takes the next."""
        self._running -= 1
        self._alone = False
        self._lane = lane
        await self._give_back(delivery)

    def ended(self) -> None:
        """A worker is done with what it took over."""
        self._running -= 1
        self._alone = False
        self._call_attention()
