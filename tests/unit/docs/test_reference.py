"""Nothing public is missing in the reference, and nothing stands there that is not public."""

from __future__ import annotations

import importlib
import re

import click
import pytest

from surestream.cli.commands import surestream as command_line
from tests.unit.docs.pages import text

PAGES = {
    "surestream": "reference/surestream.md",
    "surestream.redis": "reference/redis.md",
    "surestream.memory": "reference/memory.md",
    "surestream.testing": "reference/testing.md",
    "surestream.contract": "reference/contract.md",
}
NOT_SHOWN = {"__version__"}


@pytest.mark.parametrize("module", PAGES)
def test_its_public_names_are_described(module: str) -> None:
    public = set(importlib.import_module(module).__all__) - NOT_SHOWN

    described = set(
        re.findall(rf"^::: {re.escape(module)}\.(?:\w+\.)*(\w+)$", text(PAGES[module]), re.M)
    )

    assert described == public, f"add or remove `::: {module}.NAME` in docs/{PAGES[module]}"


def test_every_command_and_option_is_described() -> None:
    page = text("reference/command-line.md")
    for name, command in command_line.commands.items():
        assert f"## surestream {name}\n" in page
        section = page.partition(f"## surestream {name}\n")[2].partition("\n## ")[0]
        for option in command.params:
            if isinstance(option, click.Option):
                for spelled in option.opts:
                    assert f"`{spelled}" in section, f"{spelled} of surestream {name}"
