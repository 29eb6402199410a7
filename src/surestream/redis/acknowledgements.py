"""Acknowledgements: written at once, confirmed in the background, repeated until they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from surestream.errors import ConnectionLost, SureStreamError
from surestream.redis.deleting import Deletion
from surestream.redis.driver import pack
from surestream.redis.entries import StreamDelivery
from surestream.redis.errors import WrongType
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.seat import Seat
from surestream.redis.telling import Telling

__all__ = ["Acknowledgements"]

_log = logging.getLogger("surestream.redis")

MOST_UNCONFIRMED: Final = 10_000
AGAIN: Final = 1.0
"""Seconds until an acknowledgement that was refused is sent again."""
CHUNK: Final = 1_000

_Batch: TypeAlias = "tuple[list[bytes], list[bytes]]"
"""Ids to acknowledge, and those of them to delete from the stream as well (rule 4.7)."""


class Acknowledgements:
    """What one subscription acknowledged and the server has not confirmed yet.

    An acknowledgement is safe to repeat, so it is sent again after a lost connection and after
    a refusal, for as long as the subscription lives. It needs no fence: the work is done, also
    where another has taken the entry over (rule 5.4).
    """

    def __init__(self, link: ReconnectingLink, seat: Seat, deletion: Deletion) -> None:
        self._link = link
        self._seat = seat
        self._deletion = deletion
        self._loop = asyncio.get_running_loop()
        self._sent: dict[int, _Batch] = {}
        self._next = 0
        self._unsent: list[_Batch] = []
        self._count = 0
        self._eased: asyncio.Future[None] | None = None
        self._closed = False
        self._report = Telling()
        self.trouble: str | None = None
        """Why the server takes none, or ``None``."""
        link.on_up(self._send_again)

    def add(self, deliveries: Sequence[StreamDelivery]) -> None:
        """Acknowledge; leaves with the other commands of this turn of the loop."""
        ids = [delivery.entry for delivery in deliveries]
        copies = [d.entry for d in deliveries if d.special and d.marked]
        self._count += len(ids)
        self._send((ids, copies))

    def add_ids(self, ids: list[bytes]) -> None:
        """Acknowledge entries without handing them out."""
        self._count += len(ids)
        self._send((ids, []))

    def unconfirmed(self) -> Iterator[bytes]:
        """Ids that are settled here and may still be pending on the server."""
        for ids, _ in (*self._sent.values(), *self._unsent):
            yield from ids

    async def eased(self) -> None:
        """Wait until so few are unconfirmed that memory stays bounded."""
        while self._count > MOST_UNCONFIRMED:
            await self._change()

    async def drained(self, timeout: float) -> int:
        """Wait until all are confirmed, up to ``timeout`` seconds. Returns how many are not."""
        try:
            async with asyncio.timeout(timeout):
                while self._count:
                    await self._change()
        except TimeoutError:
            pass
        return self._count

    def close(self) -> None:
        """Send nothing again any more."""
        self._closed = True

    async def _change(self) -> None:
        if self._eased is None or self._eased.done():
            self._eased = self._loop.create_future()
        # Shielded: several may wait for the one future.
        await asyncio.shield(self._eased)

    def _send(self, batch: _Batch) -> None:
        ids, copies = batch
        number = self._next = self._next + 1
        self._sent[number] = batch
        seat = self._seat
        if self._deletion.active:
            settled = self._deletion.acknowledge(ids, copies)
            settled.add_done_callback(partial(self._ended_deleting, number))
        elif copies:
            packed = pack("XACK", seat.stream, seat.group_name, *ids)
            packed += pack("XDEL", seat.stream, *copies)
            both = self._link.call_packed(packed, 2)
            both.add_done_callback(partial(self._ended_both, number))
        else:
            reply = self._link.call("XACK", seat.stream, seat.group_name, *ids)
            reply.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, reply: asyncio.Future[Reply]) -> None:
        self._settle(number, None if reply.cancelled() else reply.exception())

    def _ended_deleting(self, number: int, reply: asyncio.Future[Reply]) -> None:
        error = None if reply.cancelled() else reply.exception()
        if error is None and not reply.cancelled():
            self._stays(self._deletion.look(reply.result()))
        self._settle(number, error)

    def _ended_both(
        self, number: int, replies: asyncio.Future[list[Reply | SureStreamError]]
    ) -> None:
        error = None if replies.cancelled() else replies.exception()
        if error is None and not replies.cancelled():
            first, second = replies.result()
            error = first if isinstance(first, SureStreamError) else None
            if isinstance(second, SureStreamError) and error is None:
                self._stays(second)
        self._settle(number, error)

    def _stays(self, why: object) -> None:
        # Settled all the same; the stream keeps a few entries more.
        if why is not None:
            text = "%s: settled entries stay in the stream: %s"
            self._report(logging.WARNING, text, self._seat.label, why)

    def _settle(self, number: int, error: BaseException | None) -> None:
        batch = self._sent.pop(number)
        if error is None or isinstance(error, WrongType):
            # Where the key holds something else now, the server has forgotten the stream.
            self._count -= len(batch[0])
            self.trouble = None
            if self._eased is not None and not self._eased.done():
                self._eased.set_result(None)
            return
        self._unsent.append(batch)
        if isinstance(error, ConnectionLost):
            # The link reports its opening; it may have opened between the loss and now.
            if self._link.up:
                self._loop.call_soon(self._send_again)
            return
        self.trouble = f"acknowledgements are refused: {error}"
        self._report(logging.ERROR, "%s: %s", self._seat.label, self.trouble)
        self._loop.call_later(AGAIN, self._send_again)

    def _send_again(self) -> None:
        if self._closed:
            return
        unsent, self._unsent = self._unsent, []
        ids = [entry for batch in unsent for entry in batch[0]]
        copies = {entry for batch in unsent for entry in batch[1]}
        for start in range(0, len(ids), CHUNK):
            chunk = ids[start : start + CHUNK]
            self._send((chunk, [entry for entry in chunk if entry in copies]))
