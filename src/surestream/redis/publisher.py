"""Publishing to streams, with what Redis can do besides."""

from __future__ import annotations

from typing import overload

from surestream.declaration import UNSET
from surestream.message import HeaderValues
from surestream.redis.trimming import trim
from surestream.runtime.publishing import BoundPublisher, Publishing

__all__ = ["RedisPublisher", "StreamPublishing"]


class StreamPublishing(Publishing):
    """``publish`` as a Redis broker and its publishers have it."""

    @overload
    async def publish(
        self,
        destination: str,
        value: object,
        /,
        *,
        headers: HeaderValues | None = None,
        maxlen: int | None = None,
        exact: bool = False,
    ) -> None: ...
    @overload
    async def publish(
        self,
        value: object,
        /,
        *,
        headers: HeaderValues | None = None,
        maxlen: int | None = None,
        exact: bool = False,
    ) -> None: ...
    @overload
    async def publish(
        self,
        destination: str,
        value: object,
        /,
        *,
        headers: HeaderValues | None = None,
        min_id: str,
        exact: bool = False,
    ) -> None: ...
    @overload
    async def publish(
        self,
        value: object,
        /,
        *,
        headers: HeaderValues | None = None,
        min_id: str,
        exact: bool = False,
    ) -> None: ...

    async def publish(
        self,
        destination: object,
        value: object = UNSET,
        /,
        *,
        headers: HeaderValues | None = None,
        maxlen: int | None = None,
        min_id: str | None = None,
        exact: bool = False,
    ) -> None:
        """Append ``value`` to the stream ``destination``, or to the one its type declares.

        ``maxlen``: cut the stream to its newest so many entries; ``min_id``: cut off the entries
        below this id. ``exact``: to the entry, which costs the server more; by default it cuts
        where that is cheap and may leave up to about a hundred entries more. **The cut asks no
        group**: it also removes entries that somebody has not finished, and a group that has not
        read them never will. What keeps those is ``RedisStream(…, delete_acknowledged=True)``.

        Returns when the server has confirmed. Works in handlers, inside ``app.running()`` and
        inside ``broker.connected()``. Raises ``NotRunning`` elsewhere, ``EncodeError``,
        ``DeclarationError``, ``ConnectionLost``, and ``BrokerRefused`` (also for a ``min_id``
        above the new entry's own id).
        """
        options = None
        if maxlen is not None or min_id is not None or exact is not False:
            options = trim(maxlen, min_id, exact)
        await self._publish(destination, value, headers, options)


class RedisPublisher(StreamPublishing, BoundPublisher):
    """The publisher of a Redis broker, as a handler parameter: ``publisher: RedisPublisher``.

    A :class:`~surestream.context.Publisher` whose ``publish`` also takes ``maxlen=``, ``min_id=``
    and ``exact=``.
    """
