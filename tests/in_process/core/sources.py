"""Sources for tests of the core, which can do whatever the test says they can."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from surestream import Key
from surestream.contract import Abilities, Counter, DelayMeans, RetryMeans, Source

__all__ = [
    "CHANNEL",
    "CLAIMING",
    "CORE",
    "LEAVING",
    "NATIVE",
    "PARKING",
    "STREAM",
    "BenchSource",
    "Place",
]

STREAM: Final = Abilities(
    retry=RetryMeans.COPY,
    capped_retry=RetryMeans.COPY,
    delay=DelayMeans.HELD,
    counter=Counter.HEADER,
    address=None,
    counts_crashes=True,
    recovers=True,
    lease=60.0,
)
"""Copies, the original held through the delay, orphans, a lease."""
PARKING: Final = dataclasses.replace(STREAM, delay=DelayMeans.PARKED)
CLAIMING: Final = dataclasses.replace(
    STREAM,
    retry=RetryMeans.GIVE_BACK,
    capped_retry=RetryMeans.GIVE_BACK,
    delay=DelayMeans.NATIVE,
    counter=Counter.SERVER,
    fixed_delay=30.0,
)
NATIVE: Final = dataclasses.replace(CLAIMING, fixed_delay=None, recovers=False, lease=None)
"""The server counts, gives back and gives back later."""
CORE: Final = Abilities(
    retry=RetryMeans.COPY,
    capped_retry=RetryMeans.COPY,
    delay=DelayMeans.TIMER,
    counter=Counter.HEADER,
    address=None,
    settles=False,
    gives_back=False,
    survives_kill=False,
)
"""Nothing to settle and nothing that stays."""
CHANNEL: Final = dataclasses.replace(CORE, retry=RetryMeans.NOTHING)
LEAVING: Final = dataclasses.replace(
    STREAM, retry=RetryMeans.LEAVE, counts_crashes=False, recovers=False, lease=None
)
"""An uncapped retry stays unacknowledged until the next session."""

Place: Final = Key("Place", str)
"""The address a message arrived at."""


@dataclass(frozen=True)
class BenchSource(Source):
    """Reads ``topic``; with ``wild`` a pattern that names no address of its own."""

    topic: str
    can: Abilities = STREAM
    group: str = "g"
    kind: str = "stream"
    wild: bool = False
    keeps: bool = True
    undecodable: str | None = None

    @property
    def name(self) -> str:
        return self.topic

    @property
    def family(self) -> str:
        return self.kind

    @property
    def abilities(self) -> Abilities:
        return dataclasses.replace(self.can, address=None if self.wild else self.topic)

    @property
    def rivals(self) -> object:
        return (self.kind, self.topic, self.group)

    @property
    def label(self) -> str:
        return f"{self.topic}/{self.group}"

    def reads(self, address: str) -> bool:
        return fnmatchcase(address, self.topic) if self.wild else address == self.topic

    @property
    def keeps_unread(self) -> bool:
        return self.keeps

    @property
    def quarantine(self) -> str | None:
        return self.undecodable
