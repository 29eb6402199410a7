"""The whole text of a refusal, and the line it has to name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surestream import App, DeclarationError, DeclarationTypeError

__all__ = ["line_of", "refused", "refused_start", "text"]


def text(what: str, *, where: str, why: str, write: str) -> str:
    """A refusal as it is printed."""
    return f"refused: {what}\n  where: {where}\n  why:   {why}\n  write: {write}"


def line_of(function: Callable[..., object], marked: str) -> str:
    """``file:line`` of the line in ``function`` that ``marked`` stands in."""
    lines, first = inspect.getsourcelines(function)
    number = next(n for n, line in enumerate(lines) if marked in line)
    return f"{Path(inspect.getfile(function)).relative_to(Path.cwd())}:{first + number}"


def refused(declare: Callable[[], Any], *, type_error: bool = False) -> str:
    """What ``declare()`` is refused with, its own file and line shown as ``HERE``."""
    with pytest.raises(DeclarationError) as error:
        declare()
    assert isinstance(error.value, ValueError)
    assert isinstance(error.value, TypeError) is type_error
    assert (type(error.value) is DeclarationTypeError) is type_error
    code = declare.__code__
    file = Path(code.co_filename).relative_to(Path.cwd())
    told = str(error.value)
    for line in {number for _, _, number in code.co_lines() if number is not None}:
        told = told.replace(f" at {file}:{line}\n", " at HERE\n")
    return told


async def refused_start(app: App) -> str:
    """What the start of ``app`` is refused with."""
    with pytest.raises(DeclarationError) as error:
        async with app.running():
            pass
    return str(error.value)
