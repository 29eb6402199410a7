"""The server behind the tests of the core, with everything to look at."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from surestream import BrokerRefused, ConnectionLost, DecodeError, Delivery, Key
from surestream.contract import Stored
from surestream.delivery import Origin
from surestream.message import HeaderPairs, Outgoing, is_reserved
from tests.in_process.core.sources import BenchSource, Place

__all__ = ["Bench", "BenchDelivery", "Entry", "Group"]


class Entry:
    """One message in one group."""

    def __init__(self, number: int, message: Outgoing, count: int = 0) -> None:
        self.id = str(number)
        self.message = message
        self.count = count
        self.marked = False
        self.fault: DecodeError | None = None
        self.holder: BenchDelivery | None = None


class BenchDelivery(Delivery):
    """One hand-over of an entry."""

    __slots__ = ("entry",)

    def __init__(self, entry: Entry, origin: Origin) -> None:
        special = entry.count > 1 or entry.fault is not None or entry.marked
        special = special or any(is_reserved(name) for name, _ in entry.message.headers)
        super().__init__(entry.message.payload, origin, server_count=entry.count, special=special)
        self.entry = entry

    @property
    def id(self) -> str:
        return self.entry.id

    @property
    def address(self) -> str:
        return self.entry.message.address

    @property
    def marked(self) -> bool:
        return self.entry.marked

    @property
    def fault(self) -> DecodeError | None:
        return self.entry.fault

    def read_headers(self) -> HeaderPairs:
        return self.entry.message.headers

    def fact(self, key: Key[Any]) -> object:
        if key is Place:
            return self.address
        raise KeyError(key)


@dataclass
class Group:
    """What one group has to do."""

    source: BenchSource
    ready: deque[Entry] = field(default_factory=deque[Entry])
    held: dict[Entry, None] = field(default_factory=dict[Entry, None])
    orphans: deque[Entry] = field(default_factory=deque[Entry])
    """Left behind by dead workers."""
    readers: int = 0
    bell: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, entry: Entry, *, first: bool = False) -> None:
        if first:
            self.ready.appendleft(entry)
        else:
            self.ready.append(entry)
        self.bell.set()


class Bench:
    """The server."""

    def __init__(self) -> None:
        self.groups: dict[object, Group] = {}
        self.stored: list[Outgoing] = []
        """Everything that was published, parked aside."""
        self.events: list[str] = []
        """Connecting, subscribing, closing, in order."""
        self.written: list[tuple[float, list[str]]] = []
        """When which ids were acknowledged, a line a call."""
        self.touched: list[tuple[float, list[str]]] = []
        self.returned: list[tuple[str, float, bool]] = []
        """Id, ``after`` and ``spent`` of what was given back."""
        self.asked: list[int] = []
        """The limits of the pulls."""
        self.recovers: int = 0
        """How often somebody looked for orphans."""
        self.down = False
        """Everything that asks the server for something raises ``ConnectionLost``."""
        self.refuses: Callable[[Outgoing], Exception | None] = lambda message: None
        """What storing a message raises."""
        self.next_in: float | None = None
        self._numbers = itertools.count(1)

    # -- for tests ------------------------------------------------------------------------

    def at(self, address: str) -> list[Outgoing]:
        """What was stored at ``address``."""
        return [message for message in self.stored if message.address == address]

    def orphan(
        self, source: BenchSource, payload: bytes, *, deaths: int = 1, headers: HeaderPairs = ()
    ) -> Entry:
        """A message that ``deaths`` workers took and died with."""
        entry = Entry(next(self._numbers), Outgoing(source.topic, payload, headers), deaths)
        self.group(source).orphans.append(entry)
        return entry

    def ready(
        self, source: BenchSource, payload: bytes, *, count: int = 0, headers: HeaderPairs = ()
    ) -> Entry:
        """A message for one group, handed out ``count`` times before."""
        entry = Entry(next(self._numbers), Outgoing(source.topic, payload, headers), count)
        self.group(source).add(entry)
        return entry

    def refuse(self, address: str, message: str = "no", *, permanent: bool = False) -> None:
        """Refuse whatever goes to ``address``."""
        self.refuses = lambda outgoing: (
            BrokerRefused(message, permanent=permanent) if outgoing.address == address else None
        )

    def take_all(self) -> None:
        """Refuse nothing any more."""
        self.refuses = lambda message: None

    # -- the server -----------------------------------------------------------------------

    def group(self, source: BenchSource) -> Group:
        return self.groups.setdefault(source.rivals, Group(source))

    def store(self, message: Outgoing, *, marked: bool = False) -> Stored:
        self.require_up()
        refusal = self.refuses(message)
        if refusal is not None:
            raise refusal
        self.stored.append(message)
        heard = False
        for group in self.groups.values():
            if group.source.reads(message.address) and (group.readers or group.source.keeps):
                heard = True
                entry = Entry(next(self._numbers), message)
                entry.marked = marked
                group.add(entry)
        return Stored.STORED if heard else Stored.UNHEARD

    def require_up(self) -> None:
        if self.down:
            raise ConnectionLost("the bench is down")
