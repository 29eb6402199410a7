"""Who follows *First steps* gets what it says, block by block."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.unit.docs.pages import Block, blocks, run

PAGE = "first-steps.md"


def test_each_stage_passes_its_test(tmp_path: Path) -> None:
    tested: list[str] = []
    for block in blocks(PAGE):
        if block.title is not None:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
        elif block.text == "python -m pytest\n":
            done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
            assert done.returncode == 0, done.stdout + done.stderr
            tested.append(done.stdout.strip().splitlines()[-1].partition(" in ")[0])
    assert tested == ["1 passed", "3 passed"]


def test_its_files_are_as_they_should_be(tmp_path: Path) -> None:
    for block in files():
        (tmp_path / f"{block.line}_{block.title}").write_text(block.text, encoding="utf-8")

    for command in ("check", "format --check"):
        done = run(
            "-m", "ruff", *command.split(), "--isolated", "--line-length=100", ".", cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout


def test_the_last_line_can_be_written_into_the_service(tmp_path: Path) -> None:
    service = [block for block in files() if block.title == "service.py"][-1]
    (extra,) = [block for block in blocks(PAGE, "python") if block.title is None]
    (line,) = extra.text.splitlines()
    replaced = service.text.replace("redis.include(welcome, max_attempts=3", "#", 1) + line
    (tmp_path / "service.py").write_text(replaced, encoding="utf-8")

    done = run("-c", "import service; print(service.redis.mounts[0].workers)", cwd=tmp_path)

    assert done.stdout == "2\n", done.stderr


def test_every_other_command_is_one_that_the_live_test_runs() -> None:
    commands = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
    install, *rest = [shlex.split(line) for line in commands if line != "python -m pytest"]
    assert install[:2] == ["pip", "install"]
    assert {words[0] for words in rest} == {"redis-cli", "surestream"}


def files() -> list[Block]:
    return [block for block in blocks(PAGE, "python") if block.is_file]
