"""The memory broker's side of the contract; the shortest one there is.

A transport author finds here what each method guarantees, without a protocol in the way: hand
out in order, know who holds what (rule 5.4), store the successor before settling (rule 5.1),
lose nothing when cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from surestream.contract import (
    Source,
    Stored,
    Subscription,
    SubscriptionTerms,
    Successor,
    Transport,
)
from surestream.delivery import Delivery, Key, Origin
from surestream.memory.server import Entry, MemoryGroup, MemoryServer
from surestream.memory.topic import MemoryTopic, TopicName
from surestream.message import HeaderPairs, Outgoing, is_reserved

__all__ = ["MemoryDelivery", "MemorySubscription", "MemoryTransport"]

BREATH: Final = 64


class MemoryDelivery(Delivery):
    """One hand-over of an entry."""

    __slots__ = ("entry", "topic")

    def __init__(self, entry: Entry, topic: str, origin: Origin) -> None:
        count, message = entry.count, entry.message
        special = count > 1 or any(is_reserved(name) for name, _ in message.headers)
        super().__init__(message.payload, origin, server_count=count, special=special)
        self.entry = entry
        self.topic = topic

    @property
    def id(self) -> str:
        return str(self.entry.number)

    @property
    def address(self) -> str:
        return self.topic

    def read_headers(self) -> HeaderPairs:
        return self.entry.message.headers

    def fact(self, key: Key[Any]) -> object:
        if key is TopicName:
            return self.topic
        raise KeyError(key)


class MemorySubscription(Subscription):
    """One reader of a group. Nothing is taken before it is returned, so there is nothing to
    lose in a cancelled :meth:`pull` and nothing to give back in :meth:`close`."""

    def __init__(self, server: MemoryServer, group: MemoryGroup, origin: Origin) -> None:
        self._server = server
        self._group = group
        self._origin = origin
        self._stopped = False
        self._waiter: asyncio.Future[None] | None = None

    async def pull(self, limit: int) -> Sequence[Delivery]:
        self._server.require_open()
        group = self._group
        if not group.ready and not self._stopped:
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            group.waiters.add(waiter)
            try:
                await waiter
            finally:
                group.waiters.discard(waiter)
            self._server.require_open()
        return () if self._stopped else self._take(limit)

    def _take(self, limit: int) -> list[Delivery]:
        group, origin = self._group, self._origin
        taken: list[Delivery] = []
        while group.ready and len(taken) < limit:
            entry = group.ready.popleft()
            if entry.settled:  # acknowledged late, by a worker that was overtaken
                continue
            entry.count += 1
            entry.holder = delivery = MemoryDelivery(entry, group.topic, origin)
            group.held.add(entry)
            taken.append(delivery)
        return taken

    async def stop_pulling(self) -> None:
        self._stopped = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            # No matter who holds it: the work is done (rule 5.4).
            self._settle(_entry(delivery))

    def _settle(self, entry: Entry) -> None:
        entry.settled = True
        entry.holder = None
        self._group.held.discard(entry)

    async def confirmed(self) -> None:
        """Acknowledgements are confirmed as they are made."""

    async def replace(self, delivery: Delivery, successor: Successor) -> Stored:
        entry = _entry(delivery)
        if entry.holder is not delivery:
            return Stored.OVERTAKEN
        # `max_length` has nothing to trim: a topic keeps only what somebody has still to read.
        stored = self._server.publish(successor.message)
        self._settle(entry)
        return stored

    async def give_back(
        self, deliveries: Sequence[Delivery], *, after: float = 0.0, spent: bool = True
    ) -> None:
        """What was tried queues at the end, so that a bad message does not stand before the
        others; what was not tried goes back to its place at the head."""
        self._server.require_open()
        group = self._group
        for delivery in deliveries if spent else reversed(deliveries):
            entry = _entry(delivery)
            if entry.holder is not delivery:
                continue
            entry.holder = None
            group.held.discard(entry)
            if not spent:
                entry.count -= 1
            if after > 0:
                group.add_later(entry, after)
            else:
                group.add(entry, first=not spent)

    async def close(self) -> None:
        await self.stop_pulling()


def _entry(delivery: Delivery) -> Entry:
    assert isinstance(delivery, MemoryDelivery), "a delivery of another transport"
    return delivery.entry


class MemoryTransport(Transport):
    """One memory broker in one run."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._published = 0

    async def connect(self, timeout: float) -> None:
        self._server.is_open = True

    async def subscribe(
        self, source: Source, terms: SubscriptionTerms, origin: Origin
    ) -> Subscription:
        assert isinstance(source, MemoryTopic), "the broker includes no other source"
        group = self._server.open_group(source.topic, source.group)
        return MemorySubscription(self._server, group, origin)

    async def publish(self, message: Outgoing) -> Stored:
        stored = self._server.publish(message)
        self._published += 1
        if self._published % BREATH == 0:
            # Nothing here ever waits: a loop that publishes would keep readers, timers and
            # signals from running until it ends.
            await asyncio.sleep(0)
        return stored

    async def close(self) -> None:
        self._server.close()

    @property
    def trouble(self) -> str | None:
        return None if self._server.is_open else "not connected"
