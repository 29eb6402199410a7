"""Storing what takes an entry's place, and handing entries back (rules 5.1, 5.4, 6.2, 7.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from surestream.contract import Stored, Successor
from surestream.errors import BrokerRefused
from surestream.message import MARK_HEADER, HeaderPairs, Outgoing
from surestream.redis.deleting import Deletion
from surestream.redis.driver import Argument
from surestream.redis.entries import ForeignDelivery, StreamDelivery
from surestream.redis.errors import NoGroup
from surestream.redis.groups import StreamGroup
from surestream.redis.publishing import append, check_size, encoded, fields_to_write, told
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.scripted import GIVE_BACK, PARK, REPLACE, TOUCH, WHOSE, numbers
from surestream.redis.seat import WAITING, Seat
from surestream.redis.sources import ClaimingStream, StreamSource
from surestream.redis.wire import extra_fields, foreign_fields, member
from surestream.runtime.successors import copy_headers, hand_over_headers

__all__ = ["Settlement"]

MOST_ARGUMENTS: Final = 7_800
"""What one command of a script can carry: Lua's stack holds 8,000 values."""
MOST_PARKED_HEADERS: Final = 3_900
CHUNK: Final = 500
CHUNK_BYTES: Final = 8 * 1024 * 1024
LONG_IDLE: Final = 366 * 86_400 * 1000
"""Milliseconds that an entry looks idle when it was handed back: longer than any lease."""

TRIES: Final = 2
_STORED, _OVERTAKEN, _NO_GROUP = 1, 0, -1


