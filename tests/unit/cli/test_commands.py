"""The command line as a person meets it: help, mistakes, version."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

import surestream as package
from surestream.cli import main
from surestream.cli.commands import surestream


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(surestream, arguments, prog_name="surestream", terminal_width=100)


def words(text: str) -> str:
    """The text without frames and line breaks."""
    return " ".join(text.replace("│", " ").split())


class TestHelp:
    def test_lists_the_commands(self) -> None:
        result = invoke("--help")

        assert result.exit_code == 0
        assert "run Run the service APP of MODULE until SIGINT or SIGTERM." in words(result.output)
        assert "version Show the version." in words(result.output)

    def test_of_run_teaches_by_example(self) -> None:
        result = invoke("run", "-h")

        assert result.exit_code == 0
        assert "Usage: surestream run [OPTIONS] MODULE:APP" in words(result.output)
        lines = [line.strip() for line in result.output.splitlines()]
        assert "surestream run service:app" in lines
        assert "surestream run service:create_app --factory" in lines

    def test_of_run_tells_every_exit_status(self) -> None:
        lines = [line.strip() for line in invoke("run", "--help").output.splitlines()]

        for status in ("0 ", "1 ", "2 ", "130 "):
            assert any(line.startswith(status) for line in lines), status


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["rum"], "No such command 'rum'."),
            (["run"], "Missing argument 'MODULE:APP'."),
            (["run", "a:b", "--log-lvel", "x"], "Did you mean"),
            (
                ["run", "a:b", "--log-level", "wraning"],
                "'wraning' is no level; levels are debug, info, warning, error, critical. "
                "Did you mean 'warning'?",
            ),
            (["run", "a:b", "--log-level", "9"], "'9' is no level; levels are debug, info, "),
            (["run", "a:b", "--shutdown-timeout", "soon"], "'soon' is not a valid float."),
        ],
    )
    def test_are_told_with_a_suggestion_and_status_2(self, arguments: list[str], told: str) -> None:
        result = invoke(*arguments)

        assert result.exit_code == 2
        assert told in words(result.output)
        assert "Traceback" not in result.output


class TestVersion:
    @pytest.mark.parametrize("arguments", [["version"], ["--version"]])
    def test_is_that_of_the_package(self, arguments: list[str]) -> None:
        result = invoke(*arguments)

        assert (result.exit_code, result.output) == (0, f"surestream {package.__version__}\n")

    def test_entry_point(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["version"])

        assert ended.value.code == 0
        assert capsys.readouterr().out == f"surestream {package.__version__}\n"
