"""What is wrong with what the user asked to run, and where in the user's files it is."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import surestream
from surestream.cli.text import one_line, without_secrets
from surestream.errors import DeclarationError, SureStreamError

__all__ = [
    "UseError",
    "fault_of",
    "from_user_code",
    "is_by_user",
    "is_ours",
    "place",
    "print_fault",
    "reason",
]

_OURS: Final = Path(surestream.__file__).parent
_PYTHON: Final = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))


class UseError(SureStreamError):
    """Nothing can be run: ``what`` is wrong, each of ``hints`` is a line that helps.

    The process exits with status 2. Where an exception of the user's own code stands behind it,
    that is the ``__cause__``.
    """

    def __init__(self, what: str, *hints: str) -> None:
        self.what = what
        self.hints = hints
        super().__init__(what, *hints)

    def __str__(self) -> str:
        lines = [self.what, *(f"  {hint}" for hint in self.hints)]
        return "\n".join(one_line(without_secrets(line)) for line in lines)


def fault_of(error: BaseException, doing: str) -> UseError:
    """Tell an exception of the user's own code: ``doing`` failed, the reason, the place.

    A ``DeclarationError`` explains itself and is told as it is.
    """
    where = _at(error)
    if isinstance(error, DeclarationError):
        first, *others = str(error).splitlines()
        told = () if error.where is not None else where
        fault = UseError(first, *(line.strip() for line in others), *told)
    elif isinstance(error, SystemExit):
        fault = UseError(
            f"{doing} ended the process: SystemExit({error.code!r})",
            *where,
            'what shall only run as a program belongs below `if __name__ == "__main__":`',
        )
    else:
        fault = UseError(f"{doing} failed: {reason(error)}", *where)
    fault.__cause__ = error
    return fault


def print_fault(fault: UseError, *, with_traceback: bool = False) -> None:
    """Tell a fault on standard error, its traceback in the user's code first where that is
    wanted."""
    cause = fault.__cause__
    if cause is not None and with_traceback:
        for line in "".join(traceback.format_exception(from_user_code(cause))).splitlines():
            print(f"    {one_line(without_secrets(line))}", file=sys.stderr)
    print(f"surestream: {fault}", file=sys.stderr)
    if not (cause is None or with_traceback or isinstance(cause, DeclarationError)):
        print("  --log-level debug shows the traceback", file=sys.stderr)


def reason(error: BaseException) -> str:
    """Class and message of an exception in one line."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    message = str(error).strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def place(error: BaseException) -> str | None:
    """File, line and function in which the user's code raised, or let it through; the file
    below the working directory is relative."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_shown(error.filename)}:{error.lineno}"
    found = None
    for step in _steps(error.__traceback__):
        file = step.tb_frame.f_code.co_filename
        if is_by_user(file):
            found = f"{_shown(file)}:{step.tb_lineno} in {step.tb_frame.f_code.co_name}"
    return found


def from_user_code(error: BaseException) -> BaseException:
    """The exception with its traceback from the first line of the user's code on: what called
    that is ours, and no help."""
    for step in _steps(error.__traceback__):
        if is_by_user(step.tb_frame.f_code.co_filename):
            return error.with_traceback(step)
    return error


def is_by_user(file: str) -> bool:
    """Whether code is the user's: not ours, not Python's, not an installed package's."""
    path = Path(file)
    if file.startswith("<") or "site-packages" in path.parts or is_ours(file):
        return False
    if path.is_relative_to(Path.cwd()) and not path.is_relative_to(sys.prefix):
        return True
    return not any(path.is_relative_to(folder) for folder in _PYTHON)


def is_ours(file: str) -> bool:
    """Whether code is part of this package."""
    return Path(file).is_relative_to(_OURS)


def _at(error: BaseException) -> Sequence[str]:
    where = place(error)
    return () if where is None else (f"at {where}",)


def _steps(traceback: TracebackType | None) -> Sequence[TracebackType]:
    steps: list[TracebackType] = []
    while traceback is not None:
        steps.append(traceback)
        traceback = traceback.tb_next
    return steps


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
