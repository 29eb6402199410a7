"""The table of section 6 once more, written from its text and not from the code.

A row says in plain words what happens to a message there. ``model.py`` turns the words into the
plan that the rules ask for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from surestream.contract import Abilities, Counter, DelayMeans, RetryMeans

MIN_IDLE = 30.0
"""What the claiming rows declare."""

Again = Literal["copy", "same message", "same message after min_idle", "next session", "gone"]
"""What an immediate retry does."""

Later = Literal["timer holding", "timer", "stored delay", "same message", "min_idle"]
"""What a delay does: a timer with or without the original held (5.5, 5.7), the broker's own."""

Counts = Literal["header", "server"]


@dataclass(frozen=True)
class Row:
    """One source of section 6."""

    name: str
    abilities: Abilities
    uncapped: Again
    capped: Again
    later: Later
    counts: Counts
    tells_crashes: bool
    """Rule 3.5 works here: the server's (or the lease's) count sees runs that died."""

    def __str__(self) -> str:
        return self.name


def _copying(
    address: str | None,
    *,
    retry: RetryMeans = RetryMeans.COPY,
    delay: DelayMeans = DelayMeans.TIMER,
    crashes: bool = False,
    settles: bool = True,
) -> Abilities:
    return Abilities(
        retry=retry,
        capped_retry=RetryMeans.COPY,
        delay=delay,
        counter=Counter.HEADER,
        address=address,
        settles=settles,
        counts_crashes=crashes,
        survives_kill=settles,
        recovers=crashes,
    )


def _counted(delay: DelayMeans, address: str, *, fixed: float | None = None) -> Abilities:
    return Abilities(
        retry=RetryMeans.GIVE_BACK,
        capped_retry=RetryMeans.GIVE_BACK,
        delay=delay,
        counter=Counter.SERVER,
        address=address,
        counts_crashes=True,
        fixed_delay=fixed,
    )


_STREAM = _copying("refunds", delay=DelayMeans.HELD, crashes=True)
_PARKING_STREAM = replace(_STREAM, delay=DelayMeans.PARKED)
_GOING = _copying("refunds", retry=RetryMeans.NOTHING, settles=False)
_QOS_1 = _copying("reports", retry=RetryMeans.LEAVE, delay=DelayMeans.HELD)
_CORE = _copying("refunds", settles=False)

ROWS: tuple[Row, ...] = (
    Row("RedisStream", _STREAM, "copy", "copy", "timer holding", "header", True),
    Row("RedisStream+zset", _PARKING_STREAM, "copy", "copy", "stored delay", "header", True),
    Row("reclaim", _STREAM, "copy", "copy", "timer holding", "header", True),
    Row("reclaim+zset", _PARKING_STREAM, "copy", "copy", "stored delay", "header", True),
    Row(
        "claiming",
        _counted(DelayMeans.NATIVE, "refunds", fixed=MIN_IDLE),
        "same message after min_idle",
        "same message after min_idle",
        "min_idle",
        "server",
        True,
    ),
    Row(
        "claiming+zset",
        _counted(DelayMeans.PARKED, "refunds", fixed=MIN_IDLE),
        "same message after min_idle",
        "same message after min_idle",
        "stored delay",
        "server",
        True,
    ),
    Row(
        "reliable list",
        _copying("refunds", retry=RetryMeans.GIVE_BACK, delay=DelayMeans.HELD, crashes=True),
        "same message",
        "copy",
        "timer holding",
        "header",
        True,
    ),
    Row("simple list", _GOING, "gone", "copy", "timer", "header", False),
    Row("pub/sub channel", _GOING, "gone", "copy", "timer", "header", False),
    Row("pub/sub pattern", replace(_GOING, address=None), "gone", "copy", "timer", "header", False),
    # Rule 5.6: the delay decides whether the acknowledgement is held back.
    Row("MqttTopic QoS 1", _QOS_1, "next session", "copy", "timer holding", "header", False),
    Row(
        "MqttTopic QoS 1 beyond hold",
        replace(_QOS_1, delay=DelayMeans.TIMER),
        "next session",
        "copy",
        "timer",
        "header",
        False,
    ),
    Row("MqttTopic QoS 0", _GOING, "gone", "copy", "timer", "header", False),
    Row(
        "MqttFilter QoS 1",
        replace(_QOS_1, address=None),
        "next session",
        "copy",
        "timer holding",
        "header",
        False,
    ),
    Row(
        "MqttFilter QoS 0", replace(_GOING, address=None), "gone", "copy", "timer", "header", False
    ),
    Row("CoreSubject", _CORE, "copy", "copy", "timer", "header", False),
    Row("CoreWildcard", replace(_CORE, address=None), "copy", "copy", "timer", "header", False),
    Row(
        "JetStreamSubject",
        _counted(DelayMeans.NATIVE, "payments.settle"),
        "same message",
        "same message",
        "same message",
        "server",
        True,
    ),
    Row(
        "memory",
        replace(_counted(DelayMeans.NATIVE, "orders"), counts_crashes=False, survives_kill=False),
        "same message",
        "same message",
        "same message",
        "server",
        True,
    ),
)

BY_NAME = {row.name: row for row in ROWS}
