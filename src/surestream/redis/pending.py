"""The pending list of a consumer group, as one subscription looks at it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from typing import Final

from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.scripted import PendingRow, pending_rows
from surestream.redis.seat import FIRST_ID, Seat

__all__ = ["PAGE", "PendingList"]

_log = logging.getLogger("surestream.redis")

LAST_ID: Final = b"+"
"""Above every entry."""
PAGE: Final = 100


class PendingList:
    """Reads the list page by page, which counts nothing, and tells of entries that are in it and no
    longer in the stream."""

    def __init__(self, link: ReconnectingLink, seat: Seat) -> None:
        self._link = link
        self._seat = seat
        self._ghosts: list[bytes] = []

    async def page(
        self,
        start: bytes = FIRST_ID,
        until: bytes = LAST_ID,
        *,
        idle_ms: int = 0,
        consumer: bytes = b"",
        size: int = PAGE,
    ) -> list[PendingRow]:
        """Up to ``size`` rows in the order of the ids, both ends included: those idle for
        ``idle_ms`` milliseconds at least, of one ``consumer`` or of all."""
        seat = self._seat
        options = ("IDLE", idle_ms) if idle_ms else ()
        whose = (consumer,) if consumer else ()
        return pending_rows(
            await self._link.call(
                "XPENDING", seat.stream, seat.group_name, *options, start, until, size, *whose
            )
        )

    async def pages(
        self,
        after: bytes = FIRST_ID,
        until: bytes = LAST_ID,
        *,
        idle_ms: int = 0,
        consumer: bytes = b"",
    ) -> AsyncIterator[list[PendingRow]]:
        """All rows above ``after``, a page at a time."""
        start = after if after == FIRST_ID else b"(" + after
        while True:
            rows = await self.page(start, until, idle_ms=idle_ms, consumer=consumer)
            if rows:
                yield rows
            if len(rows) < PAGE:
                return
            start = b"(" + rows[-1][0]

    def cleared(self, ghosts: Iterable[bytes]) -> None:
        """These were pending and no longer in the stream."""
        self._ghosts += ghosts

    def tell_of_ghosts(self) -> None:
        """One line for all that were cleared since the last one."""
        ghosts, self._ghosts = self._ghosts, []
        if ghosts:
            _log.warning(
                "%s: %d pending entries are no longer in the stream (deleted or trimmed: %s%s); "
                "cleared",
                self._seat.label,
                len(ghosts),
                b", ".join(ghosts[:3]).decode(),
                ", …" if len(ghosts) > 3 else "",
            )
