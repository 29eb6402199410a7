"""What a service says of itself when it starts: what it reads, and what a retry means there."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator, Sequence
from typing import Final

from surestream.app import App
from surestream.cli.text import one_line, without_secrets
from surestream.contract import Abilities, DelayMeans, RetryMeans
from surestream.runtime.reports import span
from surestream.runtime.terms import Mounted

__all__ = ["banner", "describe", "losses"]

_DELAYS: Final = {
    DelayMeans.TIMER: "delays: in this process",
    DelayMeans.HELD: "delays: in this process",
    DelayMeans.PARKED: "delays: on the broker",
    DelayMeans.NATIVE: "delays: on the broker",
}

Line = tuple[int, str]
"""A logging level and one line."""


def banner(app: App, version: str, loop: str) -> Iterator[Line]:
    """The lines for the log: the service, its brokers, each subscription in two lines, and as
    warnings what a kill loses (rule 5.7)."""
    python = platform.python_version()
    yield _info(f"{app.title}/{app.version} on SureStream {version}, Python {python}, {loop}")
    if not app.brokers:
        yield _info("no broker was added: nothing to do (app.add(…))")
    for broker in app.brokers:
        shown = without_secrets(repr(broker))
        yield _info(shown if broker.mounts else f"{shown}: no handler is included on it")
        for mounted in broker.mounts:
            for line in describe(mounted):
                yield _info(f"  {line}")
        for line in losses(broker.mounts):
            yield logging.WARNING, one_line(f"{shown}: {line}")


def describe(mounted: Mounted) -> tuple[str, str]:
    """One subscription: who handles it; how often a message is tried, what ``retry()`` and
    ``retry_after()`` mean on this source and what becomes of what a kill leaves.

    Every word follows from what the source declares it can do, as the runtime's decisions do.
    """
    many = f" × {mounted.workers}" if mounted.workers > 1 else ""
    again = () if _runs_once(mounted) else (_retry(mounted), _delay(mounted.abilities))
    parts = [_tries(mounted), *again, _kill(mounted.abilities)]
    return (
        one_line(f"{mounted.name} → {mounted.site}{many}"),
        one_line(f"  {'; '.join(parts)}"),
    )


def losses(mounts: Sequence[Mounted]) -> Iterator[str]:
    """What a kill of the process loses, one line each, with the subscriptions that it holds for
    (rule 5.7)."""
    unsettled = [mounted for mounted in mounts if not mounted.abilities.survives_kill]
    delayed = [
        mounted
        for mounted in mounts
        if mounted.abilities.survives_kill and mounted.abilities.delay is DelayMeans.TIMER
    ]
    if unsettled:
        yield f"a kill loses what is under way or waits for a retry: {_names(unsettled)}"
    if delayed:
        yield f"a kill loses what waits for a retry: {_names(delayed)}"


def _info(text: str) -> Line:
    return logging.INFO, one_line(text)


def _names(mounts: Sequence[Mounted]) -> str:
    return ", ".join(dict.fromkeys(mounted.name for mounted in mounts))


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
    abilities = mounted.abilities
    means = abilities.retry if mounted.terms.max_attempts is None else abilities.capped_retry
    match means:
        case RetryMeans.COPY:
            target = mounted.retry_to or abilities.address
            return f"retry: a copy {'where retry_to says' if callable(target) else f'to {target}'}"
        case RetryMeans.GIVE_BACK if abilities.fixed_delay is not None:
            return f"retry: the same message after {span(abilities.fixed_delay)}"
        case RetryMeans.GIVE_BACK:
            return "retry: the same message"
        case RetryMeans.LEAVE:
            return "retry: the same message in the next session"
        case RetryMeans.NOTHING:
            return "a retry loses the message"


def _delay(abilities: Abilities) -> str:
    if abilities.delay is DelayMeans.NATIVE and abilities.fixed_delay is not None:
        return f"delays: always {span(abilities.fixed_delay)}"
    return _DELAYS[abilities.delay]


def _kill(abilities: Abilities) -> str:
    if not abilities.survives_kill:
        return "after a kill: lost"
    if abilities.recovers and abilities.lease is not None:
        return f"after a kill: again within {span(abilities.lease)}"
    return "after a kill: again"
