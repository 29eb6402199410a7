"""Deleting what is acknowledged (``delete_acknowledged``, case MG-01)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import cast

from surestream.contract import SubscriptionTerms
from surestream.errors import BrokerRefused, DeclarationError
from surestream.redis.entries import StreamDelivery
from surestream.redis.errors import NotPermitted, RedisRefusal, WrongType
from surestream.redis.marks import group_names
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.scripted import ACKNOWLEDGE
from surestream.redis.seat import Seat
from surestream.redis.sources import StreamSource

__all__ = ["Deletion", "refuse_second_group"]

_log = logging.getLogger("surestream.redis")

_STAYS, _COPY, _DELETED = 0, 1, 2
_KEPT = "what it has not read would be deleted under it"


class Deletion:
    """Whether one subscription deletes what it acknowledged.

    The server decides for each batch, in one step with the acknowledgement: only where the
    subscription's group is the only one of the stream. A group that appears later ends it for the
    rest of the run.
    """

    def __init__(self, link: ReconnectingLink, seat: Seat, wanted: bool) -> None:
        self._link = link
        self._seat = seat
        self.active = wanted

    async def check(self) -> None:
        """At the start, before anything is created. Raises ``BrokerRefused`` where another group
        reads the stream, or where deleting is not permitted."""
        if not self.active:
            return
        stream, label = self._seat.stream, self._seat.label
        try:
            groups = group_names(await self._link.call("XINFO", "GROUPS", stream))
            # Harmless, and refused here where it would be refused later.
            await self._link.call("XDEL", stream, "0-0")
        except NotPermitted as error:
            raise BrokerRefused(
                f"{label}: delete_acknowledged=True: {error}", permanent=True
            ) from error
        except WrongType:
            return  # told when the group is created
        except RedisRefusal as error:
            if "no such key" not in error.message:
                raise
            return
        others = sorted(name for name in groups if name != self._seat.group)
        if others:
            raise BrokerRefused(
                f"{label}: delete_acknowledged=True, but the stream has another group "
                f"({_listed(others)}): {_KEPT}; leave the option out, or remove that group "
                f"(XGROUP DESTROY {self._seat.key} {others[0]})",
                permanent=True,
            )

    def acknowledge(self, ids: Sequence[bytes], copies: Sequence[bytes]) -> asyncio.Future[Reply]:
        """Acknowledge ``ids`` and delete them; ``copies`` among them, copies of our own, also
        where there are other groups (rule 4.7)."""
        always = set(copies)
        rest = [entry for entry in ids if entry not in always]
        args = (self._seat.group_name, len(copies), *copies, *rest)
        return self._link.script(ACKNOWLEDGE, (self._seat.stream,), args)

    def how(self, delivery: StreamDelivery) -> int:
        """What the scripts of *fence.lua* are told about an entry that is settled."""
        if delivery.marked:
            return _COPY
        return _DELETED if self.active else _STAYS

    async def settle(self, delivery: StreamDelivery) -> None:
        """Acknowledge one entry outside of a script, and delete it where that is due."""
        ids = (delivery.entry,)
        if self.active or delivery.marked:
            self.look(await self.acknowledge(ids, ids if delivery.marked else ()))
        else:
            await self._link.call("XACK", self._seat.stream, self._seat.group_name, *ids)

    def look(self, reply: Reply) -> bytes | None:
        """What the server answered; ends the deleting where there are other groups. Returns why
        the entries were not deleted, where that is a fault."""
        if isinstance(reply, bytes):
            return reply
        others = sorted(name.decode("utf-8", "replace") for name in cast("list[bytes]", reply))
        if others and self.active:
            self.active = False
            _log.warning(
                "%s: nothing is deleted any more: the stream has another group now (%s), and %s. "
                "Entries acknowledged from now on stay in the stream",
                self._seat.label,
                _listed(others),
                _KEPT,
            )
        return None


def refuse_second_group(
    source: StreamSource, beside: Iterable[StreamSource], terms: SubscriptionTerms
) -> None:
    """Two groups of one service on a stream from which one of them deletes."""
    for other in beside:
        if other.key != source.key or other.group == source.group:
            continue
        if source.delete_acknowledged or other.delete_acknowledged:
            deleting = source if source.delete_acknowledged else other
            raise DeclarationError(
                f'delete_acknowledged=True of {deleting.label} beside group "'
                f'{(other if deleting is source else source).group}"',
                why=f'both read the stream "{source.key}", and for the other group '
                "what it has not read would be deleted under it",
                write=f'RedisStream("{source.key}", group="{deleting.group}"), without the option',
                where=terms.where,
            )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
