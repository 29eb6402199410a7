"""What a transport supplies. The rules live in the runtime; a transport says what it *can* do
and carries out what it is told.

A transport author reads this page, then :mod:`surestream.memory` as the smallest example.
"""

from __future__ import annotations

import enum
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from surestream.delivery import Delivery, Origin
from surestream.errors import DeclarationTypeError
from surestream.message import HeaderPairs, Outgoing

__all__ = [
    "Abilities",
    "Counter",
    "DelayMeans",
    "Recovered",
    "RetryMeans",
    "RunContext",
    "Source",
    "Stored",
    "Subscription",
    "SubscriptionTerms",
    "Successor",
    "Transport",
]


class RetryMeans(enum.Enum):
    """How an immediate retry can be done on a source."""

    COPY = "a copy is published and the original settled"
    GIVE_BACK = "the broker hands the same message out again"
    LEAVE = "unacknowledged until the next session"
    NOTHING = "the message is gone"


class DelayMeans(enum.Enum):
    """Who keeps a delayed retry, and what a kill does to it."""

    TIMER = "the runtime's timer; a kill loses the copy"
    HELD = "the runtime's timer, the original unsettled until the copy is stored"
    PARKED = "the broker stores the delay"
    NATIVE = "the broker hands the same message out again, later"


class Counter(enum.Enum):
    """Who counts the attempts of a message (rule 3.1)."""

    HEADER = "the retry-count header"
    SERVER = "the server's delivery count"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one source can do. Feeds the decisions, the start-up checks and the documentation,
    so that they cannot disagree."""

    retry: RetryMeans
    """``retry()`` with neither cap nor dead letter declared."""
    capped_retry: RetryMeans
    """``retry()`` below a declared cap."""
    delay: DelayMeans
    counter: Counter
    address: str | None
    """Where copies go; ``None`` where the source reads many addresses (rule 4.2)."""
    settles: bool = True
    """A delivery can be acknowledged; otherwise taking it was all."""
    gives_back: bool = True
    """What was taken and not started can be handed back at a stop; otherwise it is handled
    first (rule 7.4)."""
    counts_crashes: bool = False
    """The server's count tells runs that died (rule 3.5)."""
    competes: bool = True
    """Several processes of one service share the messages (rule 6.11)."""
    survives_kill: bool = True
    """What is unsettled when the process is killed is delivered again."""
    recovers: bool = False
    """:meth:`Subscription.recover` finds what dead workers left behind (rule 6.4)."""
    lease: float | None = None
    """Seconds after which an untouched delivery may be taken over; touched every third of it
    (rule 6.2)."""
    fixed_delay: float | None = None
    """With native delays: the one wait there is, in seconds (claiming's ``min_idle``)."""
    max_delay: float = 100 * 366 * 86400.0
    """The longest delay, in seconds; longer ones are cut with a warning (rule 2.1)."""


@dataclass(frozen=True, slots=True)
class SubscriptionTerms:
    """What a mount declares that a transport has to know when it subscribes."""

    name: str
    """The subscription's name in logs and dead-letter details."""
    where: str
    """Handler, file and line, for refusals."""
    max_attempts: int | None = None
    dead_letter: str | None = None
    workers: int = 1
    batch: int | None = None


class Source(ABC):
    """What a subscription reads. Subclasses are frozen dataclasses without I/O; a source that
    cannot work raises ``DeclarationError`` when it is built."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What is read: key, topic, subject or filter."""

    @property
    @abstractmethod
    def family(self) -> str:
        """The structure ("stream", "list", "topic" …): dead letters keep it (rule 4.4)."""

    @property
    @abstractmethod
    def abilities(self) -> Abilities:
        """What this source can do, as declared."""

    @property
    @abstractmethod
    def rivals(self) -> object:
        """Equal for two subscriptions that compete for the same messages (same key and group);
        topology checks leave such pairs alone (rule 4.6)."""

    @property
    def label(self) -> str:
        """How logs name the subscription, such as ``refunds/refunds`` (key and group)."""
        return self.name

    def reads(self, address: str) -> bool:
        """Whether a message published to ``address`` arrives here, by the broker's own
        wildcard rules."""
        return address == self.name

    def prefixed(self, prefix: str) -> Self:
        """The same source with ``prefix`` before every address it names."""
        raise DeclarationTypeError(
            f"{type(self).__name__} in a Router with a prefix",
            why="this source does not say how its addresses take a prefix",
            write="Router() without prefix=",
        )

    @property
    def keeps_unread(self) -> bool:
        """Whether a message waits at an address of this family until somebody reads it; where
        it does not, a dead letter without a reader is gone (rule 4.6)."""
        return True

    @property
    def structures(self) -> Mapping[str, str]:
        """Further names that the source uses, with their family: one name is one structure
        (rule 4.4)."""
        return {}

    @property
    def quarantine(self) -> str | None:
        """The default address for payloads that cannot be decoded; ``None`` drops (rule 2.6)."""
        return None


class Stored(enum.Enum):
    """How storing a successor ended (all three: the runtime is done with the delivery)."""

    STORED = "stored, and the original settled"
    OVERTAKEN = "the message is settled or held by another: nothing was done (rule 5.4)"
    UNHEARD = "sent and settled, but nobody reads the address (rule 5.1)"


