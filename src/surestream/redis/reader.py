"""Blocking reads of one subscription, on a connection of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar, cast

from surestream.errors import ConnectionLost
from surestream.redis.entries import RawEntry
from surestream.redis.errors import RedisRefusal
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.seat import Seat

__all__ = ["StreamReader", "outlive"]

MARGIN: Final = 8.0
"""Seconds beyond its block after which a read without a reply means a dead connection."""
LATER_LOOK: Final = 60.0

_T = TypeVar("_T")


async def outlive(future: asyncio.Future[_T]) -> None:
    """Wait until ``future`` is done; cancelling the wait leaves it alone."""
    if future.done():
        return
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: asyncio.Future[_T]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    future.add_done_callback(wake)
    try:
        await waiter
    finally:
        future.remove_done_callback(wake)


class StreamReader:
    """Keeps at most one read under way, whoever waits for it: a reply is never dropped, for the
    server has counted it as delivered."""

    def __init__(
        self, link: ReconnectingLink, command: ReconnectingLink, seat: Seat, block: float
    ) -> None:
        self._link = link
        self._command = command
        self._seat = seat
        self._block = block
        self._block_ms = max(1, round(block * 1000))
        self._read: asyncio.Future[Reply] | None = None
        self._generation = link.generation
        self._looks_due: list[float] = []

    @property
    def busy(self) -> bool:
        """Whether a read is under way, or its reply is not fetched yet."""
        return self._read is not None

    def replies_lost(self) -> bool:
        """Whether entries may have been delivered to this consumer in a reply that never came
        (rule 6.4): after each reconnection, and once more when a read that the server still has on
        the old connection must have ended. Asked once, answered once."""
        now = asyncio.get_running_loop().time()
        if self._link.generation != self._generation:
            self._generation = self._link.generation
            if self._block <= LATER_LOOK:
                self._looks_due = [now, now + self._block + 1.0]
            else:
                self._looks_due = [now]
        due = [when for when in self._looks_due if when <= now]
        self._looks_due = [when for when in self._looks_due if when > now]
        return bool(due)

    def look_again(self) -> None:
        """The look that :meth:`replies_lost` asked for failed: ask for it again."""
        self._looks_due.append(asyncio.get_running_loop().time())

    async def read(self, limit: int) -> Sequence[RawEntry]:
        """Up to ``limit`` new entries, or those of a read that was begun before; none where the
        read ended empty. Raises what the server refused, and ``ConnectionLost``."""
        read = self._read
        if read is None:
            seat = self._seat
            read = self._read = self._link.call(
                *("XREADGROUP", "GROUP", seat.group_name, seat.consumer_name, "COUNT", limit),
                *("BLOCK", self._block_ms, "STREAMS", seat.stream, ">"),
                deadline=self._block + MARGIN,
            )
        await outlive(read)
        self._read = None
        reply = read.result()
        if not reply:
            return ()
        # One stream was asked for: [[key, entries]].
        return cast("list[tuple[bytes, list[RawEntry]]]", reply)[0][1]

    async def unblock(self) -> None:
        """Make a waiting read end soon, with what it has."""
        tries = 0
        while (read := self._read) is not None and not read.done():
            client = self._link.client_id
            if client is None:
                return
            try:
                await self._command.call("CLIENT", "UNBLOCK", client)
            except (ConnectionLost, RedisRefusal):
                # The read ends by itself after its block.
                return
            tries += 1
            # The read may be on its way still, so that there was nothing to unblock yet.
            if tries < 10:
                await asyncio.sleep(0)
            else:
                await asyncio.wait((read,), timeout=0.02)
