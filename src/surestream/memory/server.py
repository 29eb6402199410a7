"""The store behind a memory broker: one queue for each group that reads a topic.

It lives as long as its run. Tests find it in ``run.context.servers[broker]`` and may look at
every attribute, also when the run is over.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from typing import Final

from surestream.contract import Stored
from surestream.errors import ConnectionLost
from surestream.message import Outgoing

__all__ = ["Entry", "MemoryGroup", "MemoryServer"]

UNHEARD_KEPT: Final = 1_000


class Entry:
    """One message in one group's queue."""

    __slots__ = ("count", "holder", "message", "number", "settled")

    def __init__(self, number: int, message: Outgoing) -> None:
        self.number = number
        """The same in every group that got the message; rises by one with each publish."""
        self.message = message
        self.count = 0
        """How often it was handed out."""
        self.holder: object | None = None
        """The delivery that holds it now: an older one was overtaken (rule 5.4)."""
        self.settled = False


class MemoryGroup:
    """What one group has still to do on one topic. Several readers of it compete."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.ready: deque[Entry] = deque()
        """First in, first out."""
        self.held: set[Entry] = set()
        """Handed out and not settled."""
        self.delayed: dict[Entry, asyncio.TimerHandle] = {}
        """Given back for later; ``handle.when()`` is the loop time at which each is due."""
        self.waiters: set[asyncio.Future[None]] = set()

    def add(self, entry: Entry, *, first: bool = False) -> None:
        """Queue behind everything that is ready, or before it."""
        if first:
            self.ready.appendleft(entry)
        else:
            self.ready.append(entry)
        self.wake()

    def add_later(self, entry: Entry, after: float) -> None:
        """Queue in ``after`` seconds of the loop's clock."""
        self.delayed[entry] = asyncio.get_running_loop().call_later(after, self._due, entry)

    def _due(self, entry: Entry) -> None:
        del self.delayed[entry]
        self.add(entry)

    def wake(self) -> None:
        """Let all waiting readers look: one alone might just be cancelled, and the message
        would lie there with nobody looking."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)


class MemoryServer:
    """All topics of one memory broker in one run.

    A group gets what is published once it exists; the groups of a service all exist before
    anything is read. What nobody reads is answered ``Stored.UNHEARD``, and the last 1,000 such
    messages stay in :attr:`unheard`.
    """

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, MemoryGroup]] = {}
        """Topic → group → queue."""
        self.unheard: deque[Outgoing] = deque(maxlen=UNHEARD_KEPT)
        self.is_open = False
        self._numbers = itertools.count(1)

    def open_group(self, topic: str, name: str) -> MemoryGroup:
        """The queue of group ``name``, created where it is not there yet."""
        self.require_open()
        return self.topics.setdefault(topic, {}).setdefault(name, MemoryGroup(topic))

    def publish(self, message: Outgoing) -> Stored:
        """Queue ``message`` for every group of its topic."""
        self.require_open()
        groups = self.topics.get(message.address)
        if not groups:
            self.unheard.append(message)
            return Stored.UNHEARD
        number = next(self._numbers)
        for group in groups.values():
            group.add(Entry(number, message))
        return Stored.STORED

    def require_open(self) -> None:
        """Raise ``ConnectionLost`` before the start and after the end of the run."""
        if not self.is_open:
            raise ConnectionLost("the memory broker is not connected")

    def close(self) -> None:
        """Hand out nothing any more; what is left stays to be looked at."""
        self.is_open = False
        for groups in self.topics.values():
            for group in groups.values():
                for handle in group.delayed.values():
                    handle.cancel()
                group.wake()
