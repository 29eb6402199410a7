"""``--reload``: the process is started anew when a file changes."""

from __future__ import annotations

import itertools
import signal
import time
from pathlib import Path

import pytest

from tests.live.cli.processes import LIMIT, Child, Run, Start

SERVICE = """
import asyncio
from contextlib import asynccontextmanager
from surestream import App, subscriber
from surestream.memory import MemoryBroker, MemoryTopic
from words import WORD

@subscriber(MemoryTopic("work"))
async def work(text: str) -> None:
    print("began", flush=True)
    await asyncio.sleep({seconds})
    print("done", flush=True)

@asynccontextmanager
async def life(app):
    publishing = asyncio.create_task(publish())
    print("opened", WORD, flush=True)
    yield
    print("closed", WORD, flush=True)
    publishing.cancel()

async def publish():
    await asyncio.sleep(0.05)
    await broker.publish("work", "x")

app = App("demo", lifespan=life)
broker = app.add(MemoryBroker())
broker.include(work)
"""

EDITS = itertools.count(1)


def project(folder: Path, seconds: float = 0) -> None:
    (folder / "service.py").write_text(SERVICE.format(seconds=seconds))
    (folder / "words.py").write_text("WORD = 'first'\n")


def edit(child: Child, file: Path, text: str, told: str) -> None:
    """Write a file until the change was noticed: the watch may not stand yet. Every time of
    another length, as Python compares lengths to know whether it has compiled a file before."""
    limit = time.monotonic() + LIMIT
    while told not in child.out + child.err:
        assert time.monotonic() < limit, child.err
        file.write_text(f"{text}\n#{'.' * next(EDITS)}\n")
        again = time.monotonic() + 2
        while told not in child.out + child.err and time.monotonic() < again:
            time.sleep(0.02)


@pytest.mark.rule("7.3")
def test_change_stops_the_old_process_gracefully_before_the_new_one_starts(
    start: Start, tmp_path: Path
) -> None:
    project(tmp_path, seconds=1)
    child = start("run", "service:app", "--reload", folder=tmp_path)
    child.wait_for("began")

    edit(child, tmp_path / "words.py", "WORD = 'second'", "words.py changed: stopping the service")
    child.wait_for("opened second")
    child.wait_for("running", times=2)

    ended = child.stopped()
    assert ended.status == 0
    assert ended.out.split("\n")[:4] == ["opened first", "began", "done", "closed first"]
    assert ended.logged("starting the service anew")
    assert len(ended.logged("SIGTERM, stopping the service; a second signal ends at once")) == 1
    assert child.all_gone()


def test_broken_edit_is_told_and_the_next_one_waited_for(start: Start, tmp_path: Path) -> None:
    project(tmp_path)
    child = start("run", "service:app", "--reload", folder=tmp_path)
    child.wait_for("opened first")

    edit(child, tmp_path / "words.py", "WORD =", "SyntaxError: invalid syntax")
    child.wait_for("the service ended with status 2: waiting for a change")
    edit(child, tmp_path / "words.py", "WORD = 'mended'", "opened mended")

    ended = child.stopped()
    assert ended.status == 0
    assert ended.logged("  at words.py:1")
    assert child.all_gone()


def test_broken_start_is_told_and_a_change_waited_for(start: Start, tmp_path: Path) -> None:
    project(tmp_path)
    (tmp_path / "words.py").write_text("WROD = 1\n")
    child = start("run", "service:app", "--reload", folder=tmp_path)
    child.wait_for("waiting for a change")

    edit(child, tmp_path / "words.py", "WORD = 'mended'", "opened mended")

    assert child.stopped().status == 0


def test_other_folder_is_watched_instead(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "library").mkdir()
    project(tmp_path / "app")
    (tmp_path / "library" / "words.py").write_text("WORD = 'library'\n")
    (tmp_path / "app" / "words.py").unlink()
    child = start(
        *("run", "service:app", "--reload-dir", "../library"),
        folder=tmp_path / "app",
        PYTHONPATH=str(tmp_path / "library"),
    )
    child.wait_for("opened library")

    (tmp_path / "app" / "other.py").write_text("of no concern\n")
    words = tmp_path / "library" / "words.py"
    edit(child, words, "WORD = 'second'", f"{words} changed: stopping")
    child.wait_for("opened second")

    ended = child.stopped()
    assert ended.status == 0
    assert not ended.logged("other.py")


@pytest.mark.case("SD-04")
def test_second_signal_ends_both_at_once(start: Start, tmp_path: Path) -> None:
    project(tmp_path, seconds=1000)
    child = start("run", "service:app", "--reload", folder=tmp_path)
    child.wait_for("began")
    child.send(signal.SIGINT, group=True)
    child.wait_for("demo/0.1.0: stopping")

    child.send(signal.SIGINT, group=True)

    ended = child.ended()
    assert ended.status == 130
    assert ended.seconds < 3
    assert "Traceback" not in ended.err
    assert child.all_gone()


def test_death_of_the_parent_stops_the_process(start: Start, tmp_path: Path) -> None:
    project(tmp_path)
    child = start("run", "service:app", "--reload", folder=tmp_path)
    child.wait_for("done")

    child.send(signal.SIGKILL)

    assert child.all_gone()
    assert "closed first" in child.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["service"], "surestream: 'service' names a module and no app in it"),
        (["service:app", "--reload-dir", "nowhere"], "surestream: --reload-dir nowhere is no"),
    ],
)
def test_what_no_edit_can_mend_is_2(
    run: Run, tmp_path: Path, arguments: list[str], told: str
) -> None:
    project(tmp_path)

    ended = run("run", *arguments, "--reload", folder=tmp_path)

    assert ended.status == 2
    assert ended.err.startswith(told)
