"""A consumer group's life: created, created again when the server lost it, tidied up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from surestream.delivery import Delivery, Origin
from surestream.errors import BrokerRefused, SureStreamError
from surestream.redis.entries import StreamDelivery
from surestream.redis.errors import (
    GroupExists,
    NoGroup,
    NotPermitted,
    OutOfMemory,
    RedisRefusal,
    WrongType,
)
from surestream.redis.publishing import explained, told
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.scripted import ADOPT, CLEAN, LEAVE, RENEW
from surestream.redis.seat import CONSUMER_PREFIX, FIRST_ID, TRACE, Seat, id_below, id_order
from surestream.redis.sources import StreamSource

__all__ = ["StreamGroup"]

_log = logging.getLogger("surestream.redis")

LEAST_SILENCE: Final = 10.0
"""Seconds. A consumer that is removed while it lives is there again with its next entry."""
CHUNK: Final = 500


class StreamGroup:
    """The group that one subscription reads, from this consumer's seat.

    ``joining`` holds what was in hand here when the server lost the group, until the new group has
    come that far (rule 6.6): such an entry is not handed out a second time. ``lost`` are their ids,
    for the fence (rule 5.4). ``unconfirmed`` gives the ids of acknowledgements under way.
    """

    def __init__(
        self,
        link: ReconnectingLink,
        seat: Seat,
        source: StreamSource,
        origin: Origin,
        unconfirmed: Callable[[], Iterable[bytes]],
    ) -> None:
        self._link = link
        self._seat = seat
        self._source = source
        self._origin = origin
        self._unconfirmed = unconfirmed
        self._mending = asyncio.Lock()
        self.last_seen = FIRST_ID
        """The last entry that this process read, or where the group stood when it began."""
        self.joining: dict[bytes, StreamDelivery | None] = {}
        self.lost: set[bytes] = set()
        self._traces: frozenset[bytes] = frozenset()
        silence = max(source.lease or 0.0, source.block, LEAST_SILENCE)
        self.clean_every: Final = silence
        self._silent_ms = round(silence * 2000)

    # ── at start ────────────────────────────────────────────────────────────

    async def create(self) -> None:
        """Create the group unless it is there, and check that the server can do what will be
        asked of it. Raises ``BrokerRefused`` that says what is missing, ``ConnectionLost``."""
        seat, call = self._seat, self._link.call
        start = self._source.start
        place = {"beginning": "0", "new": "$"}.get(start, start)
        try:
            await self._created_at(place.encode())
        except BrokerRefused as error:
            # A full server, or an access list that leaves groups to the operator, is no reason to
            # stay away from a group that is there.
            if not (isinstance(error, OutOfMemory | NotPermitted) and await self._exists()):
                raise await explained(self._link, error, seat.stream) from error
        # Harmless, and refused here where it would be refused later.
        await told(self._link, call("XACK", seat.stream, seat.group_name, "0-0"), seat.stream)
        try:
            await call("XPENDING", seat.stream, seat.group_name, "IDLE", 1, "-", "+", 1)
        except NotPermitted as error:
            raise BrokerRefused(f"{seat.label}: {error}", permanent=True) from error
        except RedisRefusal as error:
            raise BrokerRefused(
                f"{seat.label}: {error}; Redis 6.2 or later, or Valkey, is needed", permanent=True
            ) from error
        self.last_seen = await self._delivered() or FIRST_ID
        self._traces = await self._look_for_traces()

    async def _delivered(self) -> bytes | None:
        groups = await self._link.call("XINFO", "GROUPS", self._seat.stream)
        for info in cast("list[list[Reply]]", groups or []):
            facts = _facts(info)
            if facts.get(b"name") == self._seat.group_name:
                return cast("bytes | None", facts.get(b"last-delivered-id"))
        return None

    # ── when the server lost it ─────────────────────────────────────────────

    async def mend(self) -> None:
        """Create the lost group again (rule 6.6): just below the oldest entry that this process
        holds unsettled, else at the last one it saw; at the beginning only where the stream has
        never come that far. Raises ``BrokerRefused`` or ``ConnectionLost``."""
        async with self._mending:
            held = {delivery.entry: delivery for delivery in self._held()}
            # Noted first: whatever the new group delivers must meet it.
            self.joining.update(dict.fromkeys(self._unconfirmed()))
            self.joining.update(held)
            self.lost = set(held)
            if not await self._exists():
                place = id_below(min(held, key=id_order)) if held else self.last_seen
                reached = await self._last_generated()
                if reached is None or id_order(reached) < id_order(place):
                    place = FIRST_ID
                if await self._created_again_at(place):
                    _log.warning(
                        "%s: the group was gone; created again, to be read from %s on, with %d "
                        "messages in hand",
                        self._seat.label,
                        place.decode(),
                        len(held),
                    )
            await self._adopt(held)
            self._traces |= await self._look_for_traces()

    async def renewed(self) -> bool:
        """Whether the group was lost and created again by another process, unnoticed here; then
        what is in hand is pending again. Asked where an entry in hand is pending for nobody."""
        if await self._look_for_traces() <= self._traces:
            return False
        await self.mend()
        return True

    async def _look_for_traces(self) -> frozenset[bytes]:
        seat = self._seat
        try:
            consumers = await self._link.call("XINFO", "CONSUMERS", seat.stream, seat.group_name)
        except RedisRefusal:
            # Not to be told: the stream or group is gone right now, or an access list forbids it.
            return frozenset()
        names = (_facts(info)[b"name"] for info in cast("list[list[Reply]]", consumers or []))
        begin = TRACE.encode()
        return frozenset(name for name in cast("Iterable[bytes]", names) if name.startswith(begin))

    async def _created_at(self, place: bytes) -> bool:
        stream, group = self._seat.stream, self._seat.group_name
        try:
            await self._link.call("XGROUP", "CREATE", stream, group, place, "MKSTREAM")
        except GroupExists:
            return False
        return True

    async def _created_again_at(self, place: bytes) -> bool:
        seat = self._seat
        try:
            await self._link.script(RENEW, (seat.stream,), (seat.group_name, place, TRACE))
        except GroupExists:
            return False
        return True

    async def _exists(self) -> bool:
        try:
            await self._link.call("XPENDING", self._seat.stream, self._seat.group_name)
        except NoGroup:
            return False
        return True

    async def _last_generated(self) -> bytes | None:
        try:
            info = await self._link.call("XINFO", "STREAM", self._seat.stream)
        except WrongType:
            raise
        except RedisRefusal:
            return None  # no such key
        return cast("bytes", _facts(cast("list[Reply]", info))[b"last-generated-id"])

    async def _adopt(self, held: dict[bytes, StreamDelivery]) -> None:
        # Whoever created the group may have begun beyond these; and they should not have to wait
        # until the new group has come to them.
        ids = list(held)
        for start in range(0, len(ids), CHUNK):
            args = (self._seat.group_name, self._seat.consumer_name, *ids[start : start + CHUNK])
            reply = await self._link.script(ADOPT, (self._seat.stream,), args)
            for entry in cast("list[bytes]", reply):
                held[entry].counted_anew()
                self.lost.discard(entry)

    def _held(self) -> Iterable[StreamDelivery]:
        for delivery in self._origin.held():
            if isinstance(delivery, StreamDelivery) and delivery.seat is self._seat:
                yield delivery

    def join(self, deliveries: list[StreamDelivery]) -> tuple[list[StreamDelivery], list[bytes]]:
        """After :meth:`mend`, of what was just read: what is to be handed out, and the ids of what
        this process has settled meanwhile. What it still holds it holds on, with the new count."""
        held = {delivery.entry for delivery in self._held()}
        fresh: list[StreamDelivery] = []
        settled: list[bytes] = []
        for delivery in deliveries:
            entry = delivery.entry
            if entry not in self.joining:
                fresh.append(delivery)
                continue
            known = self.joining.pop(entry)
            self.lost.discard(entry)
            if known is not None and entry in held:
                known.counted_anew()
            else:
                settled.append(entry)
        # A group delivers in the order of the ids: what is lower went to another consumer.
        reached = id_order(deliveries[-1].entry)
        for entry in [entry for entry in self.joining if id_order(entry) < reached]:
            del self.joining[entry]
        return fresh, settled

    def no_longer_held(self, deliveries: Sequence[Delivery]) -> None:
        """These are handed back: should the new group deliver them, they are to be handled."""
        if self.joining:
            for delivery in deliveries:
                if isinstance(delivery, StreamDelivery):
                    self.joining.pop(delivery.entry, None)

    # ── tidying up ──────────────────────────────────────────────────────────

    async def clean(self) -> None:
        """Remove consumers of dead processes that hold nothing (case MG-02)."""
        seat = self._seat
        args = (seat.group_name, CONSUMER_PREFIX, self._silent_ms, seat.consumer_name)
        try:
            removed = await self._link.script(CLEAN, (seat.stream,), args)
        except SureStreamError as error:
            _log.debug("%s: consumers not cleaned up: %s", seat.label, error)
        else:
            if removed:
                _log.info("%s: %d consumers of dead processes removed", seat.label, removed)

    async def leave(self) -> None:
        """Remove this consumer if it holds nothing; one with a name of the user's stays."""
        if self._seat.own_name:
            args = (self._seat.group_name, self._seat.consumer_name)
            await self._link.script(LEAVE, (self._seat.stream,), args)


def _facts(info: list[Reply]) -> dict[Reply, Reply]:
    return {cast("bytes", info[i]): info[i + 1] for i in range(0, len(info) - 1, 2)}
