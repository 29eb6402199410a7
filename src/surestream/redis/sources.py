"""What a subscription to a Redis broker reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Self

from surestream.contract import Abilities, Counter, DelayMeans, RetryMeans, Source
from surestream.declaration import check_address
from surestream.delivery import Key
from surestream.errors import DeclarationError, DeclarationTypeError
from surestream.redis.checks import at_most, frozen, printable, starting_place, yes_or_no

__all__ = [
    "ClaimingStream",
    "ConsumerGroup",
    "DurableZset",
    "EntryId",
    "RedisSource",
    "RedisStream",
    "StreamKey",
    "StreamSource",
]

EntryId: Final = Key("EntryId", str)
"""The entry's id in its stream, such as ``1700000000000-0``."""
StreamKey: Final = Key("StreamKey", str)
"""The key of the stream a message was read from."""
ConsumerGroup: Final = Key("ConsumerGroup", str)
"""The consumer group it was delivered to."""

LONGEST_BLOCK: Final = 86_400.0
LONGEST_LEASE: Final = 30 * 86_400.0
LONGEST_TTL: Final = 100 * 366 * 86_400.0


class RedisSource(Source, ABC):
    """What :class:`~surestream.redis.broker.RedisBroker` can read."""


@dataclass(frozen=True, slots=True, init=False)
class DurableZset:
    """Keeps the delays of ``retry_after`` in a sorted set on the server, so that they survive a
    kill (rule 6.5). The score of a member is its due time in milliseconds of the server's clock.

    ``ttl`` (seconds or ``timedelta``; none by default) is how long the set outlives its last due
    member; an abandoned set is then gone by itself, and a delay longer than ``ttl`` is not lost.
    """

    key: str
    ttl: float | None

    def __init__(self, key: str, ttl: float | timedelta | None = None) -> None:
        frozen(self, "key", check_address(key, "DurableZset key"))
        span = None if ttl is None else at_most("DurableZset ttl", ttl, LONGEST_TTL)
        frozen(self, "ttl", span)

    @property
    def set_aside(self) -> str:
        """Where members go that cannot be read: a sorted set beside this one."""
        return f"{self.key}.unreadable"


@dataclass(frozen=True, slots=True, init=False)
class StreamSource(RedisSource):
    """A stream as one consumer group reads it: what the forms of reading have in common."""

    key: str
    group: str
    consumer: str | None
    block: float
    start: str
    delayed_retry: DurableZset | None
    delete_acknowledged: bool

    @property
    @abstractmethod
    def lease(self) -> float | None:
        """Seconds after which an entry that nobody touched is anybody's; ``None``: never."""

    @property
    def name(self) -> str:
        return self.key

    @property
    def family(self) -> str:
        return "stream"

    @property
    def label(self) -> str:
        return f"{self.key}/{self.group}"

    @property
    def rivals(self) -> object:
        return ("stream", self.key, self.group)

    def prefixed(self, prefix: str) -> Self:
        delays = self.delayed_retry
        if delays is not None:
            delays = replace(delays, key=prefix + delays.key)
        return replace(self, key=prefix + self.key, delayed_retry=delays)

    @property
    def structures(self) -> Mapping[str, str]:
        delays = self.delayed_retry
        if delays is None:
            return {}
        return dict.fromkeys((delays.key, delays.set_aside), "sorted set")

    @property
    def quarantine(self) -> str | None:
        return f"{self.key}.undecodable"


