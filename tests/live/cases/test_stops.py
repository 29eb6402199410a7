"""Signals, short grace times, and what is still in hand then (rules 5.8, 7.3 and 7.4)."""

from __future__ import annotations

import asyncio
import logging
import signal
import time

import pytest

from surestream import Outcome, ack, retry_after
from tests.live.cases.service import DEAD, GROUP, STREAM, Gate, Given, Service, source
from tests.live.support import Child, Look, StartChild, eventually, lines, until
from tests.servers import RedisServer

HANDLE = "tests.live.cases.programs:handle"


def ended(look: Look) -> list[str]:
    """The messages whose handlers came to their end."""
    return [text.decode() for text in look.redis.lrange("ended", 0, -1)]


def texts(look: Look) -> list[str]:
    return [run["text"] for run in look.journal()]


def running(child: Child) -> Child:
    until(lambda: ": running" in child.log, why=lambda: child.log)
    return child


@pytest.mark.case("SD-01")
@pytest.mark.rule("7.4")
def test_what_was_fetched_and_not_started_goes_to_another_process_at_once(
    start: StartChild, look: Look
) -> None:
    for number in range(10):
        look.add(STREAM, b"%d" % number)
    first = start(HANDLE, url=look.url, takes={str(number): 0.3 for number in range(10)})
    until(lambda: texts(look) == ["0", "1"], why=lambda: first.log)
    assert first.stop() == 0, first.log

    assert ended(look) == ["0", "1"]
    assert [count for _, _, count in look.pending(STREAM, GROUP)] == [0] * 8
    before = time.monotonic()
    second = start(HANDLE, url=look.url)
    until(lambda: not look.pending(STREAM, GROUP), why=lambda: second.log)

    assert time.monotonic() - before < 10  # not the minute of recover_after
    assert sorted(texts(look)) == [str(number) for number in range(10)]
    assert {(run["attempt"], run["count"]) for run in look.journal()} == {(1, 1)}
    assert look.redis.exists(DEAD) == 0


@pytest.mark.case("SD-01")
@pytest.mark.rule("7.4")
def test_a_running_sibling_takes_it_too(start: StartChild, look: Look) -> None:
    first = running(start(HANDLE, url=look.url, takes={str(number): 0.2 for number in range(10)}))
    for number in range(10):
        look.add(STREAM, b"%d" % number)
    until(lambda: texts(look), why=lambda: first.log)
    running(start(HANDLE, url=look.url))
    assert first.stop() == 0, first.log

    until(lambda: len(ended(look)) == 10 and not look.pending(STREAM, GROUP))
    assert sorted(texts(look)) == [str(number) for number in range(10)]
    assert look.redis.exists(DEAD) == 0


@pytest.mark.case("SD-02")
@pytest.mark.rule("7.3")
def test_the_handler_under_way_ends_and_nothing_else_begins(start: StartChild, look: Look) -> None:
    child = start(HANDLE, url=look.url, takes={"slow": 1.0}, shutdown_timeout=10)
    look.add(STREAM, b"slow")
    until(lambda: texts(look) == ["slow"], why=lambda: child.log)
    look.add(STREAM, b"next")
    child.send(signal.SIGTERM)
    until(lambda: ": stopping" in child.log)
    look.add(STREAM, b"later")

    assert child.wait() == 0, child.log
    assert texts(look) == ended(look) == ["slow"]
    again = start(HANDLE, url=look.url)
    until(lambda: set(texts(look)) == {"slow", "next", "later"}, why=lambda: again.log)
    assert again.stop() == 0
    assert sorted(texts(look)) == ["later", "next", "slow"]


@pytest.mark.case("SD-04")
def test_a_second_signal_ends_it_promptly(start: StartChild, look: Look) -> None:
    child = start(HANDLE, url=look.url, takes={"x": 1000})
    look.add(STREAM, b"x")
    until(lambda: texts(look), why=lambda: child.log)
    child.send(signal.SIGINT)
    until(lambda: ": stopping" in child.log)
    before = time.monotonic()
    child.send(signal.SIGINT)

    assert child.wait() == 128 + signal.SIGINT
    assert child.ended_at - before < 2
    assert "Traceback" not in child.log
    assert len(look.pending(STREAM, GROUP)) == 1


