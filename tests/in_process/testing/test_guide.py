"""What the guide to testing shows is so: its blocks run, and a failure looks as it says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT, Block, blocks, run

PAGE = "guides/testing.md"
FAILING = """
from service import Refund, process_refund


async def test_it_is_paid(tb):
    await tb.publish("refunds", Refund(7, "down"))
    tb.assert_settled(process_refund, "ack")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all files that the page shows."""
    for block in files():
        assert block.title is not None
        (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    return tmp_path


def files() -> list[Block]:
    """The blocks that are files of their own."""
    shown = [block for block in blocks(PAGE) if block.language in ("python", "toml")]
    return [block for block in shown if "--from--" not in block.text]


def test_its_tests_pass(folder: Path) -> None:
    written = [ast.parse(block.text) for block in files() if block.language == "python"]
    tests = [
        each
        for module in written
        for each in module.body
        if isinstance(each, ast.AsyncFunctionDef) and each.name.startswith("test_")
    ]

    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)

    assert f"{len(tests)} passed" in done.stdout, done.stdout + done.stderr
    assert len(tests) >= 6


def test_a_failure_is_told_as_it_says(folder: Path) -> None:
    (shown,) = [block.text for block in blocks(PAGE, "text")]
    (folder / "test_failing.py").write_text(FAILING, encoding="utf-8")

    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_failing.py", cwd=folder)

    assert done.returncode == 1
    told = [line.removeprefix("E").strip() for line in done.stdout.splitlines()]
    for line in shown.splitlines():
        assert line.strip() in {*told, "..."}, done.stdout


def test_what_it_takes_from_the_examples_is_run_there() -> None:
    taken = [block.text.split()[1] for block in blocks(PAGE) if "--from--" in block.text]

    assert taken
    for path in taken:
        name = path.rstrip(":")
        assert (ROOT / name).name.startswith("test_"), name
        assert "examples" in (ROOT / name).parts
