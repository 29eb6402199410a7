"""Every error that SureStream raises, by what the caller can do about it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "BrokerRefused",
    "ConnectFailed",
    "ConnectRefused",
    "ConnectionLost",
    "DeclarationError",
    "DeclarationTypeError",
    "DecodeError",
    "EncodeError",
    "HandlerTimeout",
    "MissingExtra",
    "NotRunning",
    "ServiceFailed",
    "Site",
    "SureStreamError",
]


class SureStreamError(Exception):
    """The base of all errors raised by this package."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where in the user's program a registration stands."""

    handler: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.handler} at {self.file}:{self.line}"


def calling_site(what: str) -> Site:
    """The line of the user's program that called into this package to declare ``what``."""
    frame = inspect.currentframe()
    while frame is not None and _is_ours(frame.f_globals.get("__name__")):
        frame = frame.f_back
    if frame is None:
        return Site(what, "<unknown>", 0)
    path = Path(frame.f_code.co_filename)
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return Site(what, str(here), frame.f_lineno)


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and (
        module.partition(".")[0] == "surestream" or module == "dataclasses"
    )


class DeclarationError(SureStreamError, ValueError):
    """A declaration that cannot work, refused before the first message (rule 7.1).

    ``what`` names the value, ``where`` the registration, ``why`` the reason, ``write`` the
    line to write instead.
    """

    def __init__(
        self, what: str, *, why: str, write: str | None = None, where: Site | str | None = None
    ) -> None:
        self.what = what
        self.why = why
        self.write = write
        self.where = where
        super().__init__(what, why, write, where)

    def at(self, where: Site | str) -> DeclarationError:
        """The same refusal, told with the registration it belongs to; one that knows its place
        keeps it, unless it is the same line under a better name."""
        if self.where is not None and not _same_line(self.where, where):
            return self
        return type(self)(self.what, why=self.why, write=self.write, where=where)

    def __str__(self) -> str:
        lines = [f"refused: {self.what}"]
        if self.where is not None:
            lines.append(f"  where: {self.where}")
        lines.append(f"  why:   {self.why}")
        if self.write is not None:
            lines.append(f"  write: {self.write}")
        return "\n".join(lines)


def _same_line(one: Site | str, other: Site | str) -> bool:
    return (
        isinstance(one, Site)
        and isinstance(other, Site)
        and (one.file, one.line) == (other.file, other.line)
    )


class DeclarationTypeError(DeclarationError, TypeError):
    """A declaration of the wrong type; also a ``TypeError``."""


class MissingExtra(SureStreamError, ImportError):
    """A part of the package was used whose dependencies are not installed."""

    def __init__(self, extra: str, *, needs: str, purpose: str) -> None:
        self.extra = extra
        super().__init__(f"{purpose} needs {needs}: pip install 'surestream[{extra}]'")


class ConnectFailed(SureStreamError):
    """The broker could not be reached; another try may succeed."""


class ConnectRefused(ConnectFailed):
    """The broker answered and will not let this client in (credentials, database, rights)."""


class ConnectionLost(SureStreamError):
    """The connection ended while a command was under way: it may or may not have run."""


class BrokerRefused(SureStreamError):
    """The broker answered a command with an error.

    ``permanent`` says that the same command can never succeed (too large, impossible name),
    so that a retry is pointless (rule 5.2).
    """

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        self.permanent = permanent
        super().__init__(message)


class DecodeError(SureStreamError):
    """A payload that is not what the handler's annotation asks for (rule 2.6)."""


class EncodeError(SureStreamError):
    """A value that cannot be written as a payload."""


class HandlerTimeout(SureStreamError, TimeoutError):
    """A handler ran longer than its ``timeout=`` (rule 2.5)."""


class NotRunning(SureStreamError):
    """Something live was asked of a declaration that is not running."""


class ServiceFailed(SureStreamError):
    """A running service stopped because of a fault; the process exits with status 1."""