@pytest.mark.case("SD-05")
def test_a_signal_ends_it_while_the_server_hangs(start: StartChild, own_redis: RedisServer) -> None:
    """It accepts connections, and answers nothing."""
    own_redis.pause()
    child = start(HANDLE, url=own_redis.url)
    until(lambda: "on SureStream" in child.log)
    time.sleep(0.3)
    before = time.monotonic()

    assert child.stop() == 0, child.log
    assert child.ended_at - before < 2
    own_redis.resume()


@pytest.mark.case("SD-05")
@pytest.mark.rule("7.3")
def test_a_signal_ends_it_while_the_server_hangs_under_it(
    start: StartChild, own_redis: RedisServer
) -> None:
    child = running(start(HANDLE, url=own_redis.url, shutdown_timeout=1))
    own_redis.pause()
    before = time.monotonic()

    status = child.stop()
    own_redis.resume()

    assert status in (0, 1), child.log
    assert child.ended_at - before < 1 + 4 + 1


@pytest.mark.rule("7.3")
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_a_signal_ends_it_while_the_server_is_down(
    start: StartChild, look: Look, own_redis: RedisServer, busy: bool
) -> None:
    settings = {"url": own_redis.url, "note_url": look.url}
    takes = {str(number): 0.7 for number in range(5)}
    child = running(start(HANDLE, takes=takes, shutdown_timeout=3, **settings))
    if busy:
        at = Look(own_redis.url)
        for number in range(5):
            at.add(STREAM, b"%d" % number)
        at.close()
        until(lambda: texts(look), why=lambda: child.log)
    own_redis.kill()
    before = time.monotonic()

    assert child.stop() == 0, child.log
    assert child.ended_at - before < 3
    own_redis.start()
    if busy:
        again = start(HANDLE, recover_after=0.3, **settings)
        until(lambda: len(set(ended(look))) == 5, why=lambda: again.log)
        assert len(texts(look)) <= 6


@pytest.mark.rule("5.1", "7.3")
@pytest.mark.parametrize("kind", ["timer", "zset"])
def test_what_a_handler_decides_after_the_signal_is_stored(
    start: StartChild, look: Look, kind: str
) -> None:
    settings = {"delays": f"{STREAM}.delayed"} if kind == "zset" else {}
    settings |= {"later": {"x": 0.6}}
    child = start(HANDLE, url=look.url, takes={"x": 0.5}, **settings)
    look.add(STREAM, b"x")
    until(lambda: texts(look), why=lambda: child.log)
    assert child.stop() == 0, child.log

    assert look.pending(STREAM, GROUP) == []
    again = start(HANDLE, url=look.url, **settings)
    until(lambda: len(texts(look)) == 2, why=lambda: again.log)
    first, second = look.journal()
    assert (second["attempt"], second["count"]) == (2, 1)
    assert second["at"] - first["at"] >= 1.1


@pytest.mark.case("SD-06")
@pytest.mark.rule("7.3")
def test_one_that_never_ends_does_not_take_the_others_with_it(
    start: StartChild, look: Look
) -> None:
    takes = {"stuck": 1000.0, **{f"quick {number}": 0.5 for number in range(4)}}
    child = running(start(HANDLE, url=look.url, takes=takes, workers=5, shutdown_timeout=1.5))
    for text in takes:
        look.add(STREAM, text.encode())
    until(lambda: len(texts(look)) == 5, why=lambda: child.log)
    before = time.monotonic()

    assert child.stop() == 0, child.log
    assert 1.3 < child.ended_at - before < 4
    assert sorted(ended(look)) == [f"quick {number}" for number in range(4)]
    assert len(look.pending(STREAM, GROUP)) == 1
    assert any("still running at shutdown_timeout" in line for line in child.log.splitlines())
    again = start(HANDLE, url=look.url)
    until(lambda: texts(look).count("stuck") == 2, why=lambda: again.log)
    assert look.journal()[-1]["count"] == 1


