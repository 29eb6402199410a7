"""Finding what was left behind: by dead workers, and in replies that got lost (rule 6.4)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, TypeAlias

from surestream.redis.driver import Argument
from surestream.redis.reader import outlive
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.scripted import CLAIM, REREAD, PendingRow, pending_rows, read_claims
from surestream.redis.seat import FIRST_ID, Seat, id_order

__all__ = ["Claim", "Recovery"]

_log = logging.getLogger("surestream.redis")

Claim: TypeAlias = tuple[bytes, list[bytes], int]
"""Id, fields and delivery count of an entry taken over."""

PAGE: Final = 100
LONGEST_WAIT: Final = 5.0
HANDED_BACK_MS: Final = 180 * 86_400 * 1000
"""What looks idle for longer was handed back, not lost."""


class Recovery:
    """The looks of one subscription into the pending list of its group.

    ``busy`` gives the ids that are in hand here: held by the runtime, waiting to be handed out,
    or settled and not confirmed yet.
    """

    def __init__(
        self,
        link: ReconnectingLink,
        seat: Seat,
        *,
        idle: Callable[[], float | None],
        busy: Callable[[], Iterable[bytes]],
        chance: random.Random,
    ) -> None:
        self._link = link
        self._seat = seat
        self._idle = idle
        self._busy = busy
        self._chance = chance
        self._turn = asyncio.Lock()
        self._claiming: set[bytes] = set()
        self._under_way: set[asyncio.Future[Reply]] = set()
        self._candidates: deque[bytes] = deque()
        self._ghosts: list[bytes] = []
        self._own_after: bytes | None = None if seat.own_name else FIRST_ID
        self._own_until = FIRST_ID

    def earlier_runs_end_at(self, entry: bytes) -> None:
        """What is pending on a consumer name of the user's up to ``entry`` is of earlier runs."""
        self._own_until = entry

    # ── orphans ─────────────────────────────────────────────────────────────

    async def claim(self, limit: int, take: Callable[[list[Claim]], None]) -> bool:
        """Take over up to ``limit`` orphans and give them to ``take``, also where the caller is
        cancelled meanwhile. Returns whether there is more to take at once."""
        async with self._turn:
            if self._own_after is not None:
                found = await self._own(limit, take)
                if found:
                    return True
                self._tell_of_ghosts()
            idle = self._idle()
            if idle is None:
                return False
            if not self._candidates:
                self._candidates.extend(await self._look(idle))
            ids = [self._candidates.popleft() for _ in range(min(limit, len(self._candidates)))]
            if ids:
                await self._take(ids, max(1, round(idle * 1000)), b"", take)
            if not self._candidates:
                self._tell_of_ghosts()
            return bool(self._candidates) or len(ids) >= limit

    async def quiet(self) -> None:
        """Wait until nothing is being taken over any more."""
        while self._under_way:
            await asyncio.wait(tuple(self._under_way))

    def wait(self) -> float | None:
        """Seconds until the next look is due, a little different each time."""
        idle = self._idle()
        if idle is None:
            return None
        return min(idle / 3, LONGEST_WAIT) * (1 - self._chance.random() / 5)

    async def _look(self, idle: float) -> list[bytes]:
        # All pages: what is in hand here, and too old, must not hide what is behind it.
        found: list[bytes] = []
        async for rows in self._pages(FIRST_ID, b"+", ("IDLE", max(1, round(idle * 1000)))):
            found += self._not_in_hand(rows)
            if len(found) >= PAGE:
                break
        return found

    async def _own(self, limit: int, take: Callable[[list[Claim]], None]) -> bool:
        assert self._own_after is not None
        after, until = self._own_after, self._own_until
        async for rows in self._pages(after, until, (), self._seat.consumer_name):
            ids = self._not_in_hand(rows)[:limit]
            if ids:
                self._own_after = ids[-1]
                try:
                    await self._take(ids, 0, self._seat.consumer_name, take)
                except BaseException:
                    self._own_after = after
                    raise
                return True
        self._own_after = None
        return False

    async def _take(
        self, ids: list[bytes], idle_ms: int, owner: bytes, take: Callable[[list[Claim]], None]
    ) -> None:
        seat = self._seat
        self._claiming.update(ids)
        args: list[Argument] = [seat.group_name, seat.consumer_name, idle_ms, owner, *ids]
        reply = self._link.script(CLAIM, (seat.stream,), args)

        # A callback: the server has counted what it hands over, so its reply must reach `take`
        # also where nobody waits for it any more.
        def arrived(reply: asyncio.Future[Reply]) -> None:
            self._under_way.discard(reply)
            self._claiming.difference_update(ids)
            if reply.exception() is None:
                taken, ghosts = read_claims(reply.result())
                self._ghosts += ghosts
                take(taken)

        self._under_way.add(reply)
        reply.add_done_callback(arrived)
        await outlive(reply)
        reply.result()

    # ── lost replies ────────────────────────────────────────────────────────

    async def reread(self) -> list[Claim]:
        """What was delivered to this consumer and never arrived; counts stay."""
        async with self._turn:
            seat = self._seat
            found: list[Claim] = []
            async for rows in self._pages(FIRST_ID, b"+", (), seat.consumer_name):
                lost = [
                    row for row in rows if row[2] < HANDED_BACK_MS and not self._earlier(row[0])
                ]
                ids = self._not_in_hand(lost)
                if ids:
                    args = (seat.group_name, seat.consumer_name, *ids)
                    entries, ghosts = read_claims(
                        await self._link.script(REREAD, (seat.stream,), args)
                    )
                    self._ghosts += ghosts
                    found += entries
            self._tell_of_ghosts()
            return found

    def _earlier(self, entry: bytes) -> bool:
        if self._own_after is None:
            return False
        order = id_order(entry)
        return id_order(self._own_after) < order <= id_order(self._own_until)

    # ── the pending list ────────────────────────────────────────────────────

    async def _pages(
        self, after: bytes, until: bytes, options: tuple[str | int, ...], *consumer: bytes
    ) -> AsyncIterator[list[PendingRow]]:
        start = after if after == FIRST_ID else b"(" + after
        while True:
            rows = pending_rows(
                await self._link.call(
                    *("XPENDING", self._seat.stream, self._seat.group_name, *options),
                    *(start, until, PAGE, *consumer),
                )
            )
            if rows:
                yield rows
            if len(rows) < PAGE:
                return
            start = b"(" + rows[-1][0]

    def _not_in_hand(self, rows: list[PendingRow]) -> list[bytes]:
        mine = self._seat.consumer_name
        busy: frozenset[bytes] | None = None
        free: list[bytes] = []
        for entry, consumer, _, _ in rows:
            if consumer == mine:
                if busy is None:
                    busy = frozenset(self._busy()) | self._claiming
                if entry in busy:
                    continue
            free.append(entry)
        return free

    def _tell_of_ghosts(self) -> None:
        ghosts, self._ghosts = self._ghosts, []
        if ghosts:
            _log.warning(
                "%s: %d pending entries are no longer in the stream (deleted or trimmed: %s%s); "
                "cleared",
                self._seat.label,
                len(ghosts),
                b", ".join(ghosts[:3]).decode(),
                ", …" if len(ghosts) > 3 else "",
            )
