"""Messages that wait for a successor which cannot be stored yet, bounded (rule 5.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from surestream.delivery import Delivery

__all__ = ["Holding"]

MAX_BYTES = 64 * 1024 * 1024


class Holding:
    """What is neither settled nor running because its successor is under way or refused.

    ``changed`` is called when the bound is reached and when there is room again.
    """

    def __init__(self, max_count: int, changed: Callable[[], None]) -> None:
        self._max_count = max_count
        self._changed = changed
        self._held: dict[Delivery, None] = {}
        self._bytes = 0
        self.refused = 0
        """How many of them the broker refused for good (a gauge for health)."""

    def add(self, delivery: Delivery) -> None:
        """Hold ``delivery``."""
        was_full = self.full
        if delivery not in self._held:
            self._held[delivery] = None
            self._bytes += len(delivery.payload)
        if self.full and not was_full:
            self._changed()

    def remove(self, delivery: Delivery) -> None:
        """Its successor is stored, or the message is no longer ours."""
        was_full = self.full
        if delivery in self._held:
            del self._held[delivery]
            self._bytes -= len(delivery.payload)
        if was_full and not self.full:
            self._changed()

    @property
    def full(self) -> bool:
        """Whether intake has to pause."""
        return len(self._held) >= self._max_count or self._bytes >= MAX_BYTES

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._held)
