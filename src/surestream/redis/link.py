"""One multiplexed connection to a Redis server.

Commands of one turn of the event loop leave in one write, and the replies are matched in order,
without a task, a timer or an awaited write for each command. What the link does not do: retry
(rule 5.4: the driver's retries are off, and a command whose reply is lost may have run), bound
what is outstanding (the caller's business), and reconnect
(:class:`~surestream.redis.reconnecting.ReconnectingLink` does).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import cast

from surestream.errors import ConnectionLost, SureStreamError
from surestream.redis.driver import Argument, ConnectionFactory, RedisError, pack
from surestream.redis.errors import (
    NoScript,
    NotPermitted,
    RedisRefusal,
    ServerUnready,
    connect_failure,
    loss,
    refusal,
)
from surestream.redis.replies import Batch, Expected, Reply, Run
from surestream.redis.script import Script
from surestream.redis.watch import Watch

__all__ = ["Link", "Reply"]

_log = logging.getLogger("surestream.redis")


class Link:
    """One connection, over which any number of callers send commands at the same time.

    ``connect`` makes the connection; ``name`` is the client's name on the server
    (``surestream-…``); ``display`` stands for the address in errors and logs. ``on_lost`` is
    called once, with the reason, when an open link is lost; never after :meth:`close`.

    ``ping_every`` (seconds; ``None``: never) is how often a quiet link is asked for a sign of
    life, ``ping_timeout`` how long that may take: a half-open connection is lost within
    ``2 * ping_every + ping_timeout`` (RC-08). While a call with a ``deadline`` is outstanding,
    that deadline stands in for the pings, which the server would answer only after a blocking
    read.
    """

    __slots__ = (
        "_asked",
        "_connection",
        "_display",
        "_expected",
        "_known",
        "_loop",
        "_lost",
        "_on_lost",
        "_outgoing",
        "_tasks",
        "_unready",
        "_wake",
        "_watch",
        "client_id",
        "name",
    )

    def __init__(
        self,
        connect: ConnectionFactory,
        *,
        name: str,
        display: str = "redis",
        on_lost: Callable[[ConnectionLost], None] | None = None,
        ping_every: float | None = None,
        ping_timeout: float = 8.0,
    ) -> None:
        self.name = name
        self.client_id: int | None = None
        """The server's number for this connection (``CLIENT UNBLOCK``); ``None`` if it hid it."""
        self._display = display
        self._on_lost = on_lost
        self._connection = connect()
        self._loop = asyncio.get_running_loop()
        self._lost: ConnectionLost | None = ConnectionLost(f"{display}: the link is not open")
        self._unready: ServerUnready | None = None
        self._expected: deque[Expected] = deque()
        self._outgoing: list[bytes] = []
        self._asked = 0
        self._wake: asyncio.Future[None] | None = None
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._known: set[bytes] = set()
        self._watch = Watch(
            self._loop,
            heard=self._heard,
            ping=self._ping,
            lose=self._lose,
            ping_every=ping_every,
            ping_timeout=ping_timeout,
        )

    # ── life ────────────────────────────────────────────────────────────────

    async def open(self, timeout: float = 5.0) -> None:
        """Connect, authenticate, and wait for the server's first sign of being ready.

        Bounded by ``timeout`` seconds in all. Raises :class:`~surestream.errors.ConnectFailed`,
        or :class:`~surestream.errors.ConnectRefused` where another try is pointless. A link is
        opened once.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._connection.connect()
                self._lost = None
                self._tasks = (
                    self._loop.create_task(self._read(), name=f"{self.name} reader"),
                    self._loop.create_task(self._write(), name=f"{self.name} writer"),
                )
                await self._greet()
        except Exception as error:
            await self._abandon()
            reason = self._unready or (self._lost if isinstance(error, ConnectionLost) else error)
            told = isinstance(error, RedisError | SureStreamError | OSError)
            # Told in words: the driver's exceptions end in this room.
            raise connect_failure(self._display, reason or error) from None if told else error
        except BaseException:
            await self._abandon()
            raise
        self._watch.start()

    async def _greet(self) -> None:
        named, client_id, ready = await self.call_packed(
            pack("CLIENT", "SETNAME", self.name) + pack("CLIENT", "ID") + pack("PING"), 3
        )
        if isinstance(named, RedisRefusal):
            _log.debug("%s: the client could not be named: %s", self._display, named)
        if isinstance(client_id, int):
            self.client_id = client_id
        # An access list may forbid PING; the server is up all the same.
        if isinstance(ready, SureStreamError) and not isinstance(ready, NotPermitted):
            raise ready

    async def _abandon(self) -> None:
        self._on_lost = None
        self._lose("the link could not be opened")
        await self._finish()

    async def close(self) -> None:
        """Close the connection. What is outstanding fails with ``ConnectionLost``."""
        self._on_lost = None
        self._lose("the link was closed")
        await self._finish()

    async def _finish(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)
        else:
            await self._disconnect()

    @property
    def closed(self) -> bool:
        """Whether commands fail at once: lost, closed, or not opened yet."""
        return self._lost is not None

    @property
    def outstanding(self) -> int:
        """How many replies are awaited, the link's own pings included."""
        return len(self._expected)

    # ── commands ────────────────────────────────────────────────────────────

    def call(self, *args: Argument, deadline: float | None = None) -> asyncio.Future[Reply]:
        """Send one command; the future is its reply, or raises what the server refused.

        The command leaves with the others of this turn of the loop, in the order of the calls.
        Cancelling the future does not take it back. ``deadline`` (seconds) declares the link lost
        when the reply is not there by then: for a blocking read, its block and a margin (RC-10).

        The future raises :class:`~surestream.redis.errors.RedisRefusal`, or
        :class:`~surestream.errors.ConnectionLost`: the command may or may not have run.
        ``TypeError`` at once on a wrong argument.
        """
        packed = pack(*args)
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self._lost is not None:
            future.set_exception(self._unsent())
            return future
        self._outgoing.append(packed)
        self._expected.append(future)
        self._asked += 1
        if (wake := self._wake) is not None:
            self._wake = None
            if not wake.done():
                wake.set_result(None)
        if deadline is not None:
            self._watch.due(deadline, self._asked)
        return future

    def call_packed(
        self, packed: bytes, replies: int, *, deadline: float | None = None
    ) -> asyncio.Future[list[Reply | SureStreamError]]:
        """Send ``replies`` packed commands; one future for all their replies, in order.

        An error reply is a value in the list, so that one bad command does not hide the others.
        The future raises only :class:`~surestream.errors.ConnectionLost`.
        """
        future: asyncio.Future[list[Reply | SureStreamError]] = self._loop.create_future()
        if replies < 1:
            future.set_result([])
        elif self._lost is not None:
            future.set_exception(self._unsent())
        else:
            self._expected.extend(repeat(Batch(replies, future), replies))
            self._send(packed, replies)
            if deadline is not None:
                self._watch.due(deadline, self._asked)
        return future

    def script(
        self, script: Script, keys: Sequence[Argument], args: Sequence[Argument] = ()
    ) -> asyncio.Future[Reply]:
        """Run ``script``; the future is its reply, as with :meth:`call`.

        It is sent in full the first time over this link and by its digest from then on, so that
        scripts run in the order of their calls. Only where the server has forgotten it meanwhile
        (``SCRIPT FLUSH``) is it sent again, behind the commands that were under way.
        """
        future: asyncio.Future[Reply] = self._loop.create_future()
        arguments = (len(keys), *keys, *args)
        by_digest = script.digest in self._known
        packed = self.pack_script(script, keys, args)
        if self._lost is not None:
            future.set_exception(self._unsent())
            return future
        self._expected.append(Run(script, arguments, future) if by_digest else future)
        self._send(packed, 1)
        return future

    def pack_script(
        self, script: Script, keys: Sequence[Argument], args: Sequence[Argument] = ()
    ) -> bytes:
        """One run of ``script`` for :meth:`call_packed` over this link, at once.

        In a batch, a :class:`~surestream.redis.errors.NoScript` among the replies is the
        caller's to send again, by :meth:`script`.
        """
        if script.digest in self._known:
            return pack("EVALSHA", script.digest, len(keys), *keys, *args)
        packed = pack("EVAL", script.source, len(keys), *keys, *args)
        self._known.add(script.digest)
        return packed

    def _send(self, packed: bytes, replies: int) -> None:
        self._outgoing.append(packed)
        self._asked += replies
        if (wake := self._wake) is not None:
            self._wake = None
            if not wake.done():
                wake.set_result(None)

    def _unsent(self) -> ConnectionLost:
        return ConnectionLost(f"{self._lost}; this command was not sent")

    # ── the two tasks ───────────────────────────────────────────────────────

    async def _write(self) -> None:
        send = self._connection.send_packed_command
        try:
            while True:
                if not self._outgoing:
                    self._wake = self._loop.create_future()
                    await self._wake
                # Taken whole before the wait: what is called meanwhile stays in order behind it.
                outgoing, self._outgoing = self._outgoing, []
                await send((b"".join(outgoing),), False)
        except Exception as error:
            self._lose(str(error) or type(error).__name__)
        finally:
            self._lose("the link was torn down")

    async def _read(self) -> None:
        read = partial(
            self._connection.read_response,
            disable_decoding=True,
            timeout=math.inf,
            disconnect_on_error=False,
        )
        expected = self._expected
        try:
            while True:
                try:
                    # Nothing is decoded and RESP2 has no other types.
                    reply = cast("Reply", await read())
                except RedisError as error:
                    refused = refusal(error)
                    if refused is None:
                        raise
                    self._refuse(refused)
                    if self._lost is not None:
                        return
                    continue
                entry = expected.popleft()
                if isinstance(entry, asyncio.Future):
                    if not entry.done():
                        entry.set_result(reply)
                elif entry is not None:
                    if isinstance(entry, Batch):
                        entry.take(reply)
                    elif not entry.future.done():
                        entry.future.set_result(reply)
        except IndexError:
            self._lose("the server sent a reply that nothing had asked for")
        except Exception as error:
            self._lose(str(error) or type(error).__name__)
        finally:
            self._lose("the link was torn down")
            await self._disconnect()

    def _refuse(self, refused: RedisRefusal | ServerUnready) -> None:
        entry = self._expected.popleft()
        if isinstance(entry, Batch):
            entry.take(refused)
        elif isinstance(entry, Run):
            if isinstance(refused, NoScript) and self._lost is None:
                self._expected.append(entry.future)
                self._send(pack("EVAL", entry.script.source, *entry.arguments), 1)
            elif not entry.future.done():
                entry.future.set_exception(refused)
        elif entry is not None and not entry.done():
            entry.set_exception(refused)
        if isinstance(refused, ServerUnready):
            self._unready = refused
            self._lose(str(refused))

    async def _disconnect(self) -> None:
        try:
            await self._connection.disconnect(nowait=True)
        except (RedisError, OSError) as error:
            _log.debug("%s: the connection did not close cleanly: %s", self._display, error)

    def _lose(self, reason: str) -> None:
        if self._lost is not None:
            return
        self._lost = ConnectionLost(f"{self._display}: {reason}")
        self._watch.stop()
        running = asyncio.current_task() if self._tasks else None
        for task in self._tasks:
            if task is not running:
                task.cancel()
        outstanding = tuple(self._expected)
        self._expected.clear()
        self._outgoing.clear()
        for entry in outstanding:
            if entry is None:
                continue
            future = entry if isinstance(entry, asyncio.Future) else entry.future
            if not future.done():
                future.set_exception(loss(self._display, reason))
        if self._on_lost is not None:
            self._on_lost(self._lost)

    def _heard(self) -> int:
        return self._asked - len(self._expected)

    def _ping(self) -> None:
        self._expected.append(None)
        self._send(_PING, 1)


_PING = pack("PING")
