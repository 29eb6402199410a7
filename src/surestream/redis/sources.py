"""What a subscription to a Redis broker reads."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Self

from surestream.contract import Abilities, Counter, DelayMeans, RetryMeans, Source
from surestream.declaration import check_address, duration
from surestream.delivery import Key
from surestream.errors import DeclarationError, DeclarationTypeError

__all__ = ["ConsumerGroup", "DurableZset", "EntryId", "RedisSource", "RedisStream", "StreamKey"]

EntryId: Final = Key("EntryId", str)
"""The entry's id in its stream, such as ``1700000000000-0``."""
StreamKey: Final = Key("StreamKey", str)
"""The key of the stream a message was read from."""
ConsumerGroup: Final = Key("ConsumerGroup", str)
"""The consumer group it was delivered to."""

LONGEST_BLOCK: Final = 86_400.0
LONGEST_LEASE: Final = 30 * 86_400.0
LONGEST_TTL: Final = 100 * 366 * 86_400.0
_ID: Final = re.compile(r"[0-9]{1,20}(-[0-9]{1,20})?")


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
        _set(self, "key", check_address(key, "DurableZset key"))
        span = None if ttl is None else _at_most("DurableZset ttl", ttl, LONGEST_TTL)
        _set(self, "ttl", span)

    @property
    def set_aside(self) -> str:
        """Where members go that cannot be read: a sorted set beside this one."""
        return f"{self.key}.unreadable"


@dataclass(frozen=True, slots=True, init=False)
class RedisStream(RedisSource):
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
    ``recover_after``: after how long an entry whose worker is gone is taken over (60 s); what is
    alive renews its claim every third of that (rules 6.2 and 6.4). ``None`` takes nothing over,
    for groups shared with other programs; what is handed back at a stop then stays pending until
    somebody claims it.

    Durations are seconds or ``timedelta``. Raises ``DeclarationError`` (a ``ValueError``) or
    ``DeclarationTypeError`` (a ``TypeError``).
    """

    key: str
    group: str
    consumer: str | None
    block: float
    start: str
    recover_after: float | None
    delayed_retry: DurableZset | None

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
    ) -> None:
        _set(self, "key", check_address(key, "stream key"))
        example = f'RedisStream("{key}", group="{key}")'
        if group == "":
            raise DeclarationError(
                f'RedisStream("{key}") without group=',
                why="a stream is read by a consumer group, and the group needs a name",
                write=example,
            )
        _set(self, "group", _name("group", group, example))
        if consumer is not None:
            write = f'consumer="{key}-1", or leave it out for a name of each process\'s own'
            consumer = _name("consumer", consumer, write)
        _set(self, "consumer", consumer)
        _set(self, "block", _at_most("block", block, LONGEST_BLOCK))
        _set(self, "start", _start(start))
        lease = None
        if recover_after is not None:
            lease = _at_most("recover_after", recover_after, LONGEST_LEASE)
        _set(self, "recover_after", lease)
        _set(self, "delayed_retry", _delay_set(delayed_retry, key))

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


def _set(target: object, name: str, value: object) -> None:
    object.__setattr__(target, name, value)


def _at_most(name: str, value: float | timedelta, limit: float) -> float:
    span = duration(name, value)
    if span > limit:
        raise DeclarationError(
            f"{name}={value!r}",
            why=f"it is {limit / 86_400:,.0f} days ({limit:,.0f} s) at most",
            write=f"{name} in seconds, or as a timedelta",
        )
    return span


def _name(setting: str, value: object, write: str) -> str:
    if not isinstance(value, str):
        raise DeclarationTypeError(f"{setting}={value!r}", why="a name is text", write=write)
    if not value.strip() or not value.isprintable():
        raise DeclarationError(
            f"{setting}={value!r}", why="a name has to be printable, and not blank", write=write
        )
    return value


def _start(value: object) -> str:
    write = 'start="beginning", start="new" or an entry id such as start="1700000000000-0"'
    if not isinstance(value, str):
        raise DeclarationTypeError(f"start={value!r}", why="it is a word or an id", write=write)
    if value in ("beginning", "new"):
        return value
    parts = value.split("-")
    if _ID.fullmatch(value) is None or any(int(part) >= 2**64 for part in parts):
        raise DeclarationError(f"start={value!r}", why="it is no place in a stream", write=write)
    return value


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
