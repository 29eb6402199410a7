"""Stream entries as deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from surestream.delivery import Delivery, Key, Origin
from surestream.errors import DecodeError
from surestream.message import HeaderPairs
from surestream.redis.seat import Seat
from surestream.redis.sources import ConsumerGroup, EntryId, StreamKey
from surestream.redis.wire import (
    MARK_FIELD,
    PAYLOAD,
    TRANSPORT_FIELDS,
    entry_headers,
    entry_payload,
)

__all__ = ["ForeignDelivery", "RawEntry", "StreamDelivery", "deliver", "deliver_one"]

RawEntry: TypeAlias = tuple[bytes, list[bytes]]
"""Id and fields (name, value, …) as the server sends them."""


class StreamDelivery(Delivery):
    """One hand-over of a stream entry."""

    __slots__ = ("_taken_back", "entry", "fields", "seat")

    def __init__(
        self,
        payload: bytes,
        origin: Origin,
        entry: bytes,
        fields: list[bytes],
        seat: Seat,
        server_count: int = 1,
        special: bool = False,
    ) -> None:
        # This runs for every message: the slots of the base class are set here as well.
        self.payload = payload
        self.origin = origin
        self.server_count = server_count
        self.special = special
        self._headers = None
        self._header_count = -1
        self.entry = entry
        """The entry's id as the server wrote it."""
        self.fields = fields
        """All fields as they came in: name, value, …"""
        self.seat = seat

    @property
    def id(self) -> str:
        return self.entry.decode("ascii")

    @property
    def address(self) -> str:
        return self.seat.key

    @property
    def counted(self) -> int:
        """The delivery count that the server has for it: what its fence is (rule 5.4)."""
        # Set for very few: a slot more in each message would be paid for by all.
        return self.server_count - getattr(self, "_taken_back", 0)

    def take_back_count(self) -> None:
        """The server was told not to count this delivery (rule 3.6)."""
        self._taken_back = 1

    def counted_anew(self) -> None:
        """The server has begun to count again (rule 6.6): this is a first delivery."""
        self.server_count = 1
        self._taken_back = 0

    @property
    def mark(self) -> bytes | None:
        """The mark of rule 4.7, whoever it is for."""
        if self.special:
            fields = self.fields
            for index in range(0, len(fields) - 1, 2):
                if fields[index] == MARK_FIELD:
                    return fields[index + 1]
        return None

    @property
    def marked(self) -> bool:
        return self.special and self.mark == self.seat.mark

    def read_headers(self) -> HeaderPairs:
        return entry_headers(self.fields)

    def fact(self, key: Key[Any]) -> object:
        if key is EntryId:
            return self.id
        if key is StreamKey:
            return self.seat.key
        if key is ConsumerGroup:
            return self.seat.group
        raise KeyError(key)


class ForeignDelivery(StreamDelivery):
    """An entry of another program in which no payload can be found."""

    __slots__ = ("_fault",)

    def __init__(
        self,
        fault: DecodeError,
        origin: Origin,
        entry: bytes,
        fields: list[bytes],
        seat: Seat,
        server_count: int,
    ) -> None:
        super().__init__(b"", origin, entry, fields, seat, server_count, special=True)
        self._fault = fault

    @property
    def fault(self) -> DecodeError:
        return self._fault


def deliver(entries: Iterable[RawEntry], seat: Seat, origin: Origin) -> list[StreamDelivery]:
    """The first deliveries of ``entries``."""
    deliveries: list[StreamDelivery] = []
    append, make = deliveries.append, StreamDelivery
    payload, ordinary = PAYLOAD, TRANSPORT_FIELDS.isdisjoint
    for entry, fields in entries:
        # This runs for every message; names stand at the even places.
        if fields[0] == payload and (len(fields) == 2 or ordinary(fields[2::2])):
            append(make(fields[1], origin, entry, fields, seat))
        else:
            append(deliver_one(entry, fields, seat, origin, 1))
    return deliveries


def deliver_one(
    entry: bytes, fields: list[bytes], seat: Seat, origin: Origin, count: int
) -> StreamDelivery:
    """A delivery of any entry; ``count``: the server's, this one included."""
    special = count > 1 or not TRANSPORT_FIELDS.isdisjoint(fields[::2])
    if fields and fields[0] == PAYLOAD:
        return StreamDelivery(fields[1], origin, entry, fields, seat, count, special)
    try:
        payload = entry_payload(fields)
    except DecodeError as fault:
        return ForeignDelivery(fault, origin, entry, fields, seat, count)
    return StreamDelivery(payload, origin, entry, fields, seat, count, special)
