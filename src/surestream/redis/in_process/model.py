"""The inside of ``fakeredis`` that this room relies on, with types.

It is not a public interface: the version is pinned by range in the package's extra, and the parity
tests show at once what a new one moved.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from surestream.errors import MissingExtra

try:
    import fakeredis
    from fakeredis.aioredis import AsyncFakeSocket
    from fakeredis.model import StreamEntryKey, StreamGroup, StreamRangeTest, XStream
    from fakeredis.model import ZSet as SortedSet
except ImportError as error:
    raise MissingExtra(
        "testing", needs="fakeredis[lua]>=2.41", purpose="the in-process Redis server"
    ) from error

__all__ = [
    "SYNTAX_ERROR",
    "Database",
    "FakeSocket",
    "Key",
    "LuaRuntime",
    "Server",
    "SimpleError",
    "SortedSet",
    "StreamEntryKey",
    "StreamGroup",
    "StreamRangeTest",
    "XStream",
    "existing_group",
    "integer",
    "milliseconds",
    "new_server",
    "no_reply",
    "pending_entry",
    "refuse",
    "replace_runtime",
    "replace_time",
    "server_time",
    "text",
]


SYNTAX_ERROR = "ERR syntax error"


class Item(Protocol):
    """What is stored at a key."""

    @property
    def value(self) -> object: ...


class Database(Protocol):
    """One numbered database."""

    time: float

    def get(self, key: bytes) -> Item | None: ...
    def clear(self) -> None: ...
    def wake_all(self) -> None: ...
    def add_change_callback(self, callback: Callable[[], None]) -> None: ...


class Server(Protocol):
    """The data that all clients share."""

    lock: threading.Lock
    dbs: dict[int, Database]
    script_cache: dict[bytes, bytes]


class Key(Protocol):
    """A key that a command was given, and the stream there; commands check the type before."""

    key: bytes
    value: XStream | None


class PendingEntry(Protocol):
    """An entry in a group's list of pending ones."""

    @property
    def consumer_name(self) -> bytes: ...
    @property
    def time_read(self) -> int: ...
    @property
    def times_delivered(self) -> int: ...
    def _replace(self, **changed: int) -> PendingEntry: ...


if TYPE_CHECKING:

    class FakeSocket:
        """One client on the server's side. Commands are methods by the name of the command."""

        _server: Server
        _db: Database
        _paused: bool
        _blocked: bool
        _in_transaction: bool
        _transaction: list[object] | None
        _script_resp: int | None
        _unblock_reason: bytes | None

        def __init__(self, server: Server, database: int, *, client_class: type) -> None: ...
        def close(self) -> None: ...
        def kill(self) -> None: ...
        def pause(self) -> None: ...
        def resume(self) -> None: ...
        def put_response(self, msg: object) -> None: ...
        def _process_command(self, fields: list[bytes]) -> None: ...
        def _decode_result(self, result: object) -> object: ...
        def _take_unblock_reason(self) -> None: ...
        def _name_to_func(self, cmd_name: str) -> object: ...
        def _get_server_runtime(self, server: Server) -> LuaRuntime: ...
        def _lua_redis_call(
            self, lua_runtime: object, expected_globals: Collection[bytes], op: bytes, *args: object
        ) -> object: ...
        def _blocking(
            self,
            timeout: float | None,
            func: Callable[[bool], object],
            shape: Callable[[object], object] | None = None,
        ) -> object: ...
        def _xreadgroup_reply(self, res: object) -> object: ...
        def xread(self, *args: bytes) -> object: ...
        def xreadgroup(
            self, group_const: bytes, group_name: bytes, consumer_name: bytes, *args: bytes
        ) -> object: ...
        def xgroup_create(
            self, key: Key, group_name: bytes, start_key: bytes, *args: bytes
        ) -> object: ...
        def xgroup_destroy(self, key: Key, group_name: bytes) -> object: ...
        def xack(self, key: Key, group_name: bytes, *args: bytes) -> object: ...
        def xpending(self, key: Key, group_name: bytes, *args: bytes) -> list[list[Any]]: ...
        def xinfo_stream(self, key: Key, *args: bytes) -> list[Any]: ...
        def xinfo_groups(self, key: Key) -> list[dict[bytes, Any]]: ...
        def xinfo_consumers(self, key: Key, group_name: bytes) -> list[dict[str, Any]]: ...

    class SimpleError(Exception):
        """An error reply, by its text."""

        value: str

        def __init__(self, value: str) -> None: ...

else:
    FakeSocket = AsyncFakeSocket
    SimpleError = importlib.import_module("fakeredis._helpers").SimpleError


class LuaRuntime(Protocol):
    """The interpreter of one server's scripts, or what stands before it."""

    @property
    def table_from(self) -> Callable[..., object]: ...
    def execute(self, code: bytes) -> object: ...
    def compile(self, code: bytes) -> Callable[[], object]: ...


_helpers: Any = importlib.import_module("fakeredis._helpers")
_stream: Any = importlib.import_module("fakeredis.model._stream")

milliseconds = cast("Callable[[], int]", _helpers.current_time)
"""The server's time."""


def server_time() -> float:
    """The same in seconds, to the microsecond."""
    return _helpers.time.time()


no_reply = cast("Callable[[], object]", _helpers.NoResponse)
"""What a command returns whose reply comes later."""
pending_entry = cast("Callable[[bytes, int, int], Any]", _stream.PelEntry)


def refuse(reply: str) -> NoReturn:
    """Answer the command with an error."""
    raise SimpleError(reply)


def integer(value: bytes, otherwise: str = "ERR value is not an integer or out of range") -> int:
    """A number among the arguments, or an error reply."""
    try:
        return int(value)
    except ValueError:
        refuse(otherwise)


def text(value: bytes) -> str:
    """A name as it stands in an error reply."""
    return value.decode(errors="replace")


def existing_group(key: Key, name: bytes) -> StreamGroup:
    """The group of that name, or an error reply."""
    group = None if key.value is None else key.value.group_get(name)
    if group is None:
        refuse(f"NOGROUP No such key '{text(key.key)}' or consumer group '{text(name)}'")
    return group


def new_server() -> Server:
    """An empty Redis 7.0."""
    make: Any = fakeredis.FakeServer
    return make(version=(7, 0), server_type="redis")


def replace_runtime(server: Server, runtime: LuaRuntime) -> None:
    """Let scripts of ``server`` run in ``runtime``."""
    untyped: Any = server
    untyped._lua_runtime = runtime


_ASK_THE_TIME = (
    "fakeredis._core._server",
    "fakeredis._helpers",
    "fakeredis._socket._base",
    "fakeredis.commands_mixins.connection_mixin",
    "fakeredis.commands_mixins.server_mixin",
    "fakeredis.model._client_info",
    "fakeredis.model._stream",
)


def replace_time(replacement: Callable[[object], object]) -> None:
    """Exchange the module ``time`` in every module of ``fakeredis`` that asks it for the time."""
    for name in _ASK_THE_TIME:
        module: Any = importlib.import_module(name)
        module.time = replacement(module.time)
