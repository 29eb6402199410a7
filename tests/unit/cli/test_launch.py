"""How a process of our own is started."""

from __future__ import annotations

import sys

import pytest

from surestream.cli.launch import Launch, command_of

LAUNCH = Launch(target="service:app", shutdown_timeout=2.5, number=2, workers=3, channel=7)


def test_arrives_as_it_was_handed_over() -> None:
    assert Launch.parsed(command_of(LAUNCH)[-1]) == LAUNCH


@pytest.mark.parametrize(
    ("line", "arguments", "options"),
    [
        (["python", "/bin/surestream", "run", "a:b"], ["/bin/surestream", "run", "a:b"], []),
        (
            ["python", "-X", "dev", "-W", "error", "/bin/surestream", "run"],
            ["/bin/surestream", "run"],
            ["-X", "dev", "-W", "error"],
        ),
        (["python", "-I", "-m", "surestream", "run"], ["/lib/__main__.py", "run"], ["-I"]),
        (["python", "-msurestream", "run"], ["/lib/__main__.py", "run"], []),
        (["python", "-c", "main()", "run"], ["-c", "run"], []),
        (["python"], [""], []),
    ],
)
def test_has_the_interpreter_options_of_this_process(
    monkeypatch: pytest.MonkeyPatch, line: list[str], arguments: list[str], options: list[str]
) -> None:
    monkeypatch.setattr(sys, "orig_argv", line)
    monkeypatch.setattr(sys, "argv", arguments)

    command = command_of(LAUNCH)

    assert command[:-2] == [sys.executable, *options, "-P", "-m", "surestream.cli.child"]
    assert command[-2] == "service:app"


def test_tag_tells_workers_apart() -> None:
    assert LAUNCH.tag == "2"
    assert Launch(target="service:app").tag is None
