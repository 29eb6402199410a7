"""Copies that other groups of the same stream wrote for themselves (rule 4.7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, cast

from surestream.redis.entries import StreamDelivery
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.seat import Seat, read_mark
from surestream.runtime.reports import cut

__all__ = ["Marks", "group_names"]

_log = logging.getLogger("surestream.redis")

FRESH: Final = 1.0
"""Seconds for which the list of groups is believed."""
REMEMBERED: Final = 1_000
"""Marks that were warned about; beyond that many there are no further warnings."""


class Marks:
    """Decides which marked entries are none of this group's business."""

    def __init__(self, link: ReconnectingLink, seat: Seat) -> None:
        self._link = link
        self._seat = seat
        self._groups: frozenset[str] = frozenset()
        self._missing: set[str] = set()
        self._asked_at = -FRESH
        self._warned: set[bytes] = set()

    def foreign(self, delivery: StreamDelivery) -> bool:
        """Whether it carries a mark that is not this group's."""
        mark = delivery.mark
        return mark is not None and mark != self._seat.mark

    async def unseen(self, deliveries: Sequence[StreamDelivery]) -> list[StreamDelivery]:
        """Those among foreign ``deliveries`` to acknowledge without a look: copies that another
        existing group of this stream wrote. The others are warned about, once for each mark.

        Raises ``ConnectionLost`` or ``BrokerRefused`` where the server cannot be asked.
        """
        named = {delivery: self._group_named(delivery) for delivery in deliveries}
        wanted = {group for group in named.values() if group is not None}
        if wanted:
            await self._look(wanted)
        unseen: list[StreamDelivery] = []
        for delivery, group in named.items():
            if group is not None and group in self._groups:
                unseen.append(delivery)
            else:
                self._warn(delivery)
        return unseen

    def _group_named(self, delivery: StreamDelivery) -> str | None:
        named = read_mark(delivery.mark or b"")
        if named is None or named[0] != self._seat.key or named[1] == self._seat.group:
            return None
        return named[1]

    async def _look(self, wanted: set[str]) -> None:
        now = asyncio.get_running_loop().time()
        # A group that was just created may already write copies: a name is asked for at once the
        # first time, and after that as often as the others.
        if now - self._asked_at < FRESH and wanted <= self._groups | self._missing:
            return
        reply = await self._link.call("XINFO", "GROUPS", self._seat.stream)
        self._asked_at = now
        self._groups = frozenset(group_names(reply))
        self._missing = (wanted - self._groups) | set(list(self._missing)[:REMEMBERED])

    def _warn(self, delivery: StreamDelivery) -> None:
        mark = delivery.mark or b""
        if mark in self._warned or len(self._warned) >= REMEMBERED:
            return
        self._warned.add(mark)
        _log.warning(
            "%s %s: its mark %s names another stream, or a group that does not exist; ignored",
            self._seat.label,
            delivery.id,
            cut(mark),
        )


def group_names(reply: Reply) -> list[str]:
    """The names in what ``XINFO GROUPS`` answers."""
    names: list[str] = []
    for info in cast("list[list[Reply]]", reply or []):
        for index in range(0, len(info) - 1, 2):
            value = info[index + 1]
            if info[index] == b"name" and isinstance(value, bytes):
                names.append(value.decode("utf-8", "replace"))
    return names
