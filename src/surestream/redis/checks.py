"""What the sources of this room have in common when they check their declarations."""

from __future__ import annotations

from datetime import timedelta

from surestream.declaration import duration
from surestream.errors import DeclarationError, DeclarationTypeError
from surestream.redis.seat import is_entry_id

__all__ = ["at_most", "frozen", "printable", "starting_place", "yes_or_no"]


def frozen(target: object, name: str, value: object) -> None:
    """Set a field of a frozen source while it is built."""
    object.__setattr__(target, name, value)


def at_most(name: str, value: float | timedelta, limit: float) -> float:
    """A span in seconds, above zero and up to ``limit``."""
    span = duration(name, value)
    if span > limit:
        raise DeclarationError(
            f"{name}={value!r}",
            why=f"it is {limit / 86_400:,.0f} days ({limit:,.0f} s) at most",
            write=f"{name} in seconds, or as a timedelta",
        )
    return span


def printable(setting: str, value: object, write: str) -> str:
    """A name that logs can show."""
    if not isinstance(value, str):
        raise DeclarationTypeError(f"{setting}={value!r}", why="a name is text", write=write)
    if not value.strip() or not value.isprintable():
        raise DeclarationError(
            f"{setting}={value!r}", why="a name has to be printable, and not blank", write=write
        )
    return value


def yes_or_no(setting: str, value: object) -> bool:
    """A switch."""
    if not isinstance(value, bool):
        raise DeclarationTypeError(
            f"{setting}={value!r}", why="it is a yes or no", write=f"{setting}=True"
        )
    return value


def starting_place(value: object) -> str:
    """Where a new group begins: "beginning", "new" or an entry id."""
    write = 'start="beginning", start="new" or an entry id such as start="1700000000000-0"'
    if not isinstance(value, str):
        raise DeclarationTypeError(f"start={value!r}", why="it is a word or an id", write=write)
    if value in ("beginning", "new"):
        return value
    if not is_entry_id(value):
        raise DeclarationError(f"start={value!r}", why="it is no place in a stream", write=write)
    return value
