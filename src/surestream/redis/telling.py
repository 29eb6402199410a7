"""Log lines about a fault that lasts."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final

__all__ = ["Telling"]

_log = logging.getLogger("surestream.redis")

BETWEEN: Final = 1.0


class Telling:
    """Lets one line a second through for one kind of fault, and counts the others."""

    def __init__(self) -> None:
        self._last = -math.inf
        self._left_out = 0

    def __call__(self, level: int, text: str, *parts: object) -> None:
        """Log, or count as left out."""
        now = asyncio.get_running_loop().time()
        if now - self._last < BETWEEN:
            self._left_out += 1
            return
        self._last = now
        left_out, self._left_out = self._left_out, 0
        if left_out:
            text, parts = f"{text} (%d lines like this left out)", (*parts, left_out)
        _log.log(level, text, *parts)
