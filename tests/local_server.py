"""A server process on a free loopback port, in a folder of its own.

A test may stop, pause, kill and restart the server it was given; only that process is touched.
The methods block for as long as the server takes (milliseconds, and never beyond a limit): call
one as ``await asyncio.to_thread(server.restart)`` where the loop under test has to go on.

A server dies with the process that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from scripts.server_binaries import ServerBinary, locate

__all__ = ["HOST", "STOP_LIMIT", "LocalServer", "free_port"]

HOST = "127.0.0.1"
# Below the ports that the system hands to outgoing connections: a client that keeps connecting
# to a port there while its server is down can end up connected to itself, and hold the port.
PORTS = range(15_000, 32_000)
START_LIMIT = 20.0  # seconds until a started server has to answer
STOP_LIMIT = 10.0  # seconds that a server has for a clean end
TRIES = 5  # ports to try when another process takes the one just found


def free_port() -> int:
    """A loopback port that nobody listens on just now."""
    for _ in range(200):
        port = PORTS.start + secrets.randbelow(len(PORTS))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return port
    raise RuntimeError(f"no free port found in {PORTS}")


class LocalServer(ABC):
    """A server process of one test or one test run.

    ``args`` are added to the command line; ``port`` is chosen freely unless given. As a context
    manager it is started on entry, ended and cleaned up on exit.
    """

    kind: str
    scheme: str

    def __init__(self, *, args: Sequence[str] = (), port: int | None = None) -> None:
        self.binary: ServerBinary = locate(self.kind)
        self.args = tuple(args)
        self.port = port or free_port()
        self._port_is_fixed = port is not None
        self._folder = Path(tempfile.mkdtemp(prefix=f"surestream-{self.kind}-"))
        # Not at exit: a forked child would remove what its parent still uses.
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True).atexit = False
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._paused = False

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"{self.scheme}://{HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """The folder that holds what the server keeps."""
        return self._folder / "data"

    @property
    def log(self) -> str:
        """What the server has written so far."""
        path = self._folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        """The process id. Raises :class:`RuntimeError` when it is not running."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether the process is there (a paused one is)."""
        return self._process is not None and self._process.poll() is None

    # ── life ──

    def start(self) -> Self:
        """Start, and return when it answers. Raises :class:`RuntimeError` with its log if not."""
        if self.running:
            raise RuntimeError(f"{self.kind} on port {self.port} is running already")
        for _ in range(TRIES):
            if self._launch():
                # A restart comes back where its clients expect it.
                self._port_is_fixed = True
                return self
            if self._port_is_fixed or "already in use" not in self.log.lower():
                break
            self.port = free_port()
        raise RuntimeError(f"{self.binary.path} did not start on port {self.port}:\n{self.log}")

    def stop(self) -> None:
        """End it as an operator would (SIGTERM). Does nothing when it is not running."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once (SIGKILL). Does nothing when it is not running."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open, nothing answers."""
        self._running().send_signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Undo :meth:`pause`."""
        self._running().send_signal(signal.SIGCONT)
        self._paused = False

    def restart(self, *, keep_data: bool = True) -> Self:
        """Stop it where it runs, and start it on the same port, with its data or with none."""
        if self._paused:
            self.resume()
        if keep_data and self.running:
            self._save_and_stop()
        else:
            self.stop()
        if not keep_data:
            shutil.rmtree(self.data, ignore_errors=True)
        return self.start()

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # ── what differs ──

    @abstractmethod
    def command(self) -> list[str]:
        """The command line, without ``args``."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether *this* process, not another on the port, serves clients.

        May raise :class:`OSError` while it does not.
        """

    def _save_and_stop(self) -> None:
        """Stop, with everything written down that has to be there after a restart."""
        self.stop()

    # ── process ──

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"{self.kind} on port {self.port} is not running:\n{self.log}")
        return self._process

    def _launch(self) -> bool:
        self._reap()
        self.data.mkdir(parents=True, exist_ok=True)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.binary.path, *self.command(), *self.args],
                cwd=self.data,
                env={**os.environ, **self.binary.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the test run, which then ends its servers in order.
                start_new_session=True,
            )
        # Holds the reading end of a pipe whose writing end only this process has: when this
        # process is gone, for whatever reason, the read ends and the server goes too. Unlike a
        # parent-death signal that does not depend on the thread that started the server.
        last_act = 'read -r _; kill -KILL "$0" 2>/dev/null; sleep 1; rm -rf "$1"'
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", last_act, str(self._process.pid), str(self._folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_LIMIT
        while self.running and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if self.answers() and self.running:
                    return True
            time.sleep(0.01)
        self.kill()
        return False

    def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(how)
            if self._paused:
                process.send_signal(signal.SIGCONT)
            try:
                process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._reap()

    def _reap(self) -> None:
        """Before the process id can be another's: the watcher must not outlive the server."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
            if self._watcher.stdin is not None:
                self._watcher.stdin.close()
        self._watcher = None
        self._process = None
        self._paused = False
