"""A link that is opened again for as long as it is wanted (rule 7.5)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from surestream.errors import ConnectFailed, ConnectionLost, ConnectRefused, SureStreamError
from surestream.redis.driver import Argument, ConnectionFactory
from surestream.redis.link import Link, Reply
from surestream.redis.script import Script

__all__ = ["ReconnectingLink"]

_log = logging.getLogger("surestream.redis")

_FIRST_WAIT = 0.05
_LONGEST_WAIT = 5.0
# Two lines a second for each kind of fault, however fast they come.
_BETWEEN_LINES = 0.5


class ReconnectingLink:
    """Keeps one :class:`~surestream.redis.link.Link` open for ever.

    Between two tries it waits 50 ms, doubled each time up to 5 s, less a random part of up to
    half; it begins at 50 ms again once a link has lasted 5 s, so that a server which accepts
    connections and refuses commands is not hammered. ``attempt_timeout`` (seconds) bounds one try.

    Commands while it is down fail at once with :class:`~surestream.errors.ConnectionLost`: what
    may be sent again is the caller's decision, after :meth:`ready`.
    """

    __slots__ = (
        "_attempt_timeout",
        "_closed",
        "_connect",
        "_display",
        "_down",
        "_keeper",
        "_link",
        "_on_up",
        "_ping_every",
        "_ping_timeout",
        "_random",
        "_said",
        "_up",
        "generation",
        "name",
    )

    def __init__(
        self,
        connect: ConnectionFactory,
        *,
        name: str,
        display: str,
        random: random.Random,
        ping_every: float | None = 8.0,
        ping_timeout: float = 8.0,
        attempt_timeout: float = 5.0,
    ) -> None:
        self.name = name
        self.generation = 0
        """How many times the link has been opened; a different number means a new connection."""
        self._connect = connect
        self._display = display
        self._random = random
        self._ping_every = ping_every
        self._ping_timeout = ping_timeout
        self._attempt_timeout = attempt_timeout
        self._link: Link | None = None
        self._up: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._down = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._on_up: list[Callable[[], None]] = []
        self._said: dict[str, float] = {}
        self._closed = False

    @property
    def up(self) -> bool:
        """Whether the link is open now."""
        return self._link is not None

    @property
    def client_id(self) -> int | None:
        """The server's number for the present connection, for ``CLIENT UNBLOCK``."""
        return None if self._link is None else self._link.client_id

    def on_up(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called after each opening, the first included, before any waiter."""
        self._on_up.append(callback)

    async def open(self, timeout: float = 30.0) -> None:
        """Open the link, trying for ``timeout`` seconds, and keep it open from then on.

        Raises :class:`~surestream.errors.ConnectFailed` when the time is up, and
        :class:`~surestream.errors.ConnectRefused` at once where another try is pointless; both
        name the address and the reason.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        wait = _FIRST_WAIT
        last: ConnectFailed | None = None
        while True:
            given = max(end - loop.time(), 0.001)
            try:
                link = await self._try(min(self._attempt_timeout, given))
            except ConnectRefused:
                raise
            except ConnectFailed as error:
                rest = end - loop.time()
                if rest <= 0:
                    # A try that the end cut short says less than the one before it.
                    told = last if last is not None and given < self._attempt_timeout else error
                    raise ConnectFailed(f"{told} (tried for {timeout:g} s)") from None
                last = error
                self._say("open", logging.WARNING, "%s; trying again", error)
                await asyncio.sleep(min(self._spread(wait), rest))
                wait = min(wait * 2, _LONGEST_WAIT)
            else:
                break
        self._rise(link)
        self._keeper = loop.create_task(self._keep(), name=f"{self.name} keeper")

    async def close(self) -> None:
        """Close the link for good; waiters and outstanding commands get ``ConnectionLost``."""
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait((self._keeper,))
        link, self._link = self._link, None
        if link is not None:
            await link.close()
        if not self._up.done():
            self._up.set_exception(self._gone())
            # Marked as seen: there may be no waiter.
            self._up.exception()

    async def ready(self) -> Link:
        """The open link, waiting for it while it is down; ``ConnectionLost`` once closed."""
        if self._link is not None:
            return self._link
        if self._closed:
            raise self._gone()
        return await asyncio.shield(self._up)

    # ── commands, over the link of the moment ───────────────────────────────

    def call(self, *args: Argument, deadline: float | None = None) -> asyncio.Future[Reply]:
        """See :meth:`Link.call`."""
        if self._link is None:
            return self._unsent()
        return self._link.call(*args, deadline=deadline)

    def call_packed(
        self, packed: bytes, replies: int, *, deadline: float | None = None
    ) -> asyncio.Future[list[Reply | SureStreamError]]:
        """See :meth:`Link.call_packed`."""
        if self._link is None:
            future: asyncio.Future[list[Reply | SureStreamError]]
            future = asyncio.get_running_loop().create_future()
            future.set_exception(self._gone())
            return future
        return self._link.call_packed(packed, replies, deadline=deadline)

    def script(
        self, script: Script, keys: Sequence[Argument], args: Sequence[Argument] = ()
    ) -> asyncio.Future[Reply]:
        """See :meth:`Link.script`."""
        if self._link is None:
            return self._unsent()
        return self._link.script(script, keys, args)

    def _unsent(self) -> asyncio.Future[Reply]:
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        future.set_exception(self._gone())
        return future

    def _gone(self) -> ConnectionLost:
        state = "closed" if self._closed else "not connected"
        return ConnectionLost(f"{self._display}: {state}; this command was not sent")

    # ── keeping it open ─────────────────────────────────────────────────────

    async def _try(self, timeout: float) -> Link:
        link = Link(
            self._connect,
            name=self.name,
            display=self._display,
            on_lost=self._fall,
            ping_every=self._ping_every,
            ping_timeout=self._ping_timeout,
        )
        await link.open(timeout)
        return link

    def _rise(self, link: Link) -> None:
        self._down.clear()
        if link.closed:
            # Lost between its opening and now; the keeper sees it at once.
            self._down.set()
            return
        self._link = link
        self.generation += 1
        for callback in self._on_up:
            try:
                callback()
            except Exception:
                _log.exception("%s: a callback for the new connection failed", self._display)
        self._up.set_result(link)

    def _fall(self, reason: ConnectionLost) -> None:
        if self._link is not None:
            self._link = None
            self._up = asyncio.get_running_loop().create_future()
            self._say("lost", logging.WARNING, "connection lost: %s; reconnecting", reason)
        self._down.set()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        wait = _FIRST_WAIT
        while True:
            since = loop.time()
            await self._down.wait()
            if loop.time() - since >= _LONGEST_WAIT:
                wait = _FIRST_WAIT
            link: Link | None = None
            while link is None:
                await asyncio.sleep(self._spread(wait))
                wait = min(wait * 2, _LONGEST_WAIT)
                try:
                    link = await self._try(self._attempt_timeout)
                except ConnectFailed as error:
                    # Also where it is refused: a service that was let in once waits for better
                    # days.
                    self._say("open", logging.WARNING, "%s; trying again", error)
            self._rise(link)
            self._say("up", logging.INFO, "connected again to %s", self._display)

    def _spread(self, wait: float) -> float:
        return wait * (1 - self._random.random() / 2)

    def _say(self, kind: str, level: int, text: str, *args: object) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._said.get(kind, -_BETWEEN_LINES) >= _BETWEEN_LINES:
            self._said[kind] = now
            _log.log(level, text, *args)
