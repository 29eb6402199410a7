"""The scripts of the stream transport, loaded once, and how their replies are read."""

from __future__ import annotations

from importlib.resources import files
from typing import Final, cast

from surestream.redis.replies import Reply
from surestream.redis.script import Script

__all__ = [
    "ACKNOWLEDGE",
    "ADOPT",
    "CLAIM",
    "CLEAN",
    "GIVE_BACK",
    "LEAVE",
    "PARK",
    "PROMOTE",
    "RENEW",
    "REPLACE",
    "REREAD",
    "TOUCH",
    "WHOSE",
    "PendingRow",
    "numbers",
    "pending_rows",
    "read_claims",
    "read_taken",
]


def _fenced(name: str) -> Script:
    folder = files("surestream.redis").joinpath("scripts")
    fence = folder.joinpath("fence.lua").read_bytes()
    return Script(name, fence + folder.joinpath(f"{name}.lua").read_bytes())


REPLACE: Final = _fenced("replace")
PARK: Final = _fenced("park")
WHOSE: Final = _fenced("whose")
ACKNOWLEDGE: Final = _fenced("acknowledge")
PROMOTE: Final = Script.load("promote")
CLAIM: Final = Script.load("claim")
REREAD: Final = Script.load("reread")
ADOPT: Final = Script.load("adopt")
RENEW: Final = Script.load("renew")
GIVE_BACK: Final = Script.load("give_back")
TOUCH: Final = Script.load("touch")
CLEAN: Final = Script.load("clean")
LEAVE: Final = Script.load("leave")

PendingRow = tuple[bytes, bytes, int, int]
"""Id, consumer, milliseconds idle, delivery count."""


def pending_rows(reply: Reply) -> list[PendingRow]:
    """What ``XPENDING`` with a range answers."""
    return cast("list[PendingRow]", reply or [])


def read_claims(reply: Reply) -> tuple[list[tuple[bytes, list[bytes], int]], list[bytes]]:
    """What the script *reread* answers: entries with their counts, and ghosts."""
    return cast("tuple[list[tuple[bytes, list[bytes], int]], list[bytes]]", reply)


def read_taken(reply: Reply) -> tuple[list[tuple[bytes, list[bytes], int]], list[bytes], int]:
    """What the script *claim* answers: entries with their counts, ghosts, how many were tried."""
    return cast("tuple[list[tuple[bytes, list[bytes], int]], list[bytes], int]", reply)


def numbers(reply: Reply) -> list[int]:
    """A reply that is a list of whole numbers."""
    return cast("list[int]", reply)
