"""What a user probably meant, as a line that can be typed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Invocation", "close_to"]


@dataclass(frozen=True, slots=True)
class Invocation:
    """The command in which ``MODULE:APP`` was wrong, so that suggestions can repeat it."""

    command: str = "run"
    rest: str = ""
    """What follows ``MODULE:APP``."""

    def of(self, target: str, *, factory: bool = False, before: str = "") -> str:
        """The command line that names ``target``, in backquotes."""
        option = " --factory" if factory else ""
        rest = f" {self.rest}" if self.rest else ""
        return f"`{before}surestream {self.command} {target}{option}{rest}`"


def close_to(name: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``name`` was probably meant to be."""
    found = difflib.get_close_matches(name, sorted(known), n=1)
    return found[0] if found else None
