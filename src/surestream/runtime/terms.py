"""Everything the runtime needs to know about one mounted handler, worked out once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from surestream.codec import Codec
from surestream.contract import Abilities, Source
from surestream.declaration import DetailLevel, RetryTo
from surestream.delivery import Delivery
from surestream.errors import Site
from surestream.middleware import Middleware
from surestream.outcome import Outcome
from surestream.runtime.calls.calling import CallPlan
from surestream.runtime.failures import ErrorPolicy
from surestream.runtime.redelivery import Terms

__all__ = ["ByKey", "Mounted"]

ByKey = str | Callable[[Delivery], object]
"""What keeps order: a header's name, or a function of the delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """One handler on one source, as declared and checked."""

    source: Source
    abilities: Abilities
    """What the source can do, asked once."""
    site: Site
    """Where the handler was included."""
    handler: object
    call: CallPlan
    codec: Codec
    terms: Terms
    errors: ErrorPolicy
    retry_to: RetryTo | None = None
    reply_to: RetryTo | None = None
    on_decode_error: Outcome | None = None
    quarantine: str | None = None
    details: DetailLevel = "short"
    hand_over: bool = True
    hold_limit: float = 3600.0
    max_unsettled: int = 1000
    workers: int = 1
    by_key: ByKey | None = None
    timeout: float | None = None
    middleware: tuple[Middleware, ...] = ()

    @property
    def name(self) -> str:
        """How logs and dead letters call the subscription."""
        return self.source.label
