"""How a process ends, and what it says then (case CV-02)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.live.cli.processes import SERVICES, Run, Start

STRICT = """
from surestream import App, Outcome, ack, subscriber
from surestream.memory import MemoryBroker, MemoryTopic

@subscriber(MemoryTopic("refunds"))
async def process(number: int) -> Outcome:
    return ack()

app = App("refunds", strict={strict})
app.add(MemoryBroker()).include(process, max_attempts=5, dead_letter="{dead}")
"""


@pytest.mark.rule("7.3")
class TestClean:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_stop_that_was_asked_for_is_0(self, start: Start, number: signal.Signals) -> None:
        child = start("run", "memory_service:app")
        child.wait_for(": running")

        ended = child.stopped(number)

        assert ended.status == 0
        assert ended.out.split() == ["opened", "closing", "closed"]
        assert ended.logged(f": {number.name}, a second signal ends at once")
        assert ended.logged(": stopped")

    def test_works_on_both_event_loops(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "uvloop.py").write_text("raise ImportError\n")
        child = start("run", "memory_service:app", folder=tmp_path, PYTHONPATH=str(SERVICES))
        child.wait_for("running")

        ended = child.stopped()

        assert ended.status == 0
        assert ended.logged(", asyncio")

    def test_factory_runs_as_well(self, start: Start) -> None:
        child = start("run", "memory_service:create_app", "--factory")
        child.wait_for("running")

        assert child.stopped().status == 0


class TestWrongUse:
    def test_no_app_there_is_2_and_a_suggestion(self, run: Run) -> None:
        ended = run("run", "memory_service:ap")

        assert ended.status == 2
        file = SERVICES / "memory_service.py"
        assert ended.err.splitlines() == [
            f"surestream: there is no 'ap' in memory_service ({file})",
            "  did you mean `surestream run memory_service:app` or "
            "`surestream run memory_service:create_app --factory`?",
        ]
        assert ended.out == ""

    @pytest.mark.case("CV-02")
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("def f(:\n", ["SyntaxError: invalid syntax", "  at service.py:1"]),
            ("\nimport nothing_like_it\n", ["No module named", "  at service.py:2 in <module>"]),
            ("int('x')\n", ["ValueError: invalid literal", "  at service.py:1 in <module>"]),
        ],
    )
    def test_module_that_cannot_be_imported_is_2(
        self, run: Run, tmp_path: Path, text: str, told: list[str]
    ) -> None:
        (tmp_path / "service.py").write_text(text)

        ended = run("run", "service:app", folder=tmp_path)

        assert ended.status == 2
        what, where, hint = ended.err.splitlines()
        assert what.startswith("surestream: importing service failed: ")
        assert told[0] in what
        assert where == told[1]
        assert hint == "  --log-level debug shows the traceback"

    def test_traceback_is_shown_when_asked_for_from_the_users_code_on(
        self, run: Run, tmp_path: Path
    ) -> None:
        (tmp_path / "service.py").write_text("def f():\n    raise ValueError('no')\nf()\n")

        ended = run("run", "service:app", "--log-level", "debug", folder=tmp_path)

        assert ended.status == 2
        assert ended.err.splitlines()[:2] == [
            "    Traceback (most recent call last):",
            f'      File "{tmp_path}/service.py", line 3, in <module>',
        ]
        assert ended.err.splitlines()[-2:] == [
            "surestream: importing service failed: ValueError: no",
            "  at service.py:2 in f",
        ]

    @pytest.mark.rule("7.1")
    def test_declaration_refused_at_import_is_2(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "service.py").write_text(
            STRICT.format(strict=False, dead="refunds.dlq").replace("=5", "=0")
        )

        ended = run("run", "service:app", folder=tmp_path)

        assert ended.status == 2
        assert ended.err.splitlines() == [
            "surestream: refused: max_attempts=0",
            "  where: process at service.py:10",
            "  why:   the cap counts all deliveries, the first included: 1 to 2**31 (rule 3.3)",
            "  write: max_attempts=5, or leave it out for no cap",
        ]

    @pytest.mark.rule("4.6", "7.1")
    def test_declaration_refused_at_start_is_2(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "service.py").write_text(STRICT.format(strict=False, dead="refunds"))

        ended = run("run", "service:app", "--log-level", "error", folder=tmp_path)

        assert ended.status == 2
        told = ended.err.splitlines()
        assert told[0] == "refused: dead_letter='refunds'"
        assert told[1] == "  where: process at service.py:10"
        assert "Traceback" not in ended.err

    def test_warning_under_strict_is_2(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "service.py").write_text(STRICT.format(strict=True, dead="refunds.dlq"))

        ended = run("run", "service:app", "--log-level", "error", folder=tmp_path)

        assert ended.status == 2
        assert ended.err.startswith("refused: ")
        assert "App(strict=True)" in ended.err

    @pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
    def test_time_limit_that_is_none_is_2(self, run: Run, seconds: str) -> None:
        ended = run("run", "memory_service:app", "--shutdown-timeout", seconds)

        assert ended.status == 2
        assert ended.err.splitlines() == [
            f"surestream: --shutdown-timeout {seconds} is no time span",
            "  write a number of seconds above zero",
        ]


class TestFailed:
    @pytest.mark.rule("7.2")
    def test_lifespan_that_raises_at_start_is_1_told_once(self, run: Run) -> None:
        ended = run("run", "memory_service:app", OPENING="raise")

        assert ended.status == 1
        (line,) = ended.logged("CRITICAL")
        assert r"failed to start: RuntimeError: the database\nis gone (at work.py:" in line
        assert ended.err.count("Traceback") == 1
        assert "lifecycle.py" not in ended.err

    def test_lifespan_that_raises_at_the_stop_is_1(self, start: Start) -> None:
        child = start("run", "memory_service:app", CLOSING="raise")
        child.wait_for("running")

        ended = child.stopped()

        assert ended.status == 1
        assert len(ended.logged("failed to stop: RuntimeError")) == 1
        assert ended.err.count("Traceback") == 1

    @pytest.mark.rule("2.3")
    def test_service_that_fails_while_it_runs_is_1(self, run: Run) -> None:
        ended = run("run", "memory_service:app", MESSAGES="fail_fast")

        assert ended.status == 1
        assert len(ended.logged("CRITICAL")) == 1
        assert ended.out.split()[-2:] == ["closing", "closed"]

    @pytest.mark.rule("2.4")
    @pytest.mark.parametrize(
        ("text", "status"), [("exit 5", 5), ("exit 0", 0), ("exit", 0)], ids=lambda value: value
    )
    def test_handler_that_ends_the_process_has_its_status(
        self, run: Run, text: str, status: int
    ) -> None:
        ended = run("run", "memory_service:app", MESSAGES=text)

        assert ended.status == status
        assert ended.logged(": ended by SystemExit(")
        assert ended.out.split()[-2:] == ["closing", "closed"]

    def test_lifespan_that_ends_the_process_has_its_status(self, run: Run) -> None:
        assert run("run", "memory_service:app", OPENING="exit 7").status == 7


class TestLogs:
    def test_start_tells_what_runs_and_what_a_retry_means(self, start: Start) -> None:
        child = start("run", "memory_service:app")
        child.wait_for("running")

        ended = child.stopped()

        texts = [line.partition(" surestream: ")[2] for line in ended.err.splitlines()]
        assert texts[0].startswith("demo/1.2.3 on SureStream ")
        assert texts[1] == "MemoryBroker()"
        assert texts[2].startswith("  work/default → work at memory_service.py:")
        assert texts[2].endswith(" × 5")
        assert texts[3].startswith("    5 attempts, then rejected; retry: the same message; ")
        assert texts[4].startswith("  threads/default → in_thread at ")
        assert texts[-1] == "demo/1.2.3: stopped"

    @pytest.mark.case("SE-03")
    def test_message_cannot_forge_a_line(self, start: Start) -> None:
        child = start("run", "memory_service:app", MESSAGES="raise")
        child.wait_for("retry in")

        ended = child.stopped()

        assert "\x1b" not in ended.err
        assert not [line for line in ended.err.splitlines() if line.startswith("2026-01-01T00:00")]
        assert ended.err.count("Traceback") == 1

    def test_success_is_quiet(self, start: Start) -> None:
        child = start("run", "memory_service:app", MESSAGES="sleep 0,sleep 0")
        child.wait_for("done")

        assert not child.stopped().logged("surestream.dispatch")

    @pytest.mark.rule("5.7")
    def test_warnings_tell_no_more_than_what_a_kill_loses(self, start: Start) -> None:
        child = start("run", "memory_service:app", "--log-level", "WARNING")
        child.wait_for("opened")

        (line,) = child.stopped().err.splitlines()

        assert line.endswith(
            "WARNING  surestream: MemoryBroker(): a kill loses what is under way or waits for a "
            "retry: work/default, threads/default"
        )

    def test_level_is_the_one_asked_for(self, start: Start) -> None:
        child = start("run", "memory_service:app", "--log-level", "error")
        child.wait_for("opened")

        assert child.stopped().err == ""

    def test_set_up_of_the_users_own_is_left(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "own.py").write_text(
            "import logging\n"
            "logging.basicConfig(format='own %(message)s', level='INFO')\n"
            "from memory_service import app\n"
        )
        child = start("run", "own:app", folder=tmp_path, PYTHONPATH=str(SERVICES))
        child.wait_for("running")

        ended = child.stopped()

        assert all(line.startswith("own ") for line in ended.err.splitlines())
