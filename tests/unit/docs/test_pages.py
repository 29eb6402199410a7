"""The Python of the pages runs: what a page shows is so.

The blocks of a page run one after another in one namespace, and its tests run too. A block
that comes from ``examples/`` (``--from--``) puts that module's names there. *First steps* and
*Testing* show whole files; they have tests of their own.
"""

from __future__ import annotations

import importlib
import inspect
import io
import re
from typing import Any

import pytest
from rich.console import Console

from examples.refunds import demo
from tests.unit.docs.pages import ROOT, Block, blocks, pages, text

OWN_TESTS = {"first-steps.md", "guides/testing.md"}
WITH_PYTHON = [page for page in pages() if page not in OWN_TESTS and blocks(page, "python")]


async def run(page: str) -> dict[str, Any]:
    """Everything a page's blocks define."""
    names: dict[str, Any] = {"__name__": "page"}
    tested: set[str] = set()
    for block in blocks(page, "python"):
        if block.is_foreign:
            block.compiled()
            continue
        included = re.findall(r"^--from-- (\S+)\.py:", block.text, re.MULTILINE)
        for path in included:
            names.update(vars(importlib.import_module(path.replace("/", "."))))
        if not included:
            before = set(names)
            exec(block.compiled(), names)
            tested |= {name for name in set(names) - before if name.startswith("test_")}
    for name in sorted(tested):
        done = names[name]()
        if inspect.isawaitable(done):
            await done
    return names


@pytest.mark.parametrize("page", WITH_PYTHON)
async def test_its_blocks_run(page: str) -> None:
    await run(page)


async def test_the_service_at_home_is_the_one_of_the_output() -> None:
    from surestream.testing import TestApp

    names = await run("index.md")

    async with TestApp(names["app"]) as tb:
        for card in ("4000 1234", "busy", "down", "closed"):
            await tb.publish("refunds", {"id": 1, "card": card, "amount_cents": 5})
        settled = [done.how for done in tb.settlements(names["process_refund"])]
        assert settled == ["ack", "parked", *["copy"] * 4, "dead letter", "drop"]


async def test_the_output_at_home_is_what_the_demo_prints() -> None:
    (shown,) = blocks("index.md", "text")
    printed = io.StringIO()
    console = Console(file=printed, width=80, highlight=False, force_terminal=False)

    demo.show(console, await demo.run_service(), 0.1)

    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    begins = lines.index(shown.text.splitlines()[0])
    expected = [line for line in lines[begins:] if "the reviewer" not in line]
    assert shown.text.splitlines() == expected[: len(shown.text.splitlines())]


def test_every_block_of_a_page_is_closed() -> None:
    for page in pages():
        fences = re.findall(r"^ *```", text(page), re.MULTILINE)
        assert len(fences) == 2 * len(blocks(page)), page


def test_a_title_says_what_a_block_is() -> None:
    found: list[Block] = [block for page in pages() for block in blocks(page, "python")]
    assert {block.title for block in found if block.is_foreign} == {"FastStream"}


def test_every_page_is_in_the_navigation_and_every_decision_in_the_list() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    index = text("decisions/index.md")
    for page in pages():
        assert f"{page}\n" in nav, f"{page} is missing in mkdocs.yml"
        if re.match(r"decisions/\d", page):
            assert page.removeprefix("decisions/") in index, f"{page} is not in the list"
