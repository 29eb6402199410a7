"""When a subscription looks into the pending list, and for what."""

from __future__ import annotations

import asyncio
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeAlias

from surestream.redis.pending import PAGE, PendingList
from surestream.redis.scripted import PendingRow
from surestream.redis.seat import FIRST_ID, WAITING

__all__ = ["Candidate", "ClaimingLook", "Free", "Look", "OrphanLook"]

Candidate: TypeAlias = tuple[bytes, int]
"""Id of an entry that may be taken over, and its delivery count before that."""
Free: TypeAlias = Callable[[list[PendingRow]], list[PendingRow]]
"""Of these rows, those that are not in hand here."""

LONGEST_WAIT: Final = 5.0
QUIET: Final = 1.0
"""Seconds between two looks for as long as nothing happens, also where ``min_idle`` is shorter."""
SHORTEST: Final = 0.05
STIRRED_FOR: Final = 2.0
"""Seconds for which a subscription that was given something counts as busy."""
WIDE: Final = 1_000
"""How many rows one look for deadlines reads."""
A_GUESS: Final = 0.1
"""The shortest wait for an entry that somebody seems to be working on, and will renew."""


class Look(ABC):
    """Finds the entries that nobody has touched for long enough."""

    def __init__(self, pending: PendingList, chance: random.Random) -> None:
        self._pending = pending
        self._chance = chance

    @property
    @abstractmethod
    def idle_ms(self) -> int | None:
        """Milliseconds that make an entry anybody's; ``None``: nothing is taken over."""

    @abstractmethod
    async def candidates(self, free: Free) -> list[Candidate]:
        """About a page of entries to take over, the oldest first."""

    @abstractmethod
    def wait(self) -> float | None:
        """Seconds until the next look is due, as the last one found."""

    def stirred(self) -> None:
        """Something was handed to this subscription."""

    async def _idle_for(self, idle_ms: int, free: Free, after: bytes) -> list[Candidate]:
        # All pages: what is in hand here, and too old, must not hide what is behind it.
        found: list[Candidate] = []
        async for rows in self._pending.pages(after, idle_ms=idle_ms):
            found += [(entry, count) for entry, _, _, count in free(rows)]
            if len(found) >= PAGE:
                break
        return found

    def _spread(self, wait: float) -> float:
        # In whole milliseconds, as the server's: looks then meet its deadlines exactly.
        return max(0.001, round(wait * (1 - self._chance.random() / 5), 3))


class OrphanLook(Look):
    """For what dead workers left behind (rule 6.4). ``lease`` gives the seconds after which an
    entry is an orphan."""

    def __init__(
        self, pending: PendingList, chance: random.Random, lease: Callable[[], float | None]
    ) -> None:
        super().__init__(pending, chance)
        self._lease = lease

    @property
    def idle_ms(self) -> int | None:
        lease = self._lease()
        return None if lease is None else _milliseconds(lease)

    async def candidates(self, free: Free) -> list[Candidate]:
        idle = self.idle_ms
        return [] if idle is None else await self._idle_for(idle, free, FIRST_ID)

    def wait(self) -> float | None:
        lease = self._lease()
        return None if lease is None else self._spread(min(lease / 3, LONGEST_WAIT))


class ClaimingLook(Look):
    """For what is claimed after ``min_idle`` seconds (rules 6.2 and 6.3), on time: a look also
    learns when the next one will be due.

    Nothing that is delivered after a look can be due sooner than ``min_idle`` after it, so the next
    look is never later than that, save where nothing has happened for a while.
    """

    def __init__(self, pending: PendingList, chance: random.Random, min_idle: float) -> None:
        super().__init__(pending, chance)
        self._min_idle = min_idle
        self._idle_ms = _milliseconds(min_idle)
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time()
        self._stirred_at = -math.inf

    @property
    def idle_ms(self) -> int:
        return self._idle_ms

    def wait(self) -> float:
        return max(0.001, self._next - self._loop.time())

    def stirred(self) -> None:
        self._stirred_at = self._loop.time()

    async def candidates(self, free: Free) -> list[Candidate]:
        horizon = round(min(max(self._min_idle, QUIET), LONGEST_WAIT) * 1000)
        rows = await self._pending.page(idle_ms=max(0, self._idle_ms - horizon), size=WIDE)
        now = self._loop.time()
        busy = bool(rows) or now - self._stirred_at < STIRRED_FOR
        quiet = max(self._min_idle, SHORTEST if busy else QUIET)
        self._next = now + self._spread(min(quiet, LONGEST_WAIT))
        found: list[Candidate] = []
        for entry, consumer, idle, count in free(rows):
            left = self._idle_ms - idle
            if left <= 0:
                found.append((entry, count))
            # One that is due in this very millisecond may have to wait for the next.
            if left >= 0:
                wait = max(left, 1) / 1000
                self._next = min(
                    self._next, now + (wait if consumer == WAITING else max(wait, A_GUESS))
                )
        if len(rows) == WIDE and len(found) < PAGE:
            # Whatever else is due; the deadlines behind are for later looks.
            found += await self._idle_for(self._idle_ms, free, rows[-1][0])
        return found


def _milliseconds(span: float) -> int:
    """In whole milliseconds, never less."""
    return max(1, math.ceil(span * 1000 - 1e-6))