class Settlement:
    """The settling commands of one subscription. Every one is safe to repeat."""

    def __init__(
        self,
        link: ReconnectingLink,
        seat: Seat,
        group: StreamGroup,
        source: StreamSource,
        *,
        parked: Callable[[int, int], None],
        deletion: Deletion,
    ) -> None:
        self._link = link
        self._seat = seat
        self._group = group
        self._delays = source.delayed_retry
        self._parked = parked
        self._deletion = deletion
        self._claims = isinstance(source, ClaimingStream)
        self._idle = 0 if source.lease is None else LONG_IDLE

    async def replace(self, delivery: StreamDelivery, successor: Successor) -> Stored:
        """See :meth:`Subscription.replace <surestream.contract.Subscription.replace>`."""
        target = encoded(successor.message.address)
        fields = self._fields(delivery, successor)
        length = "" if successor.max_length is None else str(successor.max_length)
        if len(fields) > MOST_ARGUMENTS:
            return await self._replace_large(delivery, target, length, fields)
        keys = (self._seat.stream, target)
        for _ in range(TRIES):
            args = (*self._fence(delivery), length, *fields)
            state = await told(self._link, self._link.script(REPLACE, keys, args), target)
            if state == _OVERTAKEN and await self._group.renewed():
                continue
            if state != _NO_GROUP:
                return Stored.OVERTAKEN if state == _OVERTAKEN else Stored.STORED
            await self._group.mend()
        raise self._group_gone()

    async def park(self, delivery: StreamDelivery, headers: HeaderPairs, delay: float) -> Stored:
        """See :meth:`Subscription.park <surestream.contract.Subscription.park>`."""
        delays = self._delays
        assert delays is not None, "only a source with a DurableZset parks"
        if isinstance(delivery, ForeignDelivery):
            raise BrokerRefused(
                "a delay set keeps a payload and headers, and this entry has fields that are "
                "neither",
                permanent=True,
            )
        if len(headers) >= MOST_PARKED_HEADERS:
            raise BrokerRefused(
                f"{len(headers):,} headers: a delay set keeps {MOST_PARKED_HEADERS:,} at most",
                permanent=True,
            )
        key = encoded(delays.key)
        ttl = "" if delays.ttl is None else str(math.ceil(delays.ttl * 1000))
        marked = (*headers, (MARK_HEADER, self._seat.mark))
        what = member(self._member_name(delivery), marked, delivery.payload)
        check_size(what, "a parked message")
        keys = (self._seat.stream, key)
        for _ in range(TRIES):
            args = (*self._fence(delivery), microseconds(delay), ttl, what)
            reply = await told(self._link, self._link.script(PARK, keys, args), key, "zset")
            state, *times = numbers(reply)
            if state == _STORED:
                self._parked(times[0], times[1])
            if state == _OVERTAKEN and await self._group.renewed():
                continue
            if state != _NO_GROUP:
                return Stored.OVERTAKEN if state == _OVERTAKEN else Stored.STORED
            await self._group.mend()
        raise self._group_gone()

    async def give_back(
        self, deliveries: Sequence[StreamDelivery], *, after: float, spent: bool
    ) -> None:
        """Leave the entries pending, so that the next look takes them over at once;
        ``spent=False``: with the count they had before.

        A retry on claiming is ``spent``: it begins ``min_idle`` anew (rule 6.2), and counts. An
        entry that the stream no longer has is appended from memory, ``after`` seconds ahead.
        """
        retry = spent and self._claims
        holder, idle = (WAITING, 0) if retry else (self._seat.consumer_name, self._idle)
        self._group.no_longer_held(deliveries)
        for chunk in _chunks(deliveries):
            gone = await self._hand_back(chunk, holder, idle, spent)
            # Once more: in between, the group may have been created again with these in hand.
            self._group.no_longer_held(chunk)
            for delivery in chunk:
                if delivery.entry in gone:
                    await self.replace(delivery, self._from_memory(delivery, after, spent))

    async def uncount(self, deliveries: Sequence[StreamDelivery]) -> None:
        """Take back that the server counted these; they stay ours."""
        gone = await self._hand_back(deliveries, self._seat.consumer_name, 0, spent=False)
        for delivery in deliveries:
            if delivery.entry not in gone:
                delivery.take_back_count()

    async def touch(self, deliveries: Sequence[StreamDelivery]) -> None:
        """Renew the claims that are still ours."""
        renewed = 0
        for chunk in _chunks(deliveries):
            args: list[Argument] = [*self._who()]
            for delivery in chunk:
                args += (delivery.entry, delivery.counted)
            renewed += cast("int", await self._link.script(TOUCH, (self._seat.stream,), args))
        if renewed < len(deliveries):
            # Settled meanwhile, overtaken, or in a group that is not the one they came from.
            await self._group.renewed()

    # ── parts ───────────────────────────────────────────────────────────────

    async def _hand_back(
        self, deliveries: Sequence[StreamDelivery], holder: bytes, idle: int, spent: bool
    ) -> frozenset[Reply]:
        """Returns the ids of those that the stream no longer has."""
        for _ in range(TRIES):
            args: list[Argument] = [*self._who(), holder, idle]
            for delivery in deliveries:
                count = delivery.server_count
                args += (delivery.entry, delivery.counted, count if spent else count - 1)
            try:
                reply = await self._link.script(GIVE_BACK, (self._seat.stream,), args)
            except NoGroup:
                await self._group.mend()
            else:
                gone, unknown = cast("tuple[list[Reply], list[Reply]]", reply)
                if not unknown or not await self._group.renewed():
                    return frozenset(gone)
        raise self._group_gone()

    def _from_memory(self, delivery: StreamDelivery, after: float, spent: bool) -> Successor:
        count = delivery.header_count + spent
        if self._claims:
            before = delivery.header_count if delivery.marked else 0
            count = before + delivery.server_count - (not spent)
        if after > 0:
            headers = hand_over_headers(delivery, count, after)
        else:
            headers = copy_headers(delivery, count)
        return Successor(Outgoing(self._seat.key, delivery.payload, headers))

    def _who(self) -> tuple[Argument, Argument]:
        return self._seat.group_name, self._seat.consumer_name

    def _fence(self, delivery: StreamDelivery) -> tuple[Argument, ...]:
        lost = delivery.entry in self._group.lost
        return (
            *self._who(),
            delivery.entry,
            delivery.counted,
            self._deletion.how(delivery),
            int(lost),
        )

    def _fields(self, delivery: StreamDelivery, successor: Successor) -> list[bytes]:
        if successor.verbatim:
            return delivery.fields
        message = successor.message
        if successor.reply:
            return fields_to_write(message.payload, message.headers)
        headers = message.headers
        if message.address == self._seat.key and not successor.dead:
            headers = (*headers, (MARK_HEADER, self._seat.mark))
        if isinstance(delivery, ForeignDelivery):
            # It has no payload: its fields are what it says.
            return fields_to_write(None, headers, foreign_fields(delivery.fields))
        return fields_to_write(message.payload, headers, extra_fields(delivery.fields))

    def _member_name(self, delivery: StreamDelivery) -> bytes:
        # Padded, so that members due in the same millisecond come back in the order of the ids.
        milliseconds, _, sequence = delivery.entry.partition(b"-")
        return b"%b/%b-%b/%d" % (
            self._seat.group_name,
            milliseconds.rjust(15, b"0"),
            sequence.rjust(6, b"0"),
            delivery.server_count,
        )

    def _group_gone(self) -> BrokerRefused:
        return BrokerRefused(f"the group of {self._seat.label} is destroyed again and again")

    async def _replace_large(
        self, delivery: StreamDelivery, target: bytes, length: str, fields: list[bytes]
    ) -> Stored:
        # Too many fields for a script. Stored first here too; what a crash in between leaves is one
        # copy too many.
        state = await self._link.script(WHOSE, (self._seat.stream,), self._fence(delivery))
        if state == b"overtaken" and await self._group.renewed():
            state = await self._link.script(WHOSE, (self._seat.stream,), self._fence(delivery))
        if state == b"overtaken":
            return Stored.OVERTAKEN
        if state == b"later":
            await self._group.mend()
            raise self._group_gone()
        trim = ("MAXLEN", "~", length) if length else ()
        await told(self._link, append(self._link, target, fields, trim), target)
        if state == b"ours":
            await self._deletion.settle(delivery)
        return Stored.STORED


def microseconds(delay: float) -> int:
    """A delay in whole microseconds, never less than asked; what binary fractions add to a decimal
    one is not rounded up."""
    exact = delay * 1e6
    return max(1, math.ceil(exact - max(1e-3, exact * 4e-16)))


def _chunks(deliveries: Sequence[StreamDelivery]) -> Iterator[list[StreamDelivery]]:
    """At most 500 entries, and about 8 MiB of them, for one script."""
    chunk: list[StreamDelivery] = []
    size = 0
    for delivery in deliveries:
        if chunk and (len(chunk) >= CHUNK or size + len(delivery.payload) > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(delivery)
        size += len(delivery.payload)
    if chunk:
        yield chunk
