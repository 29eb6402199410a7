"""One live subscription to a stream."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

from surestream.contract import Recovered, Stored, Subscription, Successor
from surestream.delivery import Delivery, Origin
from surestream.errors import SureStreamError
from surestream.message import HeaderPairs
from surestream.redis.acknowledgements import Acknowledgements
from surestream.redis.arrivals import Arrivals
from surestream.redis.deleting import Deletion
from surestream.redis.entries import StreamDelivery
from surestream.redis.groups import StreamGroup
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.seat import Seat
from surestream.redis.settlement import Settlement
from surestream.redis.sources import StreamSource

__all__ = ["StreamSubscription"]

_log = logging.getLogger("surestream.redis")

LAST_WORDS: Final = 5.0
"""Seconds that each step of closing may take."""


class StreamSubscription(Subscription):
    """Reads, recovers and settles for one consumer of one group.

    Built and opened by :class:`~surestream.redis.transport.RedisTransport`. ``command`` is shared
    with the whole transport, ``reading`` is this subscription's own and closed by it. ``cap``: how
    many deliveries a message gets; ``lease`` gives the seconds after which an entry is taken over;
    ``parked`` is told what was parked; ``closed`` is called at the end.
    """

    def __init__(
        self,
        source: StreamSource,
        seat: Seat,
        origin: Origin,
        *,
        command: ReconnectingLink,
        reading: ReconnectingLink,
        cap: int | None,
        lease: Callable[[], float | None],
        parked: Callable[[int, int], None],
        closed: Callable[[StreamSubscription], None],
        chance: random.Random,
    ) -> None:
        self.seat = seat
        self._command = command
        self._reading = reading
        self._closed = closed
        self._deletion = Deletion(command, seat, source.delete_acknowledged)
        self._acks = Acknowledgements(command, seat, self._deletion)
        self._group = StreamGroup(command, seat, source, origin, self._acks.unconfirmed)
        self._settlement = Settlement(
            command, seat, self._group, source, parked=parked, deletion=self._deletion
        )
        self._arrivals = Arrivals(
            source,
            seat,
            origin,
            command=command,
            reading=reading,
            group=self._group,
            acks=self._acks,
            cap=cap,
            lease=lease,
            uncount=self._settlement.uncount,
            chance=chance,
        )

    async def open(self) -> None:
        """Create the group. Raises ``BrokerRefused`` or ``ConnectionLost``."""
        await self._deletion.check()
        await self._group.create()
        self._arrivals.begin()

    @property
    def trouble(self) -> str | None:
        """Why it cannot do its work right now, or ``None``."""
        if not self._reading.up:
            return f"{self.seat.label}: not connected"
        fault = self._arrivals.trouble or self._acks.trouble
        return None if fault is None else f"{self.seat.label}: {fault}"

    async def pull(self, limit: int) -> Sequence[Delivery]:
        return await self._arrivals.pull(limit)

    async def stop_pulling(self) -> None:
        await self._arrivals.stop()

    async def recover(self, limit: int) -> Recovered:
        return await self._arrivals.recover(limit)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._acks.add(cast("Sequence[StreamDelivery]", deliveries))

    async def confirmed(self) -> None:
        await self._acks.eased()

    async def replace(self, delivery: Delivery, successor: Successor) -> Stored:
        return await self._settlement.replace(_ours(delivery), successor)

    async def park(self, delivery: Delivery, headers: HeaderPairs, delay: float) -> Stored:
        return await self._settlement.park(_ours(delivery), headers, delay)

    async def give_back(
        self, deliveries: Sequence[Delivery], *, after: float = 0.0, spent: bool = True
    ) -> None:
        """On claiming, ``spent`` is the retry: ``min_idle`` begins anew, whatever ``after``."""
        ours = [_ours(delivery) for delivery in deliveries]
        await self._settlement.give_back(ours, after=after, spent=spent)
        if not spent:
            self._arrivals.handed_back(ours)

    async def touch(self, deliveries: Sequence[Delivery]) -> None:
        held = [_ours(delivery) for delivery in deliveries]
        await self._settlement.touch(held + self._arrivals.waiting())

    async def close(self) -> None:
        why = "what was read and not started is not handed back"
        await self._within(logging.WARNING, why, self._hand_back)
        left = await self._acks.drained(LAST_WORDS if self._command.up else 0.0)
        self._acks.close()
        if left:
            _log.warning(
                "%s: %d acknowledgements are not confirmed; those messages may come again",
                self.seat.label,
                left,
            )
        # Harmless: it holds nothing, or must stay; others clean up.
        await self._within(logging.DEBUG, "the consumer stays behind", self._group.leave)
        await self._reading.close()
        self._closed(self)

    async def _hand_back(self) -> None:
        await self.stop_pulling()
        rest = await self._arrivals.left_over()
        if rest:
            await self._settlement.give_back(rest, after=0.0, spent=False)

    async def _within(self, level: int, why: str, step: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(LAST_WORDS):
                await step()
        except (SureStreamError, TimeoutError) as error:
            reason = str(error) or f"no answer in {LAST_WORDS:g} s"
            _log.log(level, "%s: %s: %s", self.seat.label, why, reason)


def _ours(delivery: Delivery) -> StreamDelivery:
    assert isinstance(delivery, StreamDelivery), "a delivery of another transport"
    return delivery
