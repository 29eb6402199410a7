"""Taking over what was left behind, and reading lost replies again (rules 6.3 and 6.4)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from surestream.errors import ConnectionLost
from surestream.redis.driver import Argument
from surestream.redis.looks import Candidate, Look
from surestream.redis.pending import PendingList
from surestream.redis.reader import outlive
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.scripted import CLAIM, REREAD, PendingRow, read_claims, read_taken
from surestream.redis.seat import FIRST_ID, Seat, id_order

__all__ = ["Claim", "Recovery"]

Claim: TypeAlias = tuple[bytes, list[bytes], int]
"""Id, fields and delivery count of an entry taken over."""
Take: TypeAlias = Callable[[list[Claim]], None]

AT_ONCE: Final = 16
"""How many candidates one script is told of: others may be faster with some of them."""
HANDED_BACK_MS: Final = 180 * 86_400 * 1000
"""What looks idle for longer was handed back, not lost."""


class Recovery:
    """Takes over entries for one subscription, each for one worker.

    ``look`` finds them. ``busy`` gives the ids that are in hand here: held by the runtime, waiting
    to be handed out, or settled and not confirmed yet. ``at_once``: what is pending on a consumer
    name of the user's from earlier runs is taken back at the start, without waiting.
    """

    def __init__(
        self,
        link: ReconnectingLink,
        seat: Seat,
        pending: PendingList,
        look: Look,
        *,
        busy: Callable[[], Iterable[bytes]],
        at_once: bool,
    ) -> None:
        self._link = link
        self._seat = seat
        self._pending = pending
        self._look = look
        self._busy = busy
        self._turn = asyncio.Lock()
        self._claiming: set[bytes] = set()
        self._under_way: set[asyncio.Future[Reply]] = set()
        self._candidates: deque[Candidate] = deque()
        # Taken over in a reply that never came, with the count from before.
        self._unheard: dict[bytes, int] = {}
        self._at_once = at_once
        self._own_until = FIRST_ID
        self._own_after: bytes | None = FIRST_ID if at_once and not seat.own_name else None

    def earlier_runs_end_at(self, entry: bytes) -> None:
        """What is pending on a consumer name of the user's up to ``entry`` is of earlier runs."""
        if not self._seat.own_name:
            self._own_until = entry

    # ── taking over ─────────────────────────────────────────────────────────

    async def claim(self, limit: int, take: Take) -> bool:
        """Take over up to ``limit`` entries and give them to ``take``, also where the caller is
        cancelled meanwhile. Returns whether there is more to take at once."""
        async with self._turn:
            if await self._hear(take):
                return True
            if self._own_after is not None:
                if await self._own(limit, take):
                    return True
                self._pending.tell_of_ghosts()
            idle = self._look.idle_ms
            if idle is None:
                return False
            if not self._candidates:
                self._candidates.extend(await self._look.candidates(self._free))
            taken = 0
            while self._candidates and taken < limit:
                some = [
                    self._candidates.popleft() for _ in range(min(AT_ONCE, len(self._candidates)))
                ]
                number, tried = await self._take(some, limit - taken, idle, b"", take)
                self._candidates.extendleft(reversed(some[tried:]))
                taken += number
            if not self._candidates:
                self._pending.tell_of_ghosts()
            return bool(self._candidates) or taken >= limit

    def wait(self) -> float | None:
        """Seconds until the next look is due."""
        return self._look.wait()

    def stirred(self) -> None:
        """Something was handed to this subscription."""
        self._look.stirred()

    def first(self, handed_back: Iterable[Candidate]) -> None:
        """Try these before all others: they had their turn, and were handed back."""
        self._candidates.extendleft(handed_back)

    async def quiet(self) -> None:
        """Wait until nothing is being taken over any more."""
        while self._under_way:
            await asyncio.wait(tuple(self._under_way))

    async def _own(self, limit: int, take: Take) -> bool:
        assert self._own_after is not None
        after, until = self._own_after, self._own_until
        consumer = self._seat.consumer_name
        async for rows in self._pending.pages(after, until, consumer=consumer):
            some = [(entry, count) for entry, _, _, count in self._free(rows)][:limit]
            if some:
                self._own_after = some[-1][0]
                try:
                    await self._take(some, limit, 0, consumer, take)
                except BaseException:
                    self._own_after = after
                    raise
                return True
        self._own_after = None
        return False

    async def _take(
        self, some: list[Candidate], limit: int, idle_ms: int, owner: bytes, take: Take
    ) -> tuple[int, int]:
        """How many were taken, and how many were tried for that."""
        seat = self._seat
        ids = [entry for entry, _ in some]
        self._claiming.update(ids)
        args: list[Argument] = [seat.group_name, seat.consumer_name, idle_ms, owner, limit, *ids]
        reply = self._link.script(CLAIM, (seat.stream,), args)

        # A callback: the server has counted what it hands over, so its reply must reach `take`
        # also where nobody waits for it any more.
        def arrived(reply: asyncio.Future[Reply]) -> None:
            self._under_way.discard(reply)
            self._claiming.difference_update(ids)
            error = reply.exception()
            if error is None:
                taken, ghosts, _ = read_taken(reply.result())
                self._pending.cleared(ghosts)
                take(taken)
            elif isinstance(error, ConnectionLost):
                self._unheard.update(some)

        self._under_way.add(reply)
        reply.add_done_callback(arrived)
        await outlive(reply)
        taken, _, tried = read_taken(reply.result())
        return len(taken), tried

    # ── lost replies ────────────────────────────────────────────────────────

    async def hear(self, take: Take) -> None:
        """Read again what was taken over in a reply that got lost."""
        async with self._turn:
            await self._hear(take)

    async def _hear(self, take: Take) -> bool:
        if not self._unheard:
            return False
        busy = frozenset(self._busy())
        # The script of the lost reply has raised the count, or has not run.
        some = [(entry, count + 1) for entry, count in self._unheard.items() if entry not in busy]
        found = await self._read_again(some)
        self._unheard.clear()
        take(found)
        return bool(found)

    async def reread(self) -> list[Claim]:
        """What was delivered to this consumer and never arrived; counts stay."""
        async with self._turn:
            found: list[Claim] = []
            async for rows in self._pending.pages(consumer=self._seat.consumer_name):
                lost = [
                    row for row in rows if row[2] < HANDED_BACK_MS and not self._earlier(row[0])
                ]
                some = [(entry, count) for entry, _, _, count in self._free(lost)]
                found += await self._read_again(some)
            self._pending.tell_of_ghosts()
            return found

    async def _read_again(self, some: Sequence[Candidate]) -> list[Claim]:
        if not some:
            return []
        seat = self._seat
        args: list[Argument] = [seat.group_name, seat.consumer_name]
        for entry, count in some:
            args += (entry, count)
        entries, ghosts = read_claims(await self._link.script(REREAD, (seat.stream,), args))
        self._pending.cleared(ghosts)
        return entries

    def _earlier(self, entry: bytes) -> bool:
        """Whether it is of an earlier run under the same name: not lost, but left behind."""
        if id_order(entry) > id_order(self._own_until):
            return False
        if self._at_once:
            return self._own_after is not None and id_order(entry) > id_order(self._own_after)
        return True

    def _free(self, rows: list[PendingRow]) -> list[PendingRow]:
        mine = self._seat.consumer_name
        if all(row[1] != mine for row in rows):
            return rows
        busy = frozenset(self._busy()) | self._claiming
        return [row for row in rows if row[1] != mine or row[0] not in busy]
