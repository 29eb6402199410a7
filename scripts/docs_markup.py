"""A Markdown extension of the documentation site: what docstrings and rules say, with links.

- ``rule 5.1`` becomes a link; the rules page gets the anchors.
- ``:class:`~surestream.App``` in a docstring becomes the name in code, linked where the reference
  describes it.
- A docstring's ``::`` and the indented lines below it become a Python block.

Used by ``mkdocs.yml`` under its module name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

__all__ = ["DocsMarkup", "makeExtension"]

ROLE: Final = r":(?:attr|class|data|exc|func|meth|mod):`(?:[^`<]*<)?~?([\w.]+)>?`"
NUMBER: Final = r"[2-8]\.[0-9]{1,2}\b"
RULES: Final = rf"\brules?\s{NUMBER}(?:(?:, |,? and | to ){NUMBER})*"
RULE_START: Final = re.compile(r"^\*\*([2-8]\.[0-9]{1,2})\*\*(?= )")
FENCE: Final = re.compile(r"^ *(```+|~~~+)")


class Roles(InlineProcessor):
    """``:meth:`pull``` and its like, as Sphinx writes them."""

    # A link of the page's own stays what it is.
    ANCESTOR_EXCLUDES = ("a", "autoref")

    def handleMatch(  # noqa: N802 - Markdown's name
        self, m: re.Match[str], data: str
    ) -> tuple[Element, int, int]:
        target = m[1]
        name = Element("code")
        name.text = target.rpartition(".")[2]
        if not target.startswith("surestream."):
            return name, m.start(0), m.end(0)
        # Optional: some of what docstrings name is not part of the reference.
        link = Element("autoref", {"identifier": target, "optional": ""})
        link.append(name)
        return link, m.start(0), m.end(0)


class Rules(InlineProcessor):
    """``rule 5.1``, or ``rules 5.1 and 6.4``, each linked to where it stands."""

    ANCESTOR_EXCLUDES = ("a", "autoref", "h1", "h2", "h3", "h4")

    def handleMatch(  # noqa: N802
        self, m: re.Match[str], data: str
    ) -> tuple[Element, int, int]:
        words = Element("span")
        last: Element | None = None
        # The word belongs to the first link: "rule 5.1", and "6.4" after it.
        for part in re.split(f"((?:rules?\\s)?{NUMBER})", m[0]):
            number = re.search(NUMBER, part)
            if number is not None:
                last = SubElement(words, "autoref", {"identifier": anchor(number[0])})
                last.text = part
            elif last is not None:
                last.tail = part
        return words, m.start(0), m.end(0)


class Lines(Preprocessor):
    """What is easier said line by line: anchors of rules, code below ``::``."""

    def run(self, lines: list[str]) -> list[str]:
        return list(self._changed(lines))

    def _changed(self, lines: list[str]) -> Iterable[str]:
        fence: str | None = None
        left = list(reversed(lines))
        while left:
            line = left.pop()
            mark = FENCE.match(line)
            if mark is not None and (fence is None or mark[1].startswith(fence)):
                fence = mark[1] if fence is None else None
            if fence is not None or not line.endswith("::"):
                yield line if fence is not None else RULE_START.sub(_anchored, line)
                continue
            yield line[:-1]
            yield from _block(left)


def _block(left: list[str]) -> Iterable[str]:
    """The indented lines that come next, as a block of Python."""
    code: list[str] = []
    while left and (left[-1].startswith("    ") or not left[-1].strip()):
        code.append(left.pop()[4:])
    yield from ("", "```python", *"\n".join(code).strip("\n").split("\n"), "```", "")


def _anchored(rule: re.Match[str]) -> str:
    return f'<a id="{anchor(rule[1])}"></a>{rule[0]}'


def anchor(rule: str) -> str:
    """The anchor of a rule, by its number."""
    return f"rule-{rule}"


class DocsMarkup(Extension):
    """All of the above."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        # Before fenced blocks (25) are taken out, after white space is put in order (30).
        md.preprocessors.register(Lines(md), "surestream-lines", 28)
        # Before backticks (190): a role is written with them.
        md.inlinePatterns.register(Roles(ROLE, md), "surestream-roles", 195)
        # After links (160) and code: what stands in them is left alone.
        md.inlinePatterns.register(Rules(RULES, md), "surestream-rules", 60)


def makeExtension(**settings: Any) -> DocsMarkup:  # noqa: N802 - the name Markdown looks for
    """Called by Markdown."""
    return DocsMarkup(**settings)
