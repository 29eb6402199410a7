"""What a signal does, at every moment of a process's life (rule 7.3)."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.live.cli.processes import Start

pytestmark = pytest.mark.rule("7.3")


class TestFirst:
    @pytest.mark.case("SD-02")
    def test_lets_the_handlers_under_way_finish_and_starts_no_other(self, start: Start) -> None:
        messages = ",".join(["sleep 1"] * 8)
        child = start("run", "memory_service:app", MESSAGES=messages)
        child.wait_for("began", times=5)

        ended = child.stopped()

        assert ended.status == 0
        assert ended.out.count("began") == ended.out.count("done") == 5
        assert ended.out.split()[-2:] == ["closing", "closed"]

    @pytest.mark.case("SD-06")
    def test_gives_a_handler_that_never_returns_until_the_timeout(self, start: Start) -> None:
        messages = ",".join(["forever", *["sleep 0.5"] * 4])
        child = start("run", "memory_service:app", "--shutdown-timeout", "3", MESSAGES=messages)
        child.wait_for("began forever")
        child.wait_for("began sleep", times=4)

        ended = child.stopped()

        assert ended.status == 0
        assert ended.out.count("done sleep 0.5") == 4
        assert 2.9 < ended.seconds < 6
        assert ended.logged("work/default")
        assert ended.logged("still running at shutdown_timeout, cut off")

    def test_does_not_wait_longer_for_a_thread_that_never_ends(self, start: Start) -> None:
        child = start("run", "memory_service:app", "--shutdown-timeout", "1", MESSAGES="threads:x")
        child.wait_for("began in a thread")

        ended = child.stopped()

        assert ended.status == 0
        assert 0.9 < ended.seconds < 4
        assert "closed" in ended.out

    def test_does_not_wait_longer_for_a_thread_of_asyncios(self, start: Start) -> None:
        child = start("run", "memory_service:app", "--shutdown-timeout", "1", MESSAGES="thread")
        child.wait_for("began thread")

        ended = child.stopped()

        assert ended.status == 0
        assert 0.9 < ended.seconds < 5
        assert "closed" in ended.out
        assert ended.logged("threads still running: ")

    def test_ends_a_process_whose_loop_is_blocked(self, start: Start) -> None:
        child = start("run", "memory_service:app", "--shutdown-timeout", "1", MESSAGES="block")
        child.wait_for("began block")

        ended = child.stopped()

        assert ended.status == 1
        assert ended.seconds < 8
        line = ended.logged("the main thread is at ")[-1]
        assert re.search(r"work\.py:\d+ in _block$", line)

    def test_is_answered_also_where_the_loop_is_blocked(self, start: Start) -> None:
        child = start("run", "memory_service:app", MESSAGES="block")
        child.wait_for("began block")
        child.send(signal.SIGTERM)

        child.wait_for("SIGTERM, but the event loop does not turn: the main thread is at ")

        (line,) = child.err.splitlines()[-1:]
        assert re.search(r"in _block; it ends after 34 s at the latest, with a second ", line)

    @pytest.mark.parametrize("closing", ["forever", "block"])
    def test_ends_a_process_whose_lifespan_does_not_close(self, start: Start, closing: str) -> None:
        child = start("run", "memory_service:app", "--shutdown-timeout", "1", CLOSING=closing)
        child.wait_for("running")

        ended = child.stopped()

        assert ended.status == 1
        assert ended.seconds < 8


@pytest.mark.case("SD-05")
class TestWhileStarting:
    def test_interrupts_a_lifespan_that_does_not_open(self, start: Start) -> None:
        child = start("run", "memory_service:app", OPENING="forever")
        child.wait_for("on SureStream")

        ended = child.stopped()

        assert ended.status == 0
        assert ended.seconds < 2
        assert "running" not in ended.err
        assert "Traceback" not in ended.err

    def test_interrupts_the_import_of_the_users_module(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "slow.py").write_text("import time\nprint('importing')\ntime.sleep(1000)\n")
        child = start("run", "slow:app", folder=tmp_path)
        child.wait_for("importing")

        ended = child.stopped()

        assert ended.status == 0
        assert ended.seconds < 2
        assert ended.err == ""

    def test_ends_even_an_import_that_does_not_let_itself_be_interrupted(
        self, start: Start, tmp_path: Path
    ) -> None:
        (tmp_path / "stubborn.py").write_text(
            "import time\n"
            "print('importing')\n"
            "while True:\n"
            "    try:\n"
            "        time.sleep(1000)\n"
            "    except BaseException:\n"
            "        pass\n"
        )
        child = start("run", "stubborn:app", folder=tmp_path)
        child.wait_for("importing")

        ended = child.stopped()

        assert ended.status == 1
        assert ended.seconds < 2.5
        assert ended.logged("the main thread is at ")


@pytest.mark.case("SD-04")
class TestSecond:
    @pytest.mark.parametrize(
        ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=str
    )
    @pytest.mark.parametrize("message", ["forever", "thread", "threads:x"])
    def test_ends_the_process_at_once(
        self, start: Start, message: str, number: signal.Signals, status: int
    ) -> None:
        child = start("run", "memory_service:app", MESSAGES=message)
        child.wait_for("began")
        child.send(number)
        child.wait_for(": stopping")

        ended = child.stopped(number)

        assert ended.status == status
        assert ended.seconds < 2
        assert ended.err.splitlines()[-1] == (
            f"surestream: {number.name} again: ended at once, nothing more is settled"
        )
        assert "Traceback" not in ended.err
        assert "done" not in ended.out

    def test_ends_a_process_whose_loop_is_blocked_too(self, start: Start) -> None:
        child = start("run", "memory_service:app", MESSAGES="block")
        child.wait_for("began")
        # Of two kinds: two of one kind may arrive as one.
        child.send(signal.SIGTERM)

        ended = child.stopped(signal.SIGINT)

        assert ended.status in (130, 143)
        assert ended.seconds < 2

    def test_may_be_of_the_other_kind(self, start: Start) -> None:
        child = start("run", "memory_service:app", MESSAGES="forever")
        child.wait_for("began")
        child.send(signal.SIGTERM)
        child.wait_for("stopping")

        assert child.stopped(signal.SIGINT).status == 130


class TestServe:
    """``serve(app)`` in a program of the user's own."""

    def test_stops_as_the_command_line_does(self, start: Start) -> None:
        child = start("program.py")
        child.wait_for("opened")

        ended = child.stopped()

        assert ended.status == 0
        told = ["opened", "closing", "closed", "modules:", "timeout: 30.0"]
        assert ended.out.splitlines() == told