@dataclass(frozen=True, slots=True, init=False)
class RedisStream(StreamSource):
    """New entries of a stream, read by a consumer group (section 6, first row).

    A retry appends a copy of the entry and acknowledges the original. A delay waits in this
    process, the original staying pending, or on the server with ``delayed_retry=DurableZset(…)``.

    ``group``: the consumer group; created where it is not there yet.
    ``consumer``: a name of your own; what is pending on it from earlier runs is then taken back
    at the start, and only one process may use it. By default each process has a name of its own,
    and processes share the entries.
    ``block``: how long one read waits on the server (5 s; at most a day).
    ``start``: where a group begins that does not exist yet: "beginning" (the default), "new", or
    an entry id, which itself is not delivered.
    ``recover_after``: after how long an entry whose worker is gone is taken over (60 s; never
    sooner than the largest ``min_idle`` declared for the group); what is alive renews its claim
    every third of that (rules 6.2 and 6.4). ``None`` takes nothing over, for groups shared with
    other programs; what is handed back at a stop then stays pending until somebody claims it.
    ``delete_acknowledged``: acknowledged entries are deleted from the stream, so that it holds only
    what is still to be done. Only for a stream that nobody else reads: another group on it is
    refused at the start, and one that appears later ends the deleting, with a warning, until the
    next start. By default entries stay, and whoever publishes says how many (``maxlen=``).

    Durations are seconds or ``timedelta``. Raises ``DeclarationError`` (a ``ValueError``) or
    ``DeclarationTypeError`` (a ``TypeError``).
    """

    recover_after: float | None

    def __init__(
        self,
        key: str,
        *,
        group: str = "",
        consumer: str | None = None,
        block: float | timedelta = 5.0,
        start: str = "beginning",
        recover_after: float | timedelta | None = 60.0,
        delayed_retry: DurableZset | None = None,
        delete_acknowledged: bool = False,
    ) -> None:
        _declare(self, "RedisStream({})", key, group, consumer, block, start, delayed_retry)
        frozen(self, "delete_acknowledged", yes_or_no("delete_acknowledged", delete_acknowledged))
        lease = None
        if recover_after is not None:
            lease = at_most("recover_after", recover_after, LONGEST_LEASE)
        frozen(self, "recover_after", lease)

    @staticmethod
    def claiming(
        key: str,
        *,
        min_idle: float | timedelta,
        group: str = "",
        consumer: str | None = None,
        block: float | timedelta = 5.0,
        start: str = "beginning",
        delayed_retry: DurableZset | None = None,
        delete_acknowledged: bool = False,
    ) -> ClaimingStream:
        """A stream whose failed entries stay pending and are claimed again after ``min_idle``:
        see :class:`ClaimingStream`."""
        return ClaimingStream(
            key,
            min_idle=min_idle,
            group=group,
            consumer=consumer,
            block=block,
            start=start,
            delayed_retry=delayed_retry,
            delete_acknowledged=delete_acknowledged,
        )

    @property
    def lease(self) -> float | None:
        return self.recover_after

    @property
    def abilities(self) -> Abilities:
        return Abilities(
            retry=RetryMeans.COPY,
            capped_retry=RetryMeans.COPY,
            delay=DelayMeans.HELD if self.delayed_retry is None else DelayMeans.PARKED,
            counter=Counter.HEADER,
            address=self.key,
            counts_crashes=True,
            competes=self.consumer is None,
            recovers=self.recover_after is not None or self.consumer is not None,
            lease=self.recover_after,
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ClaimingStream(StreamSource):
    """Entries of a stream that nobody has touched for ``min_idle``, and new ones (section 6, row
    *claiming*): written ``RedisStream.claiming(key, min_idle=…, group=…)``.

    A retry copies nothing: the entry stays pending, and the same one is back after ``min_idle``.
    So is one whose worker died. The server counts the deliveries, crashes included (rule 3.1).
    A delay is always ``min_idle``: a shorter one is rounded up, a longer one cut down. With
    ``delayed_retry=DurableZset(…)`` the delay set serves it exactly.

    ``min_idle``: how long an entry stays untouched before it is claimed (at most 30 days). What is
    alive renews its claim every third of that (rule 6.2).
    ``consumer``: a name of your own, which only one process may use; what is pending on it is
    claimed after ``min_idle``, like any other's.
    ``group``, ``block``, ``start``, ``delete_acknowledged``: as on :class:`RedisStream`.

    Durations are seconds or ``timedelta``. Raises ``DeclarationError`` (a ``ValueError``) or
    ``DeclarationTypeError`` (a ``TypeError``).
    """

    min_idle: float

    def __init__(
        self,
        key: str,
        *,
        min_idle: float | timedelta,
        group: str = "",
        consumer: str | None = None,
        block: float | timedelta = 5.0,
        start: str = "beginning",
        delayed_retry: DurableZset | None = None,
        delete_acknowledged: bool = False,
    ) -> None:
        span = at_most("min_idle", min_idle, LONGEST_LEASE)
        frozen(self, "min_idle", span)
        form = f"RedisStream.claiming({{}}, min_idle={span:g})"
        _declare(self, form, key, group, consumer, block, start, delayed_retry)
        frozen(self, "delete_acknowledged", yes_or_no("delete_acknowledged", delete_acknowledged))

    @property
    def lease(self) -> float | None:
        return self.min_idle

    @property
    def abilities(self) -> Abilities:
        parking = Abilities(
            retry=RetryMeans.GIVE_BACK,
            capped_retry=RetryMeans.GIVE_BACK,
            delay=DelayMeans.PARKED,
            counter=Counter.SERVER,
            address=self.key,
            counts_crashes=True,
            competes=self.consumer is None,
            recovers=True,
            lease=self.min_idle,
            fixed_delay=self.min_idle,
        )
        if self.delayed_retry is not None:
            return parking
        return replace(parking, delay=DelayMeans.NATIVE, max_delay=self.min_idle)

    def __repr__(self) -> str:
        return (
            f"RedisStream.claiming({self.key!r}, min_idle={self.min_idle:g}, group={self.group!r})"
        )


def _declare(
    source: StreamSource,
    form: str,
    key: object,
    group: object,
    consumer: object,
    block: float | timedelta,
    start: object,
    delayed_retry: object,
) -> None:
    """Check and set what all forms of reading have. ``form``: how this one is written, the
    arguments up to the key left open."""
    checked = check_address(key, "stream key")
    frozen(source, "key", checked)
    written = form.format(f'"{checked}"')
    example = f'{written[:-1]}, group="{checked}")'
    if group == "":
        raise DeclarationError(
            f"{written} without group=",
            why="a stream is read by a consumer group, and the group needs a name",
            write=example,
        )
    frozen(source, "group", printable("group", group, example))
    if consumer is not None:
        write = f'consumer="{checked}-1", or leave it out for a name of each process\'s own'
        consumer = printable("consumer", consumer, write)
    frozen(source, "consumer", consumer)
    frozen(source, "block", at_most("block", block, LONGEST_BLOCK))
    frozen(source, "start", starting_place(start))
    frozen(source, "delayed_retry", _delay_set(delayed_retry, checked))


def _delay_set(value: object, key: str) -> DurableZset | None:
    if value is None:
        return None
    write = f'delayed_retry=DurableZset("{key}.delayed")'
    if not isinstance(value, DurableZset):
        raise DeclarationTypeError(
            f"delayed_retry={value!r}", why="delays are kept in a DurableZset", write=write
        )
    if key in (value.key, value.set_aside):
        raise DeclarationError(
            f'delayed_retry=DurableZset("{value.key}") of the stream "{key}"',
            why="one key cannot be a stream and a sorted set",
            write=write,
        )
    return value
