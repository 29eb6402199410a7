"""The command line in processes of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import pytest

SERVICES: Final = Path(__file__).parent / "services"
LIMIT: Final = 20.0


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    status: int
    """Negative where a signal ended it."""
    seconds: float
    """From the moment it was asked for the end."""
    out: str
    err: str

    def logged(self, text: str) -> list[str]:
        """The lines on standard error that contain ``text``."""
        return [line for line in self.err.splitlines() if text in line]


class Child:
    """``surestream run …`` in a process; that and all it starts are one process group."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        output: Path,
        env: dict[str, str],
        stdin: bytes | None,
    ) -> None:
        self._out, self._err = output / "out", output / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                arguments,
                cwd=folder,
                env=os.environ | {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"} | env,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        if stdin is not None and self.process.stdin is not None:
            with self.process.stdin as stream:
                stream.write(stdin)
        self._asked = time.monotonic()

    @property
    def out(self) -> str:
        """What it has written to standard output so far."""
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        """What it has written to standard error so far."""
        return self._err.read_text(errors="replace")

    def wait_for(self, text: str, times: int = 1) -> None:
        """Until it has written ``text`` so many times, to either stream."""
        self.wait_until(
            lambda: self.out.count(text) + self.err.count(text) >= times, f"{text!r} × {times}"
        )

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Until ``holds``, as long as the process runs."""
        limit = time.monotonic() + LIMIT
        while True:
            over = time.monotonic() > limit or self.process.poll() is not None
            if holds():
                return
            if over:
                raise AssertionError(f"{what} did not come:\n{self.out}\n{self.err}")
            time.sleep(0.01)

    def send(self, number: signal.Signals, *, group: bool = False) -> None:
        """Send a signal; the time to the end counts from the last one. ``group``: to all
        processes, as a terminal does."""
        self._asked = time.monotonic()
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def living(self) -> set[int]:
        """The processes that still run: this one and all it has started."""
        listed = subprocess.run(
            ["ps", "-eo", "pgid=,pid=,stat="], capture_output=True, text=True, check=True
        ).stdout
        rows = [line.split() for line in listed.splitlines()]
        mine = [(pid, state) for group, pid, state in rows if int(group) == self.process.pid]
        return {int(pid) for pid, state in mine if not state.startswith("Z")}

    def all_gone(self) -> bool:
        """Whether nothing of it runs any more, soon."""
        limit = time.monotonic() + LIMIT
        while self.living():
            if time.monotonic() > limit:
                return False
            time.sleep(0.05)
        return True

    def ended(self) -> Ended:
        """Wait for the end."""
        status = self.process.wait(LIMIT)
        return Ended(status, time.monotonic() - self._asked, self.out, self.err)

    def stopped(self, number: signal.Signals = signal.SIGTERM) -> Ended:
        """Ask for the end, and wait for it."""
        self.send(number)
        return self.ended()


class Start(Protocol):
    """Starts ``surestream`` with arguments, or a Python file, in a folder, with variables of the
    environment, and what it reads from standard input."""

    def __call__(
        self, *arguments: str, folder: Path = SERVICES, stdin: bytes | None = None, **env: str
    ) -> Child: ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start children; those that still run are killed with the test."""
    children: list[Child] = []

    def begin(
        *arguments: str, folder: Path = SERVICES, stdin: bytes | None = None, **env: str
    ) -> Child:
        output = tmp_path / f"child-{len(children)}"
        output.mkdir()
        python = Path(sys.executable)
        program = python if arguments[0].endswith(".py") else python.with_name("surestream")
        command = [str(program), *arguments]
        children.append(Child(command, folder, output, env, stdin))
        return children[-1]

    yield begin
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, signal.SIGKILL)
        child.process.wait(LIMIT)


class Run(Protocol):
    """Runs ``surestream`` to its end."""

    def __call__(
        self, *arguments: str, folder: Path = SERVICES, stdin: bytes | None = None, **env: str
    ) -> Ended: ...


@pytest.fixture
def run(start: Start) -> Run:
    """Run a child that ends by itself."""

    def to_the_end(
        *arguments: str, folder: Path = SERVICES, stdin: bytes | None = None, **env: str
    ) -> Ended:
        return start(*arguments, folder=folder, stdin=stdin, **env).ended()

    return to_the_end
