"""Text that others wrote, made safe for one line of a terminal or a log."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["joined", "one_line", "without_secrets"]

_CREDENTIALS: Final = re.compile(r"(?<=://)[^\s/'\"]+@")


def one_line(text: str) -> str:
    """``text`` with everything that cannot be printed escaped: line breaks, escape sequences,
    characters that change the direction of writing. A message cannot forge a second line."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else _escaped(sign) for sign in text)


def without_secrets(text: str) -> str:
    """``text`` with user and password of every URL in it left out."""
    return _CREDENTIALS.sub("…@", text) if "://" in text else text


def joined(names: list[str], last: str = "or") -> str:
    """``a, b or c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")
