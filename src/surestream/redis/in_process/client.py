"""The server's end of an in-process connection: one client of ``fakeredis``.

Blocking reads are kept here, in the order in which they began, and looked at after each command
that changed something: as in Redis, whoever waited first is served first, a read ends when its
stream or group goes away, and a client that left takes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from surestream.redis.driver import ResponseError
from surestream.redis.in_process.lua import Interpreter
from surestream.redis.in_process.model import (
    Database,
    LuaRuntime,
    Server,
    SimpleError,
    no_reply,
    replace_runtime,
)
from surestream.redis.in_process.pending import PendingAnswers
from surestream.redis.in_process.quick import QuickAnswers

__all__ = ["Blocked", "InProcessClient"]

_log = logging.getLogger("surestream.redis")


@dataclass(slots=True)
class _Wait:
    attempt: Callable[[bool], object]
    shape: Callable[[object], object] | None
    timer: asyncio.TimerHandle | None


@dataclass(slots=True)
class Blocked:
    """The clients of one server that wait, the longest first."""

    clients: dict[InProcessClient, _Wait] = field(default_factory=dict["InProcessClient", _Wait])
    changed: bool = False
    watched: set[Database] = field(default_factory=set[Database])

    def watch(self, database: Database) -> None:
        """Notice every change in ``database`` from now on."""
        if database not in self.watched:
            self.watched.add(database)
            database.add_change_callback(self._note)

    def serve(self) -> None:
        """Let those who wait look at what has changed."""
        while self.changed:
            self.changed = False
            for client in tuple(self.clients):
                client.look_again()

    def _note(self) -> None:
        self.changed = True


class InProcessClient(QuickAnswers, PendingAnswers):
    """One client of the in-process server.

    ``deliver`` takes each reply; ``cut`` ends the connection from the server's side.
    """

    def __init__(
        self,
        server: Server,
        database: int,
        *,
        blocked: Blocked,
        deliver: Callable[[object], None],
        cut: Callable[[str], None],
    ) -> None:
        self._among_blocked = blocked
        self._deliver = deliver
        self._cut = cut
        self._commands: deque[list[bytes]] = deque()
        self._gone = False
        super().__init__(server, database, client_class=object)

    def take(self, command: list[bytes]) -> None:
        """Run one command, or keep it while a blocking one is under way."""
        if self._paused:
            self._commands.append(command)
            return
        if self.answer_quickly(command):
            return
        try:
            self._process_command(command)
        except Exception as error:
            # A fault of the model: told as a reply, so that the connection stays in step.
            _log.exception("the in-process server failed at %r", command[0])
            self.put_response(ResponseError(f"ERR in-process server: {error!r}"))
        self._among_blocked.serve()

    def leave(self) -> None:
        """The client is gone; what it waited for is for others."""
        if not self._gone:
            self._gone = True
            self._stop_waiting()
            self._commands.clear()
            self.close()

    def put_response(self, msg: object) -> None:
        if not self._gone:
            self._deliver(msg)

    def kill(self) -> None:
        super().kill()
        # Not at once: a client that kills itself still gets the reply.
        asyncio.get_running_loop().call_soon(self._cut, "Connection closed by server.")

    # ── blocking ────────────────────────────────────────────────────────────

    def _blocking(
        self,
        timeout: float | None,
        func: Callable[[bool], object],
        shape: Callable[[object], object] | None = None,
    ) -> object:
        result = func(True)
        if result is not None or self._in_transaction or self.in_script:
            return result if shape is None else shape(result)
        timer = None
        if timeout:
            timer = asyncio.get_running_loop().call_later(timeout, self._answer, None)
        self._among_blocked.watch(self._db)
        self._among_blocked.clients[self] = _Wait(func, shape, timer)
        self._blocked = True
        self.pause()
        return no_reply()

    def look_again(self) -> None:
        """Try the blocking command again, if it still waits."""
        wait = self._among_blocked.clients.get(self)
        if wait is None:
            return
        if self._unblock_reason is not None:
            self._answer(self._why_unblocked())
            return
        with self._server.lock:
            result = wait.attempt(False)
        if result is not None:
            self._answer(result)

    def _why_unblocked(self) -> object:
        try:
            self._take_unblock_reason()
        except SimpleError as error:
            return error
        return None

    def _answer(self, result: object) -> None:
        wait = self._stop_waiting()
        if wait is not None:
            shaped = result if wait.shape is None else wait.shape(result)
            self.put_response(self._decode_result(shaped))
            self.resume()

    def _stop_waiting(self) -> _Wait | None:
        wait = self._among_blocked.clients.pop(self, None)
        if wait is not None and wait.timer is not None:
            wait.timer.cancel()
        self._blocked = False
        self._unblock_reason = None
        return wait

    def resume(self) -> None:
        self._paused = False
        while self._commands and not self._paused:
            self.take(self._commands.popleft())

    # ── what is there at all ────────────────────────────────────────────────

    def _name_to_func(self, cmd_name: str) -> object:
        # Known to the model whatever the version it is asked to be.
        return super()._name_to_func("" if cmd_name in _LATER_COMMANDS else cmd_name)

    def _get_server_runtime(self, server: Server) -> LuaRuntime:
        runtime = super()._get_server_runtime(server)
        if not isinstance(runtime, Interpreter):
            runtime = Interpreter(runtime)
            replace_runtime(server, runtime)
        self._interpreter = runtime
        return runtime

    def _lua_redis_call(
        self, lua_runtime: object, expected_globals: Collection[bytes], op: bytes, *args: object
    ) -> object:
        return super()._lua_redis_call(self._interpreter, expected_globals, op, *args)


_LATER_COMMANDS = frozenset({"xackdel", "xcfgset", "xdelex", "xidmprecord", "xnack"})
