"""The code blocks of the documentation's pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands in it, and where."""

    page: str
    line: int
    language: str
    title: str | None
    text: str

    @property
    def is_file(self) -> bool:
        """It is shown as the whole content of a Python file."""
        return self.title is not None and self.title.endswith(".py")

    @property
    def is_foreign(self) -> bool:
        """It is code for another library, named in its title."""
        return self.title is not None and not self.is_file

    @property
    def is_included(self) -> bool:
        """It comes from a file under ``examples/``, which has tests of its own."""
        return "--8<--" in self.text

    def compiled(self, mode: str = "exec", flags: int = 0) -> object:
        """The block as code; its lines are those of the page."""
        text = "\n" * self.line + self.text
        return compile(text, self.page, mode, flags, dont_inherit=True)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page, by its path below ``docs/``."""
    return sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def text(page: str) -> str:
    """A page as it is written."""
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str, language: str | None = None) -> list[Block]:
    """The blocks of a page, in order; those of one language."""
    written = text(page)
    found: list[Block] = []
    for match in _FENCE.finditer(written):
        if language is None or match[2] == language:
            title = _TITLE.search(match[3])
            found.append(
                Block(
                    page,
                    written.count("\n", 0, match.start()) + 1,
                    match[2],
                    None if title is None else title[1],
                    textwrap.dedent(match[4]),
                )
            )
    return found


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A Python program in a terminal of 80 columns, warnings being errors."""
    environment = {name: value for name, value in os.environ.items() if name != "BACKOFF"}
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=cwd,
        env=environment | {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=50,
    )
