"""What a service says of itself when it starts: what it reads, and what a retry means there."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Final

from surestream.app import App
from surestream.cli.text import one_line, without_secrets
from surestream.contract import Abilities, Counter, DelayMeans, RetryMeans
from surestream.runtime.reports import span
from surestream.runtime.terms import Mounted

__all__ = ["banner", "describe"]

_DELAYS: Final = {
    DelayMeans.TIMER: "a delay waits in this process and is lost in a kill",
    DelayMeans.HELD: "a delay waits in this process, the original unsettled until it is over",
    DelayMeans.PARKED: "a delay waits on the broker",
    DelayMeans.NATIVE: "a delay waits on the broker",
}


def banner(app: App, version: str, loop: str) -> Iterator[str]:
    """The lines for the log: the service, its brokers, each subscription (rule 5.7)."""
    yield (
        f"{app.title} {app.version} on SureStream {version}, "
        f"Python {platform.python_version()}, {loop}"
    )
    if not app.brokers:
        yield "no broker was added: nothing to do (app.add(…))"
    for broker in app.brokers:
        shown = one_line(without_secrets(repr(broker)))
        if not broker.mounts:
            yield f"{shown}: no handler is included on it"
        for mounted in broker.mounts:
            yield f"{shown}: {describe(mounted)}"


def describe(mounted: Mounted) -> str:
    """One subscription in one line: who handles it, how often a message is tried, what
    ``retry()`` and ``retry_after()`` mean on this source and what a kill loses.

    Every word follows from what the source declares it can do, as the runtime's decisions do.
    """
    parts = [
        _tries(mounted),
        _retry(mounted),
        _delay(mounted.abilities),
        _counter(mounted.abilities),
        _kill(mounted.abilities),
    ]
    many = f" × {mounted.workers}" if mounted.workers > 1 else ""
    return one_line(f"{mounted.name} → {mounted.site}{many}: {'; '.join(filter(None, parts))}")


def _tries(mounted: Mounted) -> str:
    cap, dead = mounted.terms.max_attempts, mounted.terms.dead_letter
    if cap is None:
        return "no limit of attempts" if dead is None else f"the first retry goes to {dead}"
    times = "1 attempt" if cap == 1 else f"{cap} attempts"
    return f"{times}, then {'rejected' if dead is None else f'to {dead}'}"


def _runs_once(mounted: Mounted) -> bool:
    """No retry ever runs the handler again."""
    cap, dead = mounted.terms.max_attempts, mounted.terms.dead_letter
    return cap == 1 or (cap is None and dead is not None)


def _retry(mounted: Mounted) -> str:
    if _runs_once(mounted):
        return ""
    abilities = mounted.abilities
    means = abilities.retry if mounted.terms.max_attempts is None else abilities.capped_retry
    match means:
        case RetryMeans.COPY:
            target = mounted.retry_to or abilities.address
            where = "where retry_to says" if callable(target) else f"to {target}"
            return f"a retry is a copy {where}"
        case RetryMeans.GIVE_BACK if abilities.fixed_delay is not None:
            return f"a retry is the same message after {span(abilities.fixed_delay)}"
        case RetryMeans.GIVE_BACK:
            return "a retry is the same message again"
        case RetryMeans.LEAVE:
            return "a retry is the same message in the next session"
        case RetryMeans.NOTHING:
            return "a retry loses the message"


def _delay(abilities: Abilities) -> str:
    if abilities.delay is DelayMeans.NATIVE and abilities.fixed_delay is not None:
        return f"a delay is always {span(abilities.fixed_delay)}"
    return _DELAYS[abilities.delay]


def _counter(abilities: Abilities) -> str:
    who = "in a header" if abilities.counter is Counter.HEADER else "by the broker"
    return f"attempts are counted {who}"


def _kill(abilities: Abilities) -> str:
    if not abilities.survives_kill:
        return "a kill loses what is unfinished"
    if abilities.recovers and abilities.lease is not None:
        return f"what a kill leaves is taken over after {span(abilities.lease)}"
    return "what a kill leaves is delivered again"
