"""What the README of the project shows is so: its code runs, its output is the demo's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_its_service_passes_its_test(tmp_path: Path) -> None:
    for block in blocks("python"):
        name = re.match(r"# (\w+\.py)", block)
        assert name is not None, f"no file name above:\n{block}"
        (tmp_path / name[1]).write_text(block, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope=function\n")

    done = run("-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)

    assert "1 passed" in done.stdout, done.stdout
    assert done.returncode == 0, done.stdout


def test_its_output_is_what_the_demo_prints() -> None:
    (shown,) = blocks("text")

    done = run("-m", "examples.refunds.demo", cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    printed = [without_real_time(line) for line in done.stdout.splitlines()]
    for line in shown.splitlines():
        assert without_real_time(line) in printed, done.stdout


def test_it_is_short_and_begins_with_the_two_commands() -> None:
    assert len(README.splitlines()) < 150
    commands = [line.split("#")[0].strip() for line in blocks("sh")[0].splitlines()]
    assert commands[:2] == ["make demo", "make test"]


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def without_real_time(line: str) -> str:
    """The one figure that differs from run to run, and trailing blanks."""
    return re.sub(r"in [0-9.]+ s\.$", "in … s.", line.rstrip())


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A Python program, with a terminal of 80 columns and default settings."""
    environment = {name: value for name, value in os.environ.items() if name != "BACKOFF"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment | {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=50,
    )
