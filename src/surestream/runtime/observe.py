"""What a run tells about itself while it works: for the test room's records and the demo."""

from __future__ import annotations

from surestream.contract import Stored
from surestream.delivery import Delivery
from surestream.message import Outgoing
from surestream.outcome import Outcome
from surestream.runtime.redelivery import Plan

__all__ = ["Observer"]


class Observer:
    """Receives every step of every delivery; each method does nothing unless overridden.

    Called synchronously on the event loop. A run without an observer pays nothing for it.
    """

    def arrived(self, delivery: Delivery) -> None:
        """A delivery was taken by a worker, before its payload is decoded."""

    def called(self, delivery: Delivery, attempt: int, value: object) -> None:
        """The handler is about to run with the decoded ``value``."""

    def returned(
        self, delivery: Delivery, outcome: Outcome | None, error: BaseException | None
    ) -> None:
        """The handler ended: what it decided, or what it raised and the outcome that maps to.
        ``outcome`` is ``None`` where the delivery stays unsettled."""

    def undecodable(self, delivery: Delivery, error: Exception) -> None:
        """The payload could not be decoded; no handler ran (rule 2.6)."""

    def planned(self, delivery: Delivery, plan: Plan, after: float) -> None:
        """The runtime decided what happens now, or in ``after`` seconds."""

    def settled(self, delivery: Delivery, plan: Plan, stored: Stored | None) -> None:
        """The plan was carried out (``stored`` for successors)."""

    def held(self, delivery: Delivery, error: Exception) -> None:
        """Storing a successor failed; the original stays unsettled and is tried again."""

    def published(self, message: Outgoing, kind: str) -> None:
        """A message was stored: ``kind`` is "publish", "copy", "dead letter", "delay",
        "quarantine" or "hand-over"."""
