"""Delays that wait on the server, and their way back into the stream (rule 6.5)."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final, cast

from surestream.errors import BrokerRefused, ConnectionLost, SureStreamError
from surestream.redis.publishing import explained
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.scripted import PROMOTE
from surestream.redis.telling import Telling
from surestream.runtime.reports import cut

__all__ = ["Promoter"]

_log = logging.getLogger("surestream.redis")

MOST_AT_ONCE: Final = 128
LONGEST_WAIT: Final = 5.0
SHORTEST_WAIT: Final = 0.1
AFTER_A_FAILURE: Final = 1.0


class Promoter:
    """Moves the due members of one delay set into their stream.

    It looks when the first delay it knows of is due, and besides at the start and every
    ``interval`` seconds, for the delays of processes that died. All in one script on the server,
    so that any number of promoters never move a member twice.
    """

    def __init__(self, link: ReconnectingLink, delay_set: str, stream: str) -> None:
        self.delay_set: Final = delay_set
        self.stream: Final = stream
        self._link = link
        self._keys = (delay_set.encode(), stream.encode(), f"{delay_set}.unreadable".encode())
        self._loop = asyncio.get_running_loop()
        self._interval = LONGEST_WAIT
        self._ttl: int | None = None
        self._wake_at = self._loop.time()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._report = Telling()
        self.trouble: str | None = None
        """Why nothing is promoted, or ``None``."""

    def keep(self, ttl: float | None) -> None:
        """The set outlives its last member by ``ttl`` seconds at least, also one that was moved
        by hand."""
        if ttl is not None:
            self._ttl = max(self._ttl or 0, math.ceil(ttl * 1000))

    def serve(self, interval: float) -> None:
        """Begin, for a subscription that looks every ``interval`` seconds (5 s at most)."""
        self._interval = max(SHORTEST_WAIT, min(self._interval, interval))
        if self._task is None:
            self._task = self._loop.create_task(self._run(), name=f"promoter of {self.delay_set}")

    def expect(self, due: int, now: int) -> None:
        """A member was stored: ``due`` in milliseconds, ``now`` in microseconds, both by the
        server's clock."""
        # In whole numbers as long as they are large: what is due must not be looked for too early.
        self._sooner(self._loop.time() + max(0.0, (due * 1000 - now) / 1e6))

    async def close(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def _sooner(self, when: float) -> None:
        if when < self._wake_at:
            self._wake_at = when
            self._woken.set()

    async def _run(self) -> None:
        while True:
            await self._until_due()
            # What is stored from here on may be due before the next look.
            self._wake_at = self._loop.time() + self._interval
            try:
                await self._promote()
                self.trouble = None
            except ConnectionLost:
                await self._link.ready()
                self._sooner(self._loop.time())
            except SureStreamError as error:
                await self._failed(error)

    async def _until_due(self) -> None:
        while (wait := self._wake_at - self._loop.time()) > 0:
            self._woken.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _promote(self) -> None:
        passed = 0
        more = True
        ttl = "" if self._ttl is None else self._ttl
        while more:
            reply = await self._link.script(PROMOTE, self._keys, (MOST_AT_ONCE, passed, ttl))
            _, aside, stuck, further, due, now, why = cast(
                "tuple[int, int, int, int, int, int, bytes]", reply
            )
            passed += stuck
            more = bool(further)
            if aside:
                _log.error(
                    "%s: %d members cannot be read; set aside in %s.unreadable",
                    self.delay_set,
                    aside,
                    self.delay_set,
                )
            if stuck:
                self._report(
                    logging.ERROR,
                    "%s: %d members can neither be read nor set aside: %s",
                    self.delay_set,
                    stuck,
                    cut(why.decode("utf-8", "replace")),
                )
            if not more and due >= 0:
                self.expect(due, now)

    async def _failed(self, error: SureStreamError) -> None:
        if isinstance(error, BrokerRefused):
            error = await self._about_both(error)
        self.trouble = f"delays of {self.delay_set} are not promoted: {error}"
        self._report(logging.ERROR, "%s", self.trouble)
        self._wake_at = self._loop.time() + AFTER_A_FAILURE

    async def _about_both(self, error: BrokerRefused) -> BrokerRefused:
        # The refusal does not say which of the two keys it is about.
        for key, wanted in ((self._keys[0], "zset"), (self._keys[1], "stream")):
            try:
                kind: Reply = await self._link.call("TYPE", key)
            except SureStreamError:
                return error
            if kind not in (wanted.encode(), b"none"):
                return await explained(self._link, error, key, wanted)
        return error
