"""A Markdown extension of the documentation site: code from ``examples/``, told by name.

A line of its own, inside a fenced block::

    --from-- examples/refunds/service.py: BACKOFF, Refund
    --from-- examples/refunds/service.py: app …

becomes what stands in that file under these names: a class, a function with its decorators, an
assignment, each with the comment right above it. ``…`` goes on from there to the end of the file.
Nothing has to be marked in the examples, and a name that is gone fails the build.

Used by ``mkdocs.yml`` under its module name.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, Final

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

__all__ = ["DocsSnippets", "makeExtension", "snippet"]

ROOT: Final = Path(__file__).resolve().parents[1]
LINE: Final = re.compile(r"^( *)--from-- (\S+\.py): (.+)$")
TO_THE_END: Final = "…"


class Snippets(Preprocessor):
    """Puts the code where the line is."""

    def run(self, lines: list[str]) -> list[str]:
        done: list[str] = []
        for line in lines:
            match = LINE.match(line)
            if match is None:
                done.append(line)
            else:
                code = snippet(ROOT / match[2], match[3]).split("\n")
                done += [match[1] + each if each else each for each in code]
        return done


def snippet(path: Path, names: str) -> str:
    """What stands in ``path`` under ``names``, with the blank lines of the file between them.

    Raises ``LookupError`` for a name that is not there.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    places = _places(path)
    parts: list[tuple[int, int]] = []
    for name in names.split(","):
        wanted, _, rest = name.strip().partition(" ")
        if wanted not in places:
            raise LookupError(f"{path.name} defines no {wanted!r}, only {', '.join(places)}")
        first, last = places[wanted]
        while lines[first - 2].startswith("#"):
            first -= 1
        parts.append((first, len(lines) if rest == TO_THE_END else last))
    text = ""
    for number, (first, last) in enumerate(parts):
        if number:
            after = parts[number - 1][1]
            # As far apart as they are in the file, where one follows the other.
            near = first - after - 1 if 0 < first - after <= 3 else 2
            text += "\n" * (near + 1)
        text += "\n".join(lines[first - 1 : last])
    return text


def _places(path: Path) -> dict[str, tuple[int, int]]:
    """The first and last line of every top-level definition."""
    places: dict[str, tuple[int, int]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        end = node.end_lineno or node.lineno
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            places[node.name] = (first, end)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    places[target.id] = (node.lineno, end)
    return places


class DocsSnippets(Extension):
    """All of the above."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown's name
        # Before fenced blocks (25) are taken out, after white space is put in order (30).
        md.preprocessors.register(Snippets(md), "surestream-snippets", 29)


def makeExtension(**settings: Any) -> DocsSnippets:  # noqa: N802 - the name Markdown looks for
    """Called by Markdown."""
    return DocsSnippets(**settings)