@pytest.mark.case("SD-11")
@pytest.mark.rule("5.8")
class TestDelaysInMemory:
    def test_are_handed_over_with_their_due_time(self, start: StartChild, look: Look) -> None:
        child = running(start(HANDLE, url=look.url, later={"x": 2.0}))
        look.add(STREAM, b"x")
        until(lambda: ended(look), why=lambda: child.log)
        before = time.monotonic()
        assert child.stop() == 0, child.log

        assert child.ended_at - before < 1.5
        assert "1 were handed over" in child.log
        (copy,) = [one for one in look.entries(STREAM) if b"h:x-surestream-not-before" in one]
        assert copy[b"h:x-ruststream-retry-count"] == b"1"
        assert look.pending(STREAM, GROUP) == []
        again = running(start(HANDLE, url=look.url, later={"x": 2.0}))
        until(lambda: len(texts(look)) == 2, why=lambda: again.log)

        first, second = look.journal()
        assert 2.0 <= second["at"] - first["at"] < 3
        assert second["attempt"] == 2
        until(lambda: not look.pending(STREAM, GROUP))
        assert again.stop() == 0
        assert look.length(STREAM) == 1

    def test_are_not_lost_when_one_stop_follows_another(
        self, start: StartChild, look: Look
    ) -> None:
        """Handed over again by whoever only waits for it."""
        look.add(STREAM, b"x")
        for number in range(4):
            child = running(start(HANDLE, url=look.url, later={"x": 3.0}))
            until(lambda: ended(look), why=lambda c=child: c.log)
            time.sleep(0.1)
            assert child.stop() == 0, child.log
            assert len(texts(look)) == 1, number
        again = start(HANDLE, url=look.url)
        until(lambda: len(texts(look)) == 2, why=lambda: again.log)

        first, second = look.journal()
        assert 3.0 <= second["at"] - first["at"] < 4
        assert (second["attempt"], second["count"]) == (2, 1)
        until(lambda: not look.pending(STREAM, GROUP))

    def test_are_not_lost_in_a_kill(self, start: StartChild, look: Look) -> None:
        child = running(start(HANDLE, url=look.url, later={"x": 60.0}))
        look.add(STREAM, b"x")
        until(lambda: ended(look), why=lambda: child.log)
        child.kill()
        again = start(HANDLE, url=look.url, recover_after=0.3)
        until(lambda: len(texts(look)) == 2, why=lambda: again.log)

        assert [run["attempt"] for run in look.journal()] == [1, 1]


@pytest.mark.case("MG-05")
@pytest.mark.rule("5.5", "5.8")
@pytest.mark.timeout(120)
async def test_many_delays_in_memory_end_or_are_handed_over(
    look: Look, caplog: pytest.LogCaptureFixture
) -> None:
    count = 50_000
    with look.redis.pipeline() as pipe:
        for number in range(count):
            pipe.xadd(STREAM, {"_payload": str(number)})
        pipe.execute()
    caplog.set_level(logging.WARNING, "surestream.dispatch")  # not a line for each message
    before = resident()
    service = Service(look.url, shutdown_timeout=30)
    service.on(source(), lambda given: retry_after(3600), max_attempts=5, dead_letter=DEAD)
    async with service.running():
        await eventually(lambda: service.ended == count, 40)
        service.runs.clear()
        grown = resident() - before
        caplog.set_level(logging.INFO, "surestream.dispatch")
        stopping = time.monotonic()
    stopped = time.monotonic() - stopping
    print(f"{count} delays: {grown / count / 1024:.1f} KiB each; stopped in {stopped:.1f} s")
    assert look.pending(STREAM, GROUP) == []
    assert look.length(STREAM) == 2 * count
    assert grown < count * 4096
    assert any(
        f"{count} were handed over" in one or f"{count} delays handed" in one
        for one in told(caplog)
    )


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return lines(caplog, 20)


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096


@pytest.mark.rule("2.4", "7.4")
async def test_a_handler_that_was_cut_off_runs_again_as_the_same_attempt(look: Look) -> None:
    gate = Gate()

    async def decide(given: Given) -> Outcome:
        await gate()
        return ack()

    look.add(STREAM, b"x")
    first = Service(look.url, shutdown_timeout=0.1).on(source(), decide)
    async with first.running():
        await gate.reached.wait()
    gate.open()
    second = Service(look.url).on(source(), decide)
    async with second.running():
        await eventually(lambda: second.ended == 1)
        await asyncio.sleep(0.1)
    assert second.attempts() == [1]
    assert second.runs[0].delivery.server_count == 1
