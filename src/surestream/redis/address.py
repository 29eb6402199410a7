"""Where a Redis server is and how a client identifies itself there."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from surestream.errors import DeclarationError

__all__ = ["RedisAddress"]

_SCHEMES = {"redis": False, "valkey": False, "rediss": True, "valkeys": True, "unix": False}
_EXAMPLE = "redis://user:password@localhost:6379/0"
_DATABASES = 2**31
_PLACE = re.compile(r"(?:[\w.-]+|\[[0-9a-f:.]+\])(?::[0-9]+)?(?:/[0-9]*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """A server, a database on it, and the credentials (never shown, SE-02).

    ``tls`` is the context that connections are secured with, ``None`` for none; ``path`` is a
    Unix socket, and ``host`` and ``port`` mean nothing then.
    """

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    database: int = 0
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False, compare=False)

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        database: int | None = None,
        tls: ssl.SSLContext | bool | None = None,
    ) -> RedisAddress:
        """The address written as a URL; a keyword wins over the URL's own part.

        ``redis://[user[:password]@]host[:port][/database]``; ``rediss://`` the same over TLS
        with the system's certificates (``tls=`` takes a context of one's own);
        ``unix://[user[:password]@]/path/to/socket[?db=0]``; ``valkey://`` and ``valkeys://`` like
        ``redis://`` and ``rediss://``. User, password and path are percent-decoded. Port 6379 and
        database 0 unless given.

        Raises :class:`~surestream.errors.DeclarationError` (a ``ValueError``) that tells what is
        wrong and never quotes the credentials.
        """
        parts = _split(url)
        secured = _SCHEMES[parts.scheme]
        shown = _without_credentials(url)
        user = unquote(parts.username) if parts.username else None
        secret = unquote(parts.password) if parts.password else None
        if secured and tls is False:
            raise DeclarationError(
                f"tls=False with {shown!r}",
                why=f"{parts.scheme}:// asks for TLS",
                write=f"{parts.scheme[:-1]}://…, if the server has no TLS",
            )
        unix = parts.scheme == "unix"
        if unix and tls:
            raise DeclarationError(
                f"tls with {shown!r}", why="a Unix socket has no TLS", write="no tls= here"
            )
        context = tls if isinstance(tls, ssl.SSLContext) else None
        if context is None and (secured or tls is True):
            context = ssl.create_default_context()
        return cls(
            host="" if unix else _host(parts, shown),
            port=0 if unix else _port(parts, shown),
            path=_socket_path(parts, shown) if unix else None,
            database=_database(parts, shown) if database is None else _checked(database, shown),
            username=user if username is None else username,
            password=secret if password is None else password,
            tls=context,
        )

    @property
    def display(self) -> str:
        """The address as it may be shown anywhere: without user and password."""
        if self.path is not None:
            return f"unix://{self.path}?db={self.database}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "redis" if self.tls is None else "rediss"
        return f"{scheme}://{host}:{self.port}/{self.database}"

    def __str__(self) -> str:
        return self.display


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise DeclarationError(
            f"Redis URL {_without_credentials(url)!r}",
            why=f"it is not a URL ({error})" if "@" not in url else "it is not a URL",
            write=_EXAMPLE,
        ) from None
    shown = _without_credentials(url)
    if parts.scheme not in _SCHEMES or not url[len(parts.scheme) :].startswith("://"):
        raise DeclarationError(
            f"Redis URL {shown!r}",
            why="it does not begin with redis://, rediss://, valkey://, valkeys:// or unix://",
            write=f"redis://{url}" if _PLACE.fullmatch(url) else _EXAMPLE,
        )
    if parts.scheme != "unix" and "@" in url and "@" not in parts.netloc:
        raise DeclarationError(
            f"Redis URL {shown!r}",
            why="'/', '?' or '#' in the user or password ends the host part of a URL",
            write="the password percent-encoded (urllib.parse.quote(password, safe='')) "
            "or as password=",
        )
    if parts.fragment:
        raise DeclarationError(
            f"Redis URL {shown!r}", why="it has a fragment ('#…')", write=_EXAMPLE
        )
    return parts


def _without_credentials(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    before, at, after = rest.rpartition("@")
    if not mark:
        return "…" if "@" in url else url
    return f"{scheme}://{'…@' if at and before else ''}{after}"


def _host(parts: SplitResult, shown: str) -> str:
    if not parts.hostname:
        raise DeclarationError(f"Redis URL {shown!r}", why="it names no host", write=_EXAMPLE)
    return unquote(parts.hostname)


def _port(parts: SplitResult, shown: str) -> int:
    hostport = parts.netloc.rpartition("@")[2]
    text = re.sub(r"^\[.*\]", "", hostport).partition(":")[2]
    if not text:
        return 6379
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:9]) < 65536:
        # A port that is no number may be a password whose host was forgotten: not shown.
        number = text.isascii() and text.isdigit() and len(text) <= 6
        raise DeclarationError(
            f"port {text} in the Redis URL {shown!r}" if number else "the port in the Redis URL",
            why="a port is a number from 1 to 65535",
            write=_EXAMPLE,
        )
    return int(text)


def _socket_path(parts: SplitResult, shown: str) -> str:
    if parts.hostname:
        raise DeclarationError(
            f"Redis URL {shown!r}",
            why="the path of a Unix socket begins with a third slash",
            write="unix:///run/redis/redis.sock?db=0",
        )
    if not parts.path.strip("/"):
        raise DeclarationError(
            f"Redis URL {shown!r}",
            why="it names no socket",
            write="unix:///run/redis/redis.sock?db=0",
        )
    return unquote(parts.path)


def _database(parts: SplitResult, shown: str) -> int:
    written = [] if parts.scheme == "unix" else [parts.path.strip("/")]
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name != "db":
            raise DeclarationError(
                f"{name!r} in the Redis URL {shown!r}",
                why="only db= is understood there",
                write="tls=ssl.SSLContext for certificates, an argument of RedisBroker for others",
            )
        written.append(value)
    written = [text for text in written if text]
    if len(written) > 1:
        raise DeclarationError(
            f"Redis URL {shown!r}", why="it names the database twice", write=_EXAMPLE
        )
    if not written:
        return 0
    text = written[0]
    if not (text.isascii() and text.isdigit()):
        raise _bad_database(text, shown)
    return _checked(int(text[:12]), shown)


def _checked(database: int, shown: str) -> int:
    if type(database) is not int or not 0 <= database < _DATABASES:
        raise _bad_database(repr(database), shown)
    return database


def _bad_database(text: str, shown: str) -> DeclarationError:
    return DeclarationError(
        f"database {text} of {shown!r}",
        why="a Redis database is a number, 0 or more",
        write=_EXAMPLE,
    )
