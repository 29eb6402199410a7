"""Redis servers of a test run: private processes on loopback, empty for every test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from surestream.app import App
from surestream.broker import Broker
from surestream.errors import DeclarationError
from surestream.memory import MemoryBroker
from surestream.redis import RedisBroker

__all__ = ["RedisServers", "ServerMissing"]

HOST: Final = "127.0.0.1"
VARIABLE: Final = "REDIS_SERVER"
PROGRAMS: Final = ("redis-server", "valkey-server")
LOOK: Final = 0.02  # seconds between two looks whether a started server answers
LOOKS: Final = 1000
PORTS_TRIED: Final = 5
STOP_LIMIT: Final = 10.0


class ServerMissing(Exception):  # noqa: N818 - named for what happened, as in surestream.errors
    """No server program; the text is one line that says how to get it."""


class RedisServers:
    """Starts a server when all it has are in use. Raises :class:`ServerMissing`."""

    def __init__(self) -> None:
        self._program = _program()
        self._all: list[_Server] = []
        self._free: list[_Server] = []

    def lease(
        self, app: App, given: Mapping[Broker[Any], str], leases: ExitStack
    ) -> dict[Broker[Any], str]:
        """The URL of an empty server for each Redis broker of ``app``, until ``leases`` close;
        those ``given`` stay. Raises ``DeclarationError`` for a broker of another kind, which
        would otherwise connect where production does."""
        live = dict(given)
        for broker in app.brokers:
            if broker in live or isinstance(broker, MemoryBroker):
                continue
            if not isinstance(broker, RedisBroker):
                raise DeclarationError(
                    f"--surestream-live with {broker!r}",
                    why="the plugin starts servers for Redis brokers only",
                    write="surestream(app, live={the_broker: url})",
                )
            server = self._free.pop() if self._free else self._start()
            leases.callback(self._free.append, server)
            server.empty()
            # The empty user: what production logs in with is nobody here.
            live[broker] = f"redis://@{HOST}:{server.port}"
        return live

    def close(self) -> None:
        """End every server, by its process."""
        while self._all:
            self._all.pop().close()
        self._free.clear()

    def _start(self) -> _Server:
        log = ""
        for _ in range(PORTS_TRIED):
            server = _Server(self._program)
            if server.ready():
                self._all.append(server)
                return server
            log = server.log()
            server.close()
            if "already in use" not in log.lower():
                break
        raise RuntimeError(f"{self._program} did not start:\n{log}")


class _Server:
    def __init__(self, program: str) -> None:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port: int = probe.getsockname()[1]
        self._folder = Path(tempfile.mkdtemp(prefix="surestream-live-"))
        command = [program, "--bind", HOST, "--port", str(self.port), "--dir", str(self._folder)]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--save", "", "--appendonly", "no", "--daemonize", "no"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the test run, which then ends its servers in order.
                start_new_session=True,
            )
        # Reads from a pipe that only this process writes to: when this process is gone, however
        # that came, the read ends, and the server goes too.
        last_act = 'read -r _; kill -KILL "$0"; rm -rf "$1"'
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", last_act, str(self._process.pid), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def ready(self) -> bool:
        """Wait until this process, not another on the port, answers; ``False`` if it does not."""
        own = f"process_id:{self._process.pid}\r\n"
        for _ in range(LOOKS):
            with suppress(OSError):
                if own in self._ask("INFO server"):
                    return True
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK)
                return False
        return False

    def empty(self) -> None:
        """Remove all data. Raises ``RuntimeError`` if it is gone: the port may be another's."""
        if self._process.poll() is not None or "+OK" not in self._ask("FLUSHALL"):
            raise RuntimeError(f"the Redis of --surestream-live has ended:\n{self.log()}")

    def log(self) -> str:
        """What it wrote."""
        return (self._folder / "log").read_text(errors="replace")

    def close(self) -> None:
        """End it and remove its folder."""
        self._watcher.kill()  # before the process id can be another's
        self._watcher.communicate()
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, command: str) -> str:
        with socket.create_connection((HOST, self.port), timeout=5) as connection:
            connection.sendall(f"{command}\r\nQUIT\r\n".encode())
            with connection.makefile("rb") as replies:
                return replies.read().decode()


def _program() -> str:
    chosen = os.environ.get(VARIABLE)
    for name in [chosen] if chosen else PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return found
    what = f"{VARIABLE}={chosen} is no program" if chosen else "no redis-server on PATH"
    raise ServerMissing(
        f"{what}; apt-get install redis-server, or: brew install redis, or set "
        f"{VARIABLE}=/path/to/redis-server"
    )
