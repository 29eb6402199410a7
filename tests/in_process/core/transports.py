"""A broker for tests of the core, over the contract alone.

It outlives runs, so that a service can be stopped and started again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from surestream.broker import Broker
from surestream.contract import (
    Recovered,
    RunContext,
    Source,
    Stored,
    Subscription,
    SubscriptionTerms,
    Successor,
    Transport,
)
from surestream.delivery import Delivery, Origin
from surestream.message import HeaderPairs, Outgoing
from tests.in_process.core.bench import Bench, BenchDelivery, Entry
from tests.in_process.core.sources import BenchSource, Place

__all__ = ["BenchBroker", "BenchSubscription", "BenchTransport"]


class BenchSubscription(Subscription):
    """One reader of a group."""

    def __init__(self, bench: Bench, source: BenchSource, origin: Origin) -> None:
        self.bench = bench
        self.group = bench.group(source)
        self.group.readers += 1
        self.can = source.abilities
        self.origin = origin
        self.stopped = False
        self.closed = False

    async def pull(self, limit: int) -> Sequence[Delivery]:
        self.bench.asked.append(limit)
        while not self.group.ready and not self.stopped:
            self.group.bell.clear()
            await self.group.bell.wait()
        taken: list[Delivery] = []
        while self.group.ready and len(taken) < limit and not self.stopped:
            taken.append(self._hand_out(self.group.ready.popleft()))
        return taken

    def _hand_out(self, entry: Entry) -> Delivery:
        entry.count += 1
        entry.holder = BenchDelivery(entry, self.origin)
        if self.can.settles:
            self.group.held[entry] = None
        return entry.holder

    async def stop_pulling(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.group.readers -= 1
            self.group.bell.set()

    async def recover(self, limit: int) -> Recovered:
        self.bench.recovers += 1
        self.bench.require_up()
        orphans = self.group.orphans
        taken = [self._hand_out(orphans.popleft()) for _ in range(min(limit, len(orphans)))]
        return Recovered(taken, more=bool(orphans), next_in=self.bench.next_in)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        now = asyncio.get_running_loop().time()
        self.bench.written.append((now, [each.id for each in deliveries]))
        for delivery in deliveries:
            self._settle(delivery)

    def _settle(self, delivery: Delivery) -> None:
        assert isinstance(delivery, BenchDelivery)
        self.group.held.pop(delivery.entry, None)

    async def confirmed(self) -> None:
        pass

    def _mine(self, delivery: Delivery) -> bool:
        assert isinstance(delivery, BenchDelivery)
        return delivery.entry.holder is delivery and delivery.entry in self.group.held

    async def replace(self, delivery: Delivery, successor: Successor) -> Stored:
        self.bench.require_up()
        if self.can.settles and not self._mine(delivery):
            return Stored.OVERTAKEN
        stored = self.bench.store(successor.message)
        self._settle(delivery)
        return stored

    async def park(self, delivery: Delivery, headers: HeaderPairs, delay: float) -> Stored:
        self.bench.require_up()
        message = Outgoing(delivery.address, delivery.payload, headers)
        refusal = self.bench.refuses(message)
        if refusal is not None:
            raise refusal
        loop = asyncio.get_running_loop()
        loop.call_later(delay, lambda: self.bench.store(message, marked=True))
        self._settle(delivery)
        return Stored.STORED

    async def give_back(
        self, deliveries: Sequence[Delivery], *, after: float = 0.0, spent: bool = True
    ) -> None:
        self.bench.require_up()
        for delivery in deliveries:
            assert isinstance(delivery, BenchDelivery)
            self.bench.returned.append((delivery.id, after, spent))
            if not self._mine(delivery):
                continue
            entry = delivery.entry
            self.group.held.pop(entry)
            entry.count -= not spent
            if after > 0:
                asyncio.get_running_loop().call_later(after, self.group.add, entry)
            elif self.can.recovers:
                # As a pending list does: in the order of the ids.
                ordered = sorted([*self.group.orphans, entry], key=lambda one: int(one.id))
                self.group.orphans = deque(ordered)
            else:
                self.group.add(entry, first=not spent)

    async def touch(self, deliveries: Sequence[Delivery]) -> None:
        self.bench.require_up()
        now = asyncio.get_running_loop().time()
        self.bench.touched.append((now, [each.id for each in deliveries if self._mine(each)]))

    async def close(self) -> None:
        self.closed = True
        await self.stop_pulling()
        self.bench.events.append(f"close {self.group.source.label}")


class BenchTransport(Transport):
    """The bench in one run."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.name = name

    async def connect(self, timeout: float) -> None:
        self.bench.events.append(f"connect {self.name}")
        self.bench.require_up()

    async def subscribe(
        self, source: Source, terms: SubscriptionTerms, origin: Origin
    ) -> Subscription:
        assert isinstance(source, BenchSource)
        self.bench.events.append(f"subscribe {source.label}")
        return self.subscription(source, origin)

    def subscription(self, source: BenchSource, origin: Origin) -> BenchSubscription:
        return BenchSubscription(self.bench, source, origin)

    async def publish(self, message: Outgoing) -> Stored:
        return self.bench.store(message)

    async def close(self) -> None:
        self.bench.events.append(f"disconnect {self.name}")

    @property
    def trouble(self) -> str | None:
        return f"{self.name} is down" if self.bench.down else None


class BenchBroker(Broker[BenchSource]):
    """The declaration; its server outlives runs."""

    source_type = BenchSource
    known_keys = frozenset({Place})

    def __init__(self, bench: Bench | None = None, *, name: str = "bench") -> None:
        super().__init__()
        self.bench = bench or Bench()
        self.name = name

    def transport(self, context: RunContext) -> Transport:
        context.servers[self] = self.bench
        return BenchTransport(self.bench, self.name)
