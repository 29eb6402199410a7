"""The driver behind the narrow port that this room uses.

The only module that imports ``redis`` and ``hiredis``. A connection is used through four public
methods; who reads and who writes is decided in :mod:`surestream.redis.link`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from surestream.errors import MissingExtra

try:
    import hiredis
    from redis.asyncio.connection import Connection as TcpConnection
    from redis.asyncio.connection import SSLConnection, UnixDomainSocketConnection
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import ConnectionError as DriverConnectionError
    from redis.exceptions import RedisError, ResponseError
except ImportError as error:
    raise MissingExtra(
        "redis", needs="redis[hiredis]>=8.1", purpose="the Redis transport"
    ) from error

if TYPE_CHECKING:
    from surestream.redis.address import RedisAddress

__all__ = [
    "Argument",
    "Connection",
    "ConnectionFactory",
    "DriverConnectionError",
    "RedisError",
    "ResponseError",
    "connection_factory",
    "pack",
    "unpack",
]

Argument: TypeAlias = str | bytes | int | float
"""What a command is made of; text is sent as UTF-8."""

_untyped: Any = hiredis
_pack = cast("Callable[[tuple[Argument, ...]], bytes]", _untyped.pack_command)


def pack(*args: Argument) -> bytes:
    """One command in the wire format (RESP). Raises ``TypeError`` on anything but an argument."""
    return _pack(args)


def unpack(packed: bytes) -> list[list[bytes]]:
    """The commands in a whole number of packed ones, argument by argument."""
    reader = _untyped.Reader()
    reader.feed(packed)
    commands: list[list[bytes]] = []
    while (command := reader.gets()) is not False:
        commands.append(command)
    return commands


class Connection(Protocol):
    """One connection of the driver: the methods the link drives, and no others."""

    async def connect(self) -> None:
        """Open the socket and authenticate."""
        ...

    async def send_packed_command(self, command: Iterable[bytes], check_health: bool = ...) -> None:
        """Write packed commands, waiting while the socket is full."""
        ...

    async def read_response(
        self,
        disable_decoding: bool = ...,
        timeout: float | None = ...,
        *,
        disconnect_on_error: bool = ...,
    ) -> object:
        """The next reply, or the exception that an error reply is turned into."""
        ...

    async def disconnect(self, nowait: bool = ...) -> None:
        """Close the socket."""
        ...


ConnectionFactory: TypeAlias = Callable[[], Connection]
"""Makes a connection that is not open yet."""


def connection_factory(address: RedisAddress, *, connect_timeout: float = 5.0) -> ConnectionFactory:
    """Connections to ``address``, with everything off that would act behind the link's back.

    ``connect_timeout`` (seconds) bounds opening the socket; the link bounds the whole hand-shake.
    RESP2 has no pushes, so that replies match commands one to one; the driver's own retries,
    read time-outs, health checks and maintenance notifications are off.
    """

    def make() -> Connection:
        # The client's name is set by the link, which can go on where an access list forbids it.
        common: dict[str, Any] = {
            "db": address.database,
            "username": address.username,
            "password": address.password,
            "socket_timeout": None,
            "socket_connect_timeout": connect_timeout,
            "health_check_interval": 0,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,
            "maint_notifications_config": None,
            "decode_responses": False,
        }
        if address.path is not None:
            return cast("Connection", UnixDomainSocketConnection(path=address.path, **common))
        tcp: dict[str, Any] = {
            "host": address.host,
            "port": address.port,
            "socket_keepalive": True,
            "socket_keepalive_options": dict(_KEEPALIVE),
            **common,
        }
        if address.tls is None:
            return cast("Connection", _Tcp(**tcp))
        secured = _Tls(**tcp)
        secured.ssl_context.context = address.tls
        return cast("Connection", secured)

    return make


class _Tcp(TcpConnection):
    async def connect(self) -> None:
        await _resolve(self.host, self.port)
        await super().connect()


class _Tls(SSLConnection):
    async def connect(self) -> None:
        await _resolve(self.host, self.port)
        await super().connect()


async def _resolve(host: str, port: int) -> None:
    """Ask for the host's addresses, so that an unknown host fails here."""
    # uvloop's create_connection, cancelled while it asks, leaves the answer to nobody, and the
    # loop then logs an exception that was never retrieved.
    try:
        await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise OSError(f"host {host!r} cannot be resolved: {error.strerror}") from error


def _keepalive() -> Iterable[tuple[int, int]]:
    # Found half-open within 30 s also where nothing is asked (RC-08). TCP_USER_TIMEOUT does the
    # same for bytes that are never acknowledged, which keep-alive probes do not watch.
    for name, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPALIVE", 10),  # the same on macOS
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 30_000),
    ):
        option = getattr(socket, name, None)
        if isinstance(option, int):
            yield option, value


_KEEPALIVE = tuple(_keepalive())
