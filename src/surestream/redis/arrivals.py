"""What one subscription takes from its stream: new entries, lost replies, orphans."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from surestream.contract import Recovered
from surestream.delivery import Origin
from surestream.errors import BrokerRefused, ConnectionLost, SureStreamError
from surestream.redis.acknowledgements import Acknowledgements
from surestream.redis.entries import RawEntry, StreamDelivery, deliver, deliver_one
from surestream.redis.errors import NoGroup, Unblocked
from surestream.redis.groups import StreamGroup
from surestream.redis.looks import ClaimingLook, Look, OrphanLook
from surestream.redis.marks import Marks
from surestream.redis.pending import PendingList
from surestream.redis.publishing import explained
from surestream.redis.reader import StreamReader
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.recovery import Claim, Recovery
from surestream.redis.seat import Seat
from surestream.redis.sources import ClaimingStream, StreamSource
from surestream.redis.telling import Telling

__all__ = ["Arrivals"]

_log = logging.getLogger("surestream.redis")

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
MENDS_IN_A_ROW: Final = 3


class Arrivals:
    """Turns what the server hands over into deliveries, none twice and none lost.

    ``lease`` gives the seconds after which an entry is taken over, ``None`` for never. ``cap``: how
    many deliveries a message gets. ``uncount`` has the server forget that it counted a delivery.
    """

    def __init__(
        self,
        source: StreamSource,
        seat: Seat,
        origin: Origin,
        *,
        command: ReconnectingLink,
        reading: ReconnectingLink,
        group: StreamGroup,
        acks: Acknowledgements,
        cap: int | None,
        lease: Callable[[], float | None],
        uncount: Callable[[Sequence[StreamDelivery]], Awaitable[None]],
        chance: random.Random,
    ) -> None:
        self._seat = seat
        self._origin = origin
        self._command = command
        self._reading = reading
        self._group = group
        self._acks = acks
        # What was handed out before is for `recover` alone (rule 3.6).
        self._careful = source.abilities.recovers
        claims = isinstance(source, ClaimingStream)
        self._cap = cap if claims else None
        self._uncount = uncount
        self._chance = chance
        self._loop = asyncio.get_running_loop()
        self._reader = StreamReader(reading, command, seat, source.block)
        self._marks = Marks(command, seat)
        pending = PendingList(command, seat)
        look: Look = OrphanLook(pending, chance, lease)
        if claims:
            look = ClaimingLook(pending, chance, source.min_idle)
        self._recovery = Recovery(
            command, seat, pending, look, busy=self._in_hand, at_once=not claims
        )
        # Taken from the server and not handed out yet: as new, to be looked at for marks of other
        # groups, and redelivered.
        self._ready: deque[StreamDelivery] = deque()
        self._unsorted: list[StreamDelivery] = []
        self._redelivered: deque[StreamDelivery] = deque()
        self._stopping: asyncio.Future[None] = self._loop.create_future()
        self._pause = FIRST_PAUSE
        self._mends = 0
        self._clean_at = self._loop.time()
        self._report = Telling()
        self.trouble: str | None = None
        """Why nothing can be read, or ``None``."""

    def begin(self) -> None:
        """The group exists: what was delivered before now is of earlier runs."""
        self._recovery.earlier_runs_end_at(self._group.last_seen)

    # ── new entries ─────────────────────────────────────────────────────────

    async def pull(self, limit: int) -> Sequence[StreamDelivery]:
        """See :meth:`Subscription.pull <surestream.contract.Subscription.pull>`."""
        while not self._stopping.done() or self._reader.busy:
            if self._ready:
                return self._take(limit)
            try:
                if self._unsorted:
                    await self._sort()
                    continue
                await self._read(limit)
            except (NoGroup, Unblocked) as error:
                await self._mend(error)
            except ConnectionLost as error:
                await self._reconnected(error)
            except SureStreamError as error:
                await self._refused(error)
            else:
                self._pause, self._mends, self.trouble = FIRST_PAUSE, 0, None
                if not self._ready and not self._unsorted:
                    # Now and then nothing, so that the caller may look around.
                    return ()
        return self._take(limit) if self._ready else ()

    def _take(self, limit: int) -> Sequence[StreamDelivery]:
        ready = self._ready
        if len(ready) <= limit:
            taken = list(ready)
            ready.clear()
            return taken
        return [ready.popleft() for _ in range(limit)]

    async def _read(self, limit: int) -> None:
        """One read, or the look that is due before it."""
        if self._reader.replies_lost():
            try:
                self._restore(await self._recovery.reread())
            except BaseException:
                self._reader.look_again()
                raise
            if self._ready or self._unsorted:
                return
        if self._loop.time() >= self._clean_at:
            self._clean_at = self._loop.time() + self._group.clean_every
            await self._group.clean()
        if self._stopping.done() and not self._reader.busy:
            return
        entries = await self._reader.read(limit)
        if entries:
            self._deliver(entries)

    def _deliver(self, entries: Sequence[RawEntry]) -> None:
        group = self._group
        group.last_seen = entries[-1][0]
        self._recovery.stirred()
        deliveries = deliver(entries, self._seat, self._origin)
        if group.joining:
            deliveries, settled = group.join(deliveries)
            if settled:
                self._acks.add_ids(settled)
        self._accept(deliveries)

    def _accept(self, deliveries: list[StreamDelivery]) -> None:
        special = [delivery for delivery in deliveries if delivery.special]
        if special and any(self._marks.foreign(d) or self._last_chance(d) for d in special):
            self._unsorted = deliveries
        else:
            self._ready.extend(deliveries)

    def _last_chance(self, delivery: StreamDelivery) -> bool:
        """On claiming, one that came back out of the delay set for its last attempt. If it counted
        while it is read ahead, the crash of another would bury it unrun (rules 3.5, 3.6)."""
        cap = self._cap
        return cap is not None and delivery.marked and delivery.header_count + 1 >= cap

    async def _sort(self) -> None:
        """Acknowledge unseen what other groups of this stream wrote for themselves (rule 4.7)."""
        foreign = [d for d in self._unsorted if self._marks.foreign(d)]
        unseen = set(await self._marks.unseen(foreign))
        if last := [d for d in self._unsorted if self._last_chance(d)]:
            await self._uncount(last)
        deliveries, self._unsorted = self._unsorted, []
        if unseen:
            self._acks.add_ids([delivery.entry for delivery in unseen])
        self._ready.extend(delivery for delivery in deliveries if delivery not in unseen)

    # ── when reading fails ──────────────────────────────────────────────────

    async def _mend(self, error: BrokerRefused) -> None:
        self._mends += 1
        if self._mends > MENDS_IN_A_ROW:
            await self._refused(error)
        try:
            await self._group.mend()
        except ConnectionLost as lost:
            await self._reconnected(lost)
        except SureStreamError as refused:
            await self._refused(refused)

    async def _reconnected(self, error: ConnectionLost) -> None:
        """Wait until both connections are there again."""
        self.trouble = str(error)
        # At least a turn of the loop: the link that lost its reply may look open still.
        await asyncio.sleep(0)
        for link in (self._reading, self._command):
            ready = asyncio.ensure_future(link.ready())
            try:
                await asyncio.wait((ready, self._stopping), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not ready.done():
                    ready.cancel()
            if ready.done() and (closed := ready.exception()) and not self._stopping.done():
                raise closed

    async def _refused(self, error: SureStreamError) -> None:
        """What the server refuses may heal: wait, ever longer, and try again."""
        if isinstance(error, BrokerRefused):
            error = await explained(self._command, error, self._seat.stream)
        self.trouble = f"cannot read: {error}"
        self._report(logging.ERROR, "%s: %s", self._seat.label, self.trouble)
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        await asyncio.wait((self._stopping,), timeout=pause * (1 + self._chance.random() / 4))

    # ── redelivered ones ────────────────────────────────────────────────────

    async def recover(self, limit: int) -> Recovered:
        """See :meth:`Subscription.recover <surestream.contract.Subscription.recover>`."""
        more = True
        if not self._redelivered:
            try:
                more = await self._recovery.claim(limit, self._claimed)
            except NoGroup:
                await self._group.mend()
        found: list[StreamDelivery] = []
        while self._redelivered and len(found) < limit:
            delivery = self._redelivered[0]
            unseen = self._marks.foreign(delivery) and await self._marks.unseen([delivery])
            self._redelivered.popleft()
            if unseen:
                self._acks.add_ids([delivery.entry])
            else:
                found.append(delivery)
        return Recovered(found, more or bool(self._redelivered), self._recovery.wait())

    def _claimed(self, claims: Sequence[Claim]) -> None:
        for entry, fields, count in claims:
            delivery = deliver_one(entry, fields, self._seat, self._origin, count)
            self._redelivered.append(delivery)

    def _restore(self, claims: Sequence[Claim]) -> None:
        """What was delivered in a lost reply: as new where nothing else happened to it, else as
        carefully as any redelivered one."""
        fresh: list[StreamDelivery] = []
        for entry, fields, count in claims:
            delivery = deliver_one(entry, fields, self._seat, self._origin, count)
            if count > 1 and self._careful:
                self._redelivered.append(delivery)
            else:
                fresh.append(delivery)
        if fresh:
            self._accept(fresh)

    def handed_back(self, deliveries: Sequence[StreamDelivery]) -> None:
        """These were handed back with the count they had, and may be taken over first."""
        if not self._stopping.done():
            self._recovery.first((d.entry, d.server_count - 1) for d in deliveries)

    def waiting(self) -> list[StreamDelivery]:
        """What was taken and not handed out yet."""
        return [*self._ready, *self._unsorted, *self._redelivered]

    def _in_hand(self) -> Iterator[bytes]:
        for delivery in self._origin.held():
            if isinstance(delivery, StreamDelivery) and delivery.seat is self._seat:
                yield delivery.entry
        for delivery in self.waiting():
            yield delivery.entry
        yield from self._acks.unconfirmed()

    # ── the end ─────────────────────────────────────────────────────────────

    async def stop(self) -> None:
        """Take nothing more; a waiting :meth:`pull` ends soon, with what it has."""
        if not self._stopping.done():
            self._stopping.set_result(None)
        await self._reader.unblock()

    async def left_over(self) -> list[StreamDelivery]:
        """What was taken and never handed out. Waits for replies that are on their way."""
        await self._recovery.quiet()
        if self._command.up:
            await self._recovery.hear(self._claimed)
        if self._reader.busy:
            try:
                entries = await self._reader.read(1)
            except SureStreamError as error:
                _log.debug("%s: the last read failed: %s", self._seat.label, error)
            else:
                self._ready.extend(deliver(entries, self._seat, self._origin))
        rest = self.waiting()
        self._ready.clear()
        self._unsorted = []
        self._redelivered.clear()
        return rest
