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
        assert "run Run a service until it is told to stop." in words(result.output)
        assert "publish Publish one message on the app's broker." in words(result.output)
        assert "version Show the version." in words(result.output)

    def test_begins_with_what_to_type(self) -> None:
        lines = [line.strip() for line in invoke("--help").output.splitlines()]

        assert "surestream run service:app                            start a service" in lines

    @pytest.mark.parametrize("command", [[], ["run"], ["publish"]])
    def test_breaks_no_example_on_a_narrow_terminal(self, command: list[str]) -> None:
        result = CliRunner().invoke(
            surestream, [*command, "--help"], prog_name="surestream", terminal_width=80
        )
        examples = [line for line in result.output.splitlines() if " surestream " in line]

        assert len(examples) >= 4
        assert all(line.startswith(("   surestream ", " Usage: ")) for line in examples)
        assert all(len(line) <= 80 for line in result.output.splitlines())

    def test_of_run_teaches_by_example(self) -> None:
        result = invoke("run", "-h")

        assert result.exit_code == 0
        assert "Usage: surestream run [OPTIONS] MODULE:APP" in words(result.output)
        lines = [line.strip() for line in result.output.splitlines()]
        assert "surestream run service:app" in lines
        assert "surestream run service:create_app --factory" in lines

    @pytest.mark.parametrize("command", ["run", "publish"])
    def test_tells_every_exit_status(self, command: str) -> None:
        lines = [line.strip() for line in invoke(command, "--help").output.splitlines()]

        for status in ("0 ", "1 ", "2 ", "130 "):
            assert any(line.startswith(status) for line in lines), status


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["rum"], "There is no command 'rum'. Did you mean `surestream run`?"),
            (["worker", "a:b"], "There is no command 'worker'. Did you mean `surestream run`?"),
            (["service:app"], "Did you mean `surestream run service:app`?"),
            (["service:app", "publish"], "Did you mean `surestream publish service:app`?"),
            (["xyz"], "There is no command 'xyz'. Commands are run, publish, version."),
            (["run"], "Missing argument 'MODULE:APP'."),
            (["run", "a:b", "--log-lvel", "x"], "Did you mean '--log-level'?"),
            (["run", "a:b", "--worker", "2"], "Did you mean '--workers'?"),
            (["run", "a:b", "--relaod"], "Did you mean"),
            (["run", "a:b", "--workers", "0"], "0 is not in the range x>=1."),
            (["run", "a:b", "--workers", "two"], "'two' is not a valid integer range."),
            (["run", "a:b", "--workers", "2", "--reload"], "leave one of them out."),
            (["publish", "a:b", "c"], "Missing argument 'JSON'."),
            (["publish", "a:b", "c", "1", "--brocker", "2"], "Did you mean '--broker'?"),
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
