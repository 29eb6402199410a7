"""How a run is: starting, running, degraded, stopping, stopped or failed (rule 7.5)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Health", "Phase"]


class Phase(enum.Enum):
    """Where a run is in its life."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Health:
    """A snapshot. ``reasons`` says why a running service is degraded; empty means well."""

    phase: Phase
    reasons: tuple[str, ...] = ()

    @property
    def degraded(self) -> bool:
        """Running, but something is wrong: a connection is down, or messages are held."""
        return self.phase is Phase.RUNNING and bool(self.reasons)

    @property
    def ready(self) -> bool:
        """Messages are being handled."""
        return self.phase is Phase.RUNNING and not self.reasons

    def __str__(self) -> str:
        if not self.reasons:
            return self.phase.value
        return f"{'degraded' if self.degraded else self.phase.value}: {'; '.join(self.reasons)}"
