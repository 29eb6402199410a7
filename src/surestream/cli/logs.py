"""How ``surestream run`` logs: one line an event, to standard error."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from datetime import datetime
from typing import Final, TextIO

from surestream.cli.levels import LEVELS
from surestream.cli.text import one_line, without_secrets

__all__ = ["LineFormatter", "set_up_logging", "wants_color"]

LONGEST_LINE: Final = 8_000
MOST_LINES: Final = 200
_PLAIN: Final = "\x1b[0m"
_DIM: Final = "\x1b[2m"
_COLORS: Final = {
    logging.DEBUG: _DIM,
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}


class LineFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000+00:00 INFO surestream: refunds/0.1.0: running``.

    A message stays one line whatever is in it, and at most 8,000 characters; credentials in
    URLs are left out. A traceback follows in lines of their own, indented, so that no text in
    it can pass for a record; of more than 200 lines the first ones are left out. ``tag`` tells
    the lines of several processes apart.
    """

    def __init__(self, *, color: bool = False, tag: str | None = None) -> None:
        super().__init__()
        self._color = color
        self._tag = "" if tag is None else f"[{tag}] "

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, without a line break at its end."""
        moment = datetime.fromtimestamp(record.created).astimezone()
        when, level, name = moment.isoformat(timespec="milliseconds"), record.levelname, record.name
        if self._color:
            when = f"{_DIM}{when}{_PLAIN}"
            level = f"{_COLORS.get(record.levelno, '')}{level:8}{_PLAIN}"
            name = f"{_DIM}{one_line(name)}{_PLAIN}"
        else:
            level, name = f"{level:8}", one_line(name)
        lines = [f"{when} {level} {self._tag}{name}: {_safe(record.getMessage())}"]
        details = self._details(record)
        if len(details) > MOST_LINES:
            lines.append(f"    … {len(details) - MOST_LINES} lines left out")
        lines.extend(f"    {_safe(line)}" for line in details[-MOST_LINES:])
        return "\n".join(lines)

    def _details(self, record: logging.LogRecord) -> list[str]:
        text = ""
        if record.exc_info and record.exc_info[0] is not None:
            text = "".join(traceback.format_exception(*record.exc_info))
        elif record.exc_text:
            text = record.exc_text
        if record.stack_info:
            text = f"{text}\n{record.stack_info}"
        return [line for line in text.split("\n") if line.strip()]


def set_up_logging(
    level: str | None, stream: TextIO | None = None, *, tag: str | None = None
) -> None:
    """Send everything that is logged from ``level`` on ("info" unless given) to standard error.

    Where the user's program has set up logging before, that is left as it is; a ``level`` that
    was asked for then holds for the loggers of this package.
    """
    root = logging.getLogger()
    if root.handlers:
        if level is not None:
            logging.getLogger("surestream").setLevel(LEVELS[level])
        return
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    handler.setFormatter(LineFormatter(color=wants_color(target), tag=tag))
    root.addHandler(handler)
    root.setLevel(LEVELS[level or "info"])


def wants_color(stream: TextIO) -> bool:
    """Whether colors are understood and welcome: on a terminal, unless ``NO_COLOR`` is set or
    ``TERM`` is ``dumb``."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def _safe(text: str) -> str:
    if len(text) > LONGEST_LINE:
        text = f"{text[:LONGEST_LINE]}… ({len(text):,} characters)"
    return one_line(without_secrets(text))
