"""What is imported, and when: the core does not pay for the terminal."""

from __future__ import annotations

import subprocess
import sys

import pytest

TERMINAL = {"click", "rich", "rich_click", "pygments"}


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("statement", ["import surestream", "from surestream.cli import serve"])
def test_no_terminal_library_is_imported_by(statement: str) -> None:
    assert not modules_after(statement) & (TERMINAL | {"uvloop"})


def test_logging_is_not_set_up_by_an_import() -> None:
    code = (
        "import logging, surestream, surestream.cli.commands\nprint(logging.getLogger().handlers)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("option", ["run", "publish"], ids=lambda command: f"{command} --help")
def test_help_imports_nothing_that_runs(option: str) -> None:
    statement = (
        "from surestream.cli import main\n"
        f"try:\n    main(['{option}', '--help'])\nexcept SystemExit:\n    pass"
    )

    after = modules_after(statement)

    assert "rich" in after
    assert not after & {"uvloop", "watchfiles", "redis", "surestream.cli.supervising"}


def test_version_does_not_import_what_draws() -> None:
    statement = (
        "from surestream.cli import main\ntry:\n    main(['version'])\nexcept SystemExit:\n    pass"
    )

    assert "rich" not in modules_after(statement)


def test_python_m_surestream_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "surestream", "version"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert done.stdout.startswith("surestream 0.")