@dataclass(frozen=True, slots=True)
class Successor:
    """What takes the original's place: a copy, a parked delay, a dead letter or a reply.

    ``message`` carries the headers exactly as they shall be written, the retry count included;
    only marks of the transport's own (rule 4.7) are added by the transport.
    """

    message: Outgoing
    dead: bool = False
    """A dead letter: never marked, never deleted once settled."""
    max_length: int | None = None
    """Trim the target to about this many entries (quarantine)."""
    verbatim: bool = False
    """Write the original exactly as it came in, foreign fields included (quarantine)."""
    reply: bool = False
    """What a handler returned: nothing of the original travels with it (rule 4.10), no mark."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What :meth:`Subscription.recover` found."""

    deliveries: Sequence[Delivery] = ()
    more: bool = False
    """There is more to take at once."""
    next_in: float | None = None
    """Seconds until the next one may be taken over, where known."""


class Subscription(ABC):
    """One live subscription. Methods raise ``ConnectionLost`` or ``BrokerRefused``; the runtime
    tries again with back-off (rule 5.2), so each must be safe to repeat.

    ``pull`` has one caller at a time; everything else may be called at any time, also for
    deliveries that another worker has taken over meanwhile.
    """

    @abstractmethod
    async def pull(self, limit: int) -> Sequence[Delivery]:
        """Wait for new messages and return 1 to ``limit`` of them; nothing after
        :meth:`stop_pulling`, or now and then when none came. Outlives reconnections: waits
        while the connection is down, re-creates what the server lost (rule 6.6, 7.5). Raises
        only what cannot heal. Must not lose what it already took when it is cancelled."""

    @abstractmethod
    async def stop_pulling(self) -> None:
        """Ask for no more messages; a waiting :meth:`pull` returns what it has, soon."""

    async def recover(self, limit: int) -> Recovered:
        """Take over up to ``limit`` deliveries that dead workers left behind. Called by a free
        worker, never for read-ahead (rule 3.6)."""
        raise AssertionError("a source that recovers implements recover()")

    @abstractmethod
    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Settle: done. Written in this loop turn or the next, confirmed in the background,
        repeated after a lost connection; never raises."""

    @abstractmethod
    async def confirmed(self) -> None:
        """Wait until acknowledgements under way are few enough to go on (bounded memory)."""

    @abstractmethod
    async def replace(self, delivery: Delivery, successor: Successor) -> Stored:
        """Store the successor, then settle the original, in this order and in one step where
        the broker has one (rule 5.1). Does nothing for a delivery that was overtaken (rule
        5.4)."""

    async def park(self, delivery: Delivery, headers: HeaderPairs, delay: float) -> Stored:
        """With ``DelayMeans.PARKED``: store payload and ``headers`` to come back after
        ``delay`` seconds, then settle the original."""
        raise AssertionError("a source that parks implements park()")

    @abstractmethod
    async def give_back(
        self, deliveries: Sequence[Delivery], *, after: float = 0.0, spent: bool = True
    ) -> None:
        """Hand messages back unsettled. ``spent=False``: no handler ran, so the server's count
        is restored where that can be done (rule 7.4). ``after``: seconds, with native delays."""

    async def touch(self, deliveries: Sequence[Delivery]) -> None:
        """Renew the lease of deliveries that are still ours; skip the others (rule 6.2)."""

    @abstractmethod
    async def close(self) -> None:
        """After the last settlement: wait (bounded) for confirmations, then free everything.
        What was taken and never reported is given back, its count restored."""


class Transport(ABC):
    """One broker in one run."""

    @abstractmethod
    async def connect(self, timeout: float) -> None:
        """Connect, waiting up to ``timeout`` seconds for a server that is down. Raises
        ``ConnectFailed``."""

    @abstractmethod
    async def subscribe(
        self, source: Source, terms: SubscriptionTerms, origin: Origin
    ) -> Subscription:
        """Check the server, create what the subscription needs (group, consumer). Nothing is
        read before all subscriptions of the service exist (rule 6.6)."""

    @abstractmethod
    async def publish(self, message: Outgoing) -> Stored:
        """Publish; returns when the broker has confirmed. Concurrent calls are pipelined."""

    @abstractmethod
    async def close(self) -> None:
        """Flush and disconnect; a late call on anything of this transport raises
        ``ConnectionLost``."""

    @property
    @abstractmethod
    def trouble(self) -> str | None:
        """Why the connection is not usable right now, or ``None`` (rule 7.5)."""


@dataclass(slots=True)
class RunContext:
    """What a run gives to its transports."""

    service: str
    chance: random.Random
    """The one random source."""
    warn: Callable[[str], None]
    """A warning at start; under ``strict`` it refuses to start."""
    in_process: bool = False
    """Run against the in-process server of the transport (tests, demo)."""
    servers: dict[object, object] = field(default_factory=dict[object, object])
    """In-process servers of this run, by broker, so that tests can look into them."""
    addresses: Mapping[object, str] = field(default_factory=dict[object, str])
    """Servers of this run that are elsewhere than declared, as URLs by broker (live tests)."""
