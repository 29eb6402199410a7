"""What the site makes of docstrings and rule numbers, and where its code comes from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown import Markdown

from scripts.docs_check import check
from scripts.docs_markup import DocsMarkup
from scripts.docs_snippets import DocsSnippets, snippet
from tests.unit.docs.pages import pages, text


def html(source: str) -> str:
    extensions = [DocsMarkup(), DocsSnippets(), "fenced_code"]
    return Markdown(extensions=extensions).convert(source)


def test_a_rule_is_linked_wherever_it_is_named() -> None:
    assert html("See rule 5.1.") == (
        '<p>See <span><autoref identifier="rule-5.1">rule 5.1</autoref></span>.</p>'
    )
    both = html("rules 2.1 and 6.10, Redis 7.0")
    assert re.findall(r'identifier="([^"]+)">([^<]+)<', both) == [
        ("rule-2.1", "rules 2.1"),
        ("rule-6.10", "6.10"),
    ]


@pytest.mark.parametrize("source", ["`rule 5.1`", "[the rule 5.1](x.md)", "```\nrule 5.1\n```"])
def test_code_and_links_are_left_alone(source: str) -> None:
    assert "autoref" not in html(source)


def test_where_a_rule_begins_there_is_an_anchor() -> None:
    assert '<a id="rule-5.1"></a><strong>5.1</strong>' in html("**5.1** *First.* Then.")
    assert "<a id" not in html("Not **5.1** here.")


def test_every_rule_that_a_page_names_is_there() -> None:
    there = set(re.findall(r"^\*\*([2-8]\.\d+)\*\* ", text("rules.md"), re.MULTILINE))
    for page in pages():
        for words in re.findall(r"\brules?\s(?:[2-8]\.\d+(?:, |,? and | to )?)+", text(page)):
            assert set(re.findall(r"[2-8]\.\d+", words)) <= there, f"{page}: {words}"


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (":class:`Headers`", "<p><code>Headers</code></p>"),
        (
            ":class:`~surestream.App`",
            '<p><autoref identifier="surestream.App" optional=""><code>App</code></autoref></p>',
        ),
        (
            ":meth:`Address.parse\n<surestream.redis.address.Address.parse>`",
            '<p><autoref identifier="surestream.redis.address.Address.parse" optional="">'
            "<code>parse</code></autoref></p>",
        ),
    ],
)
def test_a_role_is_a_name_in_code(role: str, expected: str) -> None:
    assert html(role) == expected


def test_two_colons_and_indented_lines_are_a_block_of_python() -> None:
    shown = html("Run it::\n\n    async with app:\n        ...\n\nThat is all.")

    assert "<p>Run it:</p>" in shown
    assert "async with app:\n    ...\n</code>" in shown
    assert shown.endswith("<p>That is all.</p>")


MODULE = '''\
"""A module."""

import os

# How long.
WAIT = 30


@decorated(
    WAIT,
)
def handler() -> None:
    """Handle."""


class Model:
    id: int


app = App()
app.include(handler)
'''


def test_code_is_taken_by_name(tmp_path: Path) -> None:
    path = tmp_path / "service.py"
    path.write_text(MODULE)

    assert snippet(path, "WAIT") == "# How long.\nWAIT = 30"
    assert snippet(path, "handler").startswith("@decorated(\n")
    assert snippet(path, "WAIT, Model") == "# How long.\nWAIT = 30\n\n\nclass Model:\n    id: int"
    assert snippet(path, "app …") == "app = App()\napp.include(handler)"


def test_a_name_that_is_gone_fails_the_build(tmp_path: Path) -> None:
    path = tmp_path / "service.py"
    path.write_text(MODULE)

    with pytest.raises(LookupError, match=r"service\.py defines no 'handle', only WAIT, handler"):
        snippet(path, "handle")


def test_a_line_of_a_page_becomes_the_code() -> None:
    shown = html("```python\n--from-- examples/refunds/service.py: review\n```")
    assert "async def review(" in shown
    assert "--from--" not in shown


def site(folder: Path, body: str) -> list[str]:
    (folder / "index.html").write_text(f"<html>{body}</html>")
    (folder / "rules.html").write_text('<h2 id="here">Rules</h2>')
    return list(check(folder))


def test_a_site_that_is_whole_passes(tmp_path: Path) -> None:
    assert (
        site(tmp_path, '<a href="rules.html#here">a</a> <a href="https://x.example/">b</a>') == []
    )


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="gone.html">x</a>', "index.html: gone.html leads nowhere"),
        ('<a href="rules.html#no">x</a>', "rules.html#no leads to no place in that page"),
        ('<script src="https://cdn.example/x.js">', "index.html: loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//x.example/y.css">', "index.html: loads //x.example/y.css"),
        ('<img src="no.png">', "index.html: no.png is not there"),
    ],
)
def test_what_is_wrong_with_a_site_is_said(tmp_path: Path, body: str, fault: str) -> None:
    (found,) = site(tmp_path, body)
    assert fault in found
