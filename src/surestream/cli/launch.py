"""What ``surestream run`` was asked to run, as it is handed to a process of its own."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import msgspec

__all__ = ["Launch", "command_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One service, and as which of several processes it runs."""

    target: str
    """``MODULE:APP``."""
    factory: bool = False
    log_level: str | None = None
    shutdown_timeout: float | None = None
    number: int = 1
    """Which of the workers it is."""
    workers: int = 1
    """How many processes share the work (rule 6.11)."""
    introduces: bool = True
    """Whether it logs what the service reads; one of the workers does."""
    channel: int | None = None
    """The descriptor of the socket to the process that started it."""

    @property
    def tag(self) -> str | None:
        """What tells the log lines of several processes apart."""
        return None if self.workers == 1 else str(self.number)

    @classmethod
    def parsed(cls, text: str) -> Launch:
        """The launch that was written by :func:`command_of`."""
        return msgspec.json.decode(text, type=cls)


def command_of(launch: Launch) -> list[str]:
    """The command line of a process for ``launch``, under the interpreter options of this one."""
    # Not the working directory before the library: a file there may bear any name (-P).
    module = ["-P", "-m", "surestream.cli.child"]
    # The target by itself too: it is what one looks for in a list of processes.
    return [*_interpreter(), *module, launch.target, msgspec.json.encode(launch).decode()]


def _interpreter() -> list[str]:
    # What stands before our own arguments: the interpreter's options, and how it was told
    # what to run.
    options = sys.orig_argv[1 : max(len(sys.orig_argv) - len(sys.argv), 1)]
    if options and options[-1] in ("-m", "-c"):
        options.pop()
    return [sys.executable, *options]
