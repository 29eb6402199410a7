"""Which Python files change."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path
from typing import Final

from surestream.cli.faults import UseError
from surestream.cli.suggestions import close_to
from surestream.errors import MissingExtra

__all__ = ["changed_sources", "check_folders", "is_source", "refuse_without_watchfiles"]

STEP: Final = 100
"""Milliseconds without a further change after which changes are told."""
PASSED_OVER: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
"""Folders without sources of the user's; hidden ones are none either."""


def refuse_without_watchfiles() -> None:
    """Raise ``UseError`` that says what to install."""
    if importlib.util.find_spec("watchfiles") is None:
        missing = MissingExtra("reload", needs="watchfiles", purpose="surestream run --reload")
        raise UseError(str(missing))


def check_folders(folders: Iterable[Path]) -> list[Path]:
    """The folders, absolute. Raises ``UseError`` for one that is not there."""
    return [_checked(folder) for folder in folders]


async def changed_sources(folders: Sequence[Path]) -> AsyncGenerator[list[str], None]:
    """Wait for changes of Python files below ``folders``; which ones, as a person would name
    them. What changes within a moment is told together."""
    import watchfiles

    # It tells every change by itself, also of files that are no sources.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)

    def wanted(change: watchfiles.Change, path: str) -> bool:
        return is_source(Path(path), folders)

    over = threading.Event()
    watching = watchfiles.watch(*folders, watch_filter=wanted, step=STEP, stop_event=over)
    try:
        while (changes := await asyncio.to_thread(next, watching, None)) is not None:
            yield sorted({_shown(Path(path)) for _, path in changes})
    finally:
        # The thread looks at it after each step.
        over.set()


def is_source(path: Path, folders: Sequence[Path]) -> bool:
    """Whether ``path`` is a Python file of the user's, below one of ``folders``."""
    if path.suffix != ".py":
        return False
    for folder in folders:
        if path.is_relative_to(folder):
            above = path.relative_to(folder).parts[:-1]
            return not any(part in PASSED_OVER or part.startswith(".") for part in above)
    return False


def _checked(folder: Path) -> Path:
    if folder.is_dir():
        return folder.resolve()
    hints: list[str] = []
    if folder.is_file():
        hints.append(f"it is a file; write `--reload-dir {folder.parent}`")
    elif folder.parent.is_dir():
        near = close_to(folder.name, (one.name for one in folder.parent.iterdir() if one.is_dir()))
        if near is not None:
            hints.append(f"did you mean `--reload-dir {folder.parent / near}`?")
    raise UseError(f"--reload-dir {folder} is no folder", *hints)


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
