"""Whether several processes of one service can share its messages (rule 6.11)."""

from __future__ import annotations

from collections.abc import Sequence

from surestream.app import App
from surestream.errors import DeclarationError
from surestream.memory import MemoryBroker
from surestream.runtime.terms import Mounted

__all__ = ["refuse_sharing"]


def refuse_sharing(app: App, workers: int) -> None:
    """Raise ``DeclarationError`` where ``workers`` processes would each get every message, or
    none of the others'. Names the registrations, and what to write instead."""
    if workers == 1:
        return
    inside: list[Mounted] = []
    alone: list[Mounted] = []
    for broker in app.brokers:
        for mounted in broker.mounts:
            if isinstance(broker, MemoryBroker):
                inside.append(mounted)
            elif not mounted.abilities.competes:
                alone.append(mounted)
    instead = (
        f"one process, without --workers; include(…, workers={workers}) handles as many at a time"
    )
    if inside:
        raise DeclarationError(
            f"--workers {workers} with a MemoryBroker",
            why="it lives inside one process: each would have its own, and none would get what "
            "another publishes (rule 6.11)",
            write=f"{instead}; or a broker with a server",
            where=_sites(inside),
        )
    named = [mounted for mounted in alone if getattr(mounted.source, "consumer", None) is not None]
    if named:
        raise DeclarationError(
            f"--workers {workers} with {_sources(named)}",
            why="all processes would use the one consumer name, and take each other's messages "
            "(rule 6.11)",
            write=f"no consumer=, so that each process has a name of its own; or {instead}",
            where=_sites(named),
        )
    if alone:
        raise DeclarationError(
            f"--workers {workers} with {_sources(alone)}",
            why="processes do not share its messages: each would get every one (rule 6.11)",
            write=instead,
            where=_sites(alone),
        )


def _sources(mounts: Sequence[Mounted]) -> str:
    return ", ".join(_shown(mounted) for mounted in mounts)


def _shown(mounted: Mounted) -> str:
    source = mounted.source
    consumer = getattr(source, "consumer", None)
    named = "" if consumer is None else f", consumer={consumer!r}"
    return f"{type(source).__name__}({source.name!r}{named})"


def _sites(mounts: Sequence[Mounted]) -> str:
    return "; ".join(str(mounted.site) for mounted in mounts)
