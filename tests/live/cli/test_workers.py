"""``--workers N``: real processes that share the work of one group."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.live.cli.processes import Child, Run, Start
from tests.servers import RedisServer, free_port

UP = "3 workers run: processes "

STARTS = """
from contextlib import asynccontextmanager
from surestream import App

@asynccontextmanager
async def opening(app):
    raise RuntimeError("the database is gone")
    yield

app = App("demo", lifespan=opening)
"""


def crew(start: Start, server: RedisServer, *options: str, **env: str) -> Child:
    """Three workers on ``server``, up."""
    child = start(
        "run", "redis_service:app", "--workers", "3", *options, REDIS_URL=server.url, **env
    )
    child.wait_for(UP)
    return child


def processes(child: Child) -> list[int]:
    """The ids of the workers, in order, as they were told."""
    (line,) = (line for line in child.err.splitlines() if UP in line)
    return [int(one) for one in line.partition(UP)[2].split(", ")]


def publish(server: RedisServer, *texts: str) -> None:
    for text in texts:
        server.ask("XADD", "work", "*", "_payload", text)


def pending(server: RedisServer) -> int:
    reply = server.ask("EVAL", "return tostring(redis.call('XPENDING', 'work', 'g')[1])", "0")
    return int(reply)


class TestShare:
    def test_one_group(self, start: Start, own_redis: RedisServer) -> None:
        child = crew(start, own_redis)
        # As many as keep all of them busy: five at a time each.
        publish(own_redis, *["sleep 1"] * 15)

        child.wait_for("began", times=15)
        assert own_redis.ask("XINFO", "CONSUMERS", "work", "g") == "*3\r\n"
        child.wait_for("done sleep 1", times=15)

        ended = child.stopped()
        assert ended.status == 0
        assert ended.out.count("began") == 15
        assert pending(own_redis) == 0

    def test_one_log_with_one_banner(self, start: Start, own_redis: RedisServer) -> None:
        ended = crew(start, own_redis).stopped()

        assert len(ended.logged("on SureStream")) == 1
        for number in (1, 2, 3):
            assert len(ended.logged(f"[{number}] surestream: demo/0.1.0: running")) == 1
        assert len(ended.logged(": SIGTERM, stopping 3 workers; a second signal ends at once")) == 1


@pytest.mark.rule("7.3")
class TestSignals:
    @pytest.mark.case("SD-02")
    @pytest.mark.parametrize("group", [False, True], ids=["parent", "all as systemd does"])
    def test_first_lets_the_handlers_under_way_finish(
        self, start: Start, own_redis: RedisServer, group: bool
    ) -> None:
        child = crew(start, own_redis)
        publish(own_redis, "sleep 1")
        child.wait_for("began")
        child.send(signal.SIGTERM, group=group)
        ended = child.ended()

        assert ended.status == 0
        assert "done sleep 1" in ended.out
        assert pending(own_redis) == 0
        assert child.all_gone()

    @pytest.mark.case("SD-02")
    def test_interrupt_from_the_terminal_is_one_signal(
        self, start: Start, own_redis: RedisServer
    ) -> None:
        child = crew(start, own_redis)
        publish(own_redis, "sleep 1")
        child.wait_for("began")
        child.send(signal.SIGINT, group=True)
        ended = child.ended()

        assert ended.status == 0
        assert "done sleep 1" in ended.out
        assert "Traceback" not in ended.err

    @pytest.mark.case("SD-04")
    @pytest.mark.parametrize(
        ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=str
    )
    @pytest.mark.parametrize("group", [False, True], ids=["parent", "all"])
    def test_second_ends_all_at_once(
        self, start: Start, own_redis: RedisServer, number: signal.Signals, status: int, group: bool
    ) -> None:
        child = crew(start, own_redis)
        publish(own_redis, "forever")
        child.wait_for("began")
        child.send(number, group=group)
        child.wait_for(": stopping")
        child.send(number, group=group)
        ended = child.ended()

        assert ended.status == status
        assert ended.seconds < 3
        assert len(ended.logged(f"surestream: {number.name} again: ended at once")) == 1
        assert "Traceback" not in ended.err
        assert pending(own_redis) == 1
        assert child.all_gone()

    def test_second_ends_a_worker_whose_loop_is_blocked(
        self, start: Start, own_redis: RedisServer
    ) -> None:
        child = crew(start, own_redis)
        publish(own_redis, "block")
        child.wait_for("began block")
        child.send(signal.SIGTERM)
        child.wait_for(": stopping")

        assert child.stopped().status == 143
        assert child.all_gone()

    @pytest.mark.case("SD-06")
    def test_worker_that_does_not_stop_in_time_decides_the_status(
        self, start: Start, own_redis: RedisServer
    ) -> None:
        child = crew(start, own_redis, "--shutdown-timeout", "1")
        publish(own_redis, "block")
        child.wait_for("began block")

        ended = child.stopped()

        assert ended.status == 1
        assert ended.seconds < 10
        assert child.all_gone()

    @pytest.mark.case("SD-05")
    def test_first_while_the_workers_start_is_a_clean_stop(
        self, start: Start, tmp_path: Path
    ) -> None:
        (tmp_path / "slow.py").write_text("import time\nprint('importing')\ntime.sleep(1000)\n")
        child = start("run", "slow:app", "--workers", "3", folder=tmp_path)
        child.wait_for("importing")

        ended = child.stopped()

        assert ended.status == 0
        assert ended.seconds < 5
        assert ended.out.count("importing") == 1
        assert "Traceback" not in ended.err

    @pytest.mark.case("SD-05")
    def test_first_while_the_broker_is_not_reachable_is_a_clean_stop(self, start: Start) -> None:
        url = f"redis://127.0.0.1:{free_port()}"
        child = start("run", "redis_service:app", "--workers", "3", REDIS_URL=url)
        child.wait_for("opened")

        ended = child.stopped()

        assert ended.status == 0
        assert ended.seconds < 5
        assert child.all_gone()


class TestDeath:
    @pytest.mark.case("CV-04")
    @pytest.mark.rule("3.5")
    def test_of_a_worker_is_made_good_and_the_message_follows_its_counter(
        self, start: Start, own_redis: RedisServer
    ) -> None:
        child = crew(start, own_redis, RECOVER="1")
        publish(own_redis, "crash")

        # Two attempts, each the end of a process; then the dead letter, without a third run.
        child.wait_for("was killed by SIGSEGV: the next one starts", times=2)
        child.wait_for("attempts went in crashes, dead letter to dead")
        child.wait_for("surestream: demo/0.1.0: running", times=5)
        publish(own_redis, *["sleep 0.5"] * 15)
        child.wait_for("done sleep 0.5", times=15)

        ended = child.stopped()
        assert ended.status == 0
        assert ended.out.count("began crash") == 2
        assert own_redis.ask("XLEN", "dead") == ":1\r\n"
        assert pending(own_redis) == 0
        assert child.all_gone()

    def test_of_a_worker_that_is_told_to_stop_by_itself_is_made_good(
        self, start: Start, own_redis: RedisServer
    ) -> None:
        child = crew(start, own_redis)

        os.kill(processes(child)[1], signal.SIGTERM)

        child.wait_for("worker 2 (process ")
        child.wait_for("[2] surestream: demo/0.1.0: running", times=2)
        assert child.stopped().status == 0

    def test_of_the_parent_stops_the_workers_gracefully(
        self, start: Start, own_redis: RedisServer
    ) -> None:
        child = crew(start, own_redis)
        publish(own_redis, "sleep 1")
        child.wait_for("began")

        child.send(signal.SIGKILL)

        assert child.ended().status == -signal.SIGKILL
        assert child.all_gone()
        assert "done sleep 1" in child.out
        assert child.err.count("the process that started it is gone: stopping") == 3
        assert pending(own_redis) == 0

    def test_of_the_parent_ends_workers_that_still_start(
        self, start: Start, tmp_path: Path
    ) -> None:
        (tmp_path / "slow.py").write_text("import time\nprint('importing')\ntime.sleep(1000)\n")
        child = start("run", "slow:app", "--workers", "2", folder=tmp_path)
        child.wait_for("importing")

        child.send(signal.SIGKILL)

        assert child.all_gone()


@pytest.mark.case("CV-02")
@pytest.mark.parametrize("workers", ["1", "3"])
class TestBrokenStart:
    """The status, one readable message, and nothing that is left running."""

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("def f(:\n", "surestream: importing service failed: SyntaxError: invalid syntax"),
            ("App = 1\n", "surestream: there is no 'app' in service "),
            ("import os\nos.kill(os.getpid(), 9)\n", ""),
        ],
        ids=["syntax error", "missing attribute", "killed"],
    )
    def test_of_the_module(
        self, start: Start, tmp_path: Path, workers: str, text: str, told: str
    ) -> None:
        (tmp_path / "service.py").write_text(text)
        child = start("run", "service:app", "--workers", workers, folder=tmp_path)

        ended = child.ended()

        if told:
            assert ended.status == 2
            assert ended.err.count("surestream: ") == 1
            assert ended.err.startswith(told)
        elif workers == "3":
            assert ended.status == 137
            (line,) = ended.err.splitlines()
            assert "worker 1 (process " in line
            assert line.endswith(") was killed by SIGKILL before it ran: stopping")
        assert child.all_gone()

    def test_of_the_lifespan(self, start: Start, tmp_path: Path, workers: str) -> None:
        (tmp_path / "service.py").write_text(STARTS)
        child = start("run", "service:app", "--workers", workers, folder=tmp_path)

        ended = child.ended()

        assert ended.status == 1
        assert len(ended.logged("CRITICAL")) == 1
        assert ended.err.count("Traceback") == 1
        assert child.all_gone()

    def test_of_the_connection(self, start: Start, workers: str) -> None:
        url = f"redis://127.0.0.1:{free_port()}"
        child = start(
            *("run", "redis_service:app", "--workers", workers), REDIS_URL=url, WAIT="0.5"
        )

        ended = child.ended()

        assert ended.status == 1
        assert len(ended.logged("CRITICAL")) == 1
        assert "Traceback" not in ended.err
        assert child.all_gone()


@pytest.mark.rule("6.11")
class TestRefused:
    def test_where_each_process_would_have_a_broker_of_its_own(self, run: Run) -> None:
        ended = run("run", "memory_service:app", "--workers", "3")

        assert ended.status == 2
        what, where, why, write = ended.err.splitlines()
        assert what == "surestream: refused: --workers 3 with a MemoryBroker"
        assert where.startswith("  where: work at memory_service.py:")
        assert "; in_thread at memory_service.py:" in where
        assert why.startswith("  why:   it lives inside one process: each would have its own")
        assert write.startswith("  write: one process, without --workers; include(…, workers=3) ")

    def test_where_all_would_have_one_consumer_name(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "service.py").write_text(
            "from surestream import App, Subscriber\n"
            "from surestream.redis import RedisBroker, RedisStream\n"
            "async def handle(payload: bytes) -> None: ...\n"
            "app = App('refunds')\n"
            "broker = app.add(RedisBroker('redis://127.0.0.1:1'))\n"
            "source = RedisStream('refunds', group='g', consumer='one')\n"
            "broker.include(Subscriber(source, handle))\n"
        )

        ended = run("run", "service:app", "--workers", "2", folder=tmp_path)

        assert ended.status == 2
        assert ended.err.splitlines() == [
            "surestream: refused: --workers 2 with RedisStream('refunds', consumer='one')",
            "  where: handle at service.py:7",
            "  why:   all processes would use the one consumer name, and take each other's "
            "messages (rule 6.11)",
            "  write: no consumer=, so that each process has a name of its own; or one process, "
            "without --workers; include(…, workers=2) handles as many at a time",
        ]

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["service"], "surestream: 'service' names a module and no app in it"),
            (["service:app", "--shutdown-timeout", "0"], "surestream: --shutdown-timeout 0 is no"),
        ],
    )
    def test_what_is_written_wrongly(
        self, run: Run, tmp_path: Path, arguments: list[str], told: str
    ) -> None:
        (tmp_path / "service.py").write_text("from surestream import App\napp = App('refunds')\n")

        ended = run("run", *arguments, "--workers", "2", folder=tmp_path)

        assert ended.status == 2
        assert ended.err.startswith(told)
        assert ended.err.count("surestream: ") == 1
