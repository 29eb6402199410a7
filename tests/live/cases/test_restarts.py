"""Servers that go away, come back, come back empty, or are not ready (rules 6.6 and 7.5)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from surestream import Outcome, ack, retry, retry_after
from tests.live.cases.service import DEAD, GROUP, STREAM, Decide, Gate, Given, Service, source, zset
from tests.live.support import Look, LookAt, eventually, lines, lines_a_second
from tests.server_fixtures import StartRedis
from tests.servers import RedisServer

pytestmark = pytest.mark.rule("7.5")

WORDS_PER_FAULT = 2
"""Log lines a second. What cannot be reached is told of by two links, and by what they carry."""


def ours(look: Look) -> list[str]:
    """The connections that the service has."""
    return [one["id"] for one in look.redis.client_list() if one["name"].startswith("surestream")]


@pytest.mark.case("RC-06")
async def test_five_restarts_in_three_seconds_lose_nothing_and_leave_no_second_reader(
    own_redis: RedisServer, look_at: LookAt, caplog: pytest.LogCaptureFixture
) -> None:
    look = look_at(own_redis.url)
    service = Service(look.url).on(zset(), max_attempts=3, dead_letter=DEAD)
    async with service.running() as run:
        await eventually(lambda: len(ours(look)) == 2)
        tasks = len(asyncio.all_tasks())
        for number in range(20):
            if number % 4 == 3:
                await asyncio.to_thread(own_redis.restart)
            look.add(STREAM, b"%d" % number)
            await asyncio.sleep(0.1)
        await eventually(lambda: set(service.texts()) == {str(number) for number in range(20)})
        await eventually(lambda: run.health.ready, why=lambda: run.health)
        await eventually(lambda: not look.pending(STREAM, GROUP))

        assert len(ours(look)) == 2
        assert len(asyncio.all_tasks()) == tasks
        commands = look.commands()
        await asyncio.sleep(1)
        assert look.commands() - commands < 30
    assert len(service.runs) <= 20 + 5
    assert lines_a_second(caplog) <= 3 * WORDS_PER_FAULT


@pytest.mark.case("RC-06")
@pytest.mark.rule("6.4")
async def test_connections_that_are_cut_in_a_blocking_read_cost_nothing(look: Look) -> None:
    service = Service(look.url).on(source(block=5), max_attempts=3, dead_letter=DEAD)
    async with service.running() as run:
        for number in range(6):
            await eventually(lambda: run.health.ready and len(ours(look)) == 2)
            for client in ours(look)[:: number % 2 + 1]:
                look.redis.client_kill_filter(_id=client)
            look.add(STREAM, b"%d" % number)
            await eventually(lambda n=number: len(service.runs) == n + 1, within=10)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert service.texts() == [str(number) for number in range(6)]
    assert set(service.attempts()) == {1}


@pytest.mark.case("RC-01")
@pytest.mark.rule("6.6")
async def test_a_server_that_comes_back_empty_gets_its_group_again(
    own_redis: RedisServer, look_at: LookAt, caplog: pytest.LogCaptureFixture
) -> None:
    look = look_at(own_redis.url)
    service = Service(look.url).on(zset(), max_attempts=3, dead_letter=DEAD)
    async with service.running() as run:
        look.add(STREAM, b"before")
        await eventually(lambda: service.texts() == ["before"])
        await asyncio.to_thread(own_redis.kill)
        await asyncio.sleep(0.5)
        await asyncio.to_thread(own_redis.restart, keep_data=False)
        for number in range(10):
            look.add(STREAM, b"%d" % number)
        await eventually(lambda: len(service.runs) == 11, within=8)
        await eventually(lambda: run.health.ready, why=lambda: run.health)
        await eventually(lambda: not look.pending(STREAM, GROUP))
        await asyncio.sleep(0.5)
    assert service.texts()[1:] == [str(number) for number in range(10)]
    assert lines_a_second(caplog) <= 3 * WORDS_PER_FAULT


LOSSES = {
    "FLUSHALL": ("FLUSHALL",),
    "DEL": ("DEL", STREAM),
    "XGROUP DESTROY": ("XGROUP", "DESTROY", STREAM, GROUP),
}


@pytest.mark.case("RC-01")
@pytest.mark.rule("5.4", "6.6")
@pytest.mark.parametrize("outcome", ["ack", "retry", "park", "dead"])
@pytest.mark.parametrize("loss", LOSSES)
async def test_a_group_that_is_lost_under_a_running_handler(
    look: Look, loss: str, outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What was done stays done, what is in hand is settled once, what is new is handled once."""
    gate = Gate()

    async def decide(given: Given) -> Outcome:
        if given.text != "slow" or given.attempt > (2 if outcome == "dead" else 1):
            return ack()
        await gate()
        return {"ack": ack(), "park": retry_after(0.1)}.get(outcome, retry())

    service = Service(look.url)
    cap = 1 if outcome == "dead" else 3
    service.on(zset(), decide, workers=3, max_attempts=cap, dead_letter=DEAD)
    async with service.running() as run:
        for text in (b"done 1", b"done 2", b"slow"):
            look.add(STREAM, text)
        await eventually(lambda: service.ended == 2 and len(service.runs) == 3)
        await eventually(lambda: len(look.pending(STREAM, GROUP)) == 1)
        look.redis.execute_command(*LOSSES[loss])
        for number in range(5):
            look.add(STREAM, b"new %d" % number)
        await eventually(lambda: service.ended == 7, why=service.texts)
        gate.open()
        if outcome == "dead":
            await eventually(lambda: look.payloads(DEAD) == [b"slow"])
        else:
            last = 1 if outcome == "ack" else 2
            await eventually(lambda: service.attempts("slow") == [*range(1, last + 1)])
        await eventually(lambda: not look.pending(STREAM, GROUP))
        await eventually(lambda: run.health.ready, why=lambda: run.health)
        await asyncio.sleep(0.3)
    expected = ["done 1", "done 2", *(f"new {number}" for number in range(5)), "slow"]
    assert sorted(set(service.texts())) == expected
    assert len(service.runs) == 8 + (outcome in ("retry", "park")), service.texts()
    assert lines_a_second(caplog) <= WORDS_PER_FAULT


@pytest.mark.rule("6.6")
async def test_a_group_that_is_lost_while_the_stream_is_idle_is_not_read_from_its_beginning(
    look: Look,
) -> None:
    service = Service(look.url).on(source())
    async with service.running():
        for number in range(3):
            look.add(STREAM, b"%d" % number)
        await eventually(lambda: service.ended == 3 and not look.pending(STREAM, GROUP))
        look.redis.xgroup_destroy(STREAM, GROUP)
        await eventually(lambda: look.redis.xinfo_groups(STREAM))
        look.add(STREAM, b"3")
        await eventually(lambda: service.ended == 4)
        await asyncio.sleep(0.3)
    assert service.texts() == ["0", "1", "2", "3"]


@pytest.mark.case("RC-07")
class TestLoading:
    """A server that reads its data answers LOADING to everything."""

    def started(self, start_redis: StartRedis, look_at: LookAt) -> tuple[RedisServer, Look]:
        server = start_redis(
            args=("--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024")
        )
        look = look_at(server.url)
        with look.redis.pipeline() as pipe:
            for number in range(5000):
                pipe.set(f"ballast:{number}", "x" * 20)
            pipe.execute()
        return server, look

    async def test_is_waited_for_at_a_reconnect(
        self, start_redis: StartRedis, look_at: LookAt, caplog: pytest.LogCaptureFixture
    ) -> None:
        server, look = self.started(start_redis, look_at)
        service = Service(look.url).on(source(), max_attempts=3, dead_letter=DEAD)
        async with service.running() as run:
            look.add(STREAM, b"1")
            await eventually(lambda: service.ended == 1 and not look.pending(STREAM, GROUP))
            before = time.monotonic()
            await asyncio.to_thread(server.restart)
            assert time.monotonic() - before > 1
            look.add(STREAM, b"2")
            await eventually(lambda: service.texts() == ["1", "2"], within=10)
            await eventually(lambda: run.health.ready, why=lambda: run.health)
        assert any("LOADING" in line for line in lines(caplog)), lines(caplog)
        assert lines_a_second(caplog) <= 3 * WORDS_PER_FAULT

    async def test_is_waited_for_at_the_start(
        self, start_redis: StartRedis, look_at: LookAt, caplog: pytest.LogCaptureFixture
    ) -> None:
        server, look = self.started(start_redis, look_at)
        look.add(STREAM, b"1")
        restarting = asyncio.create_task(asyncio.to_thread(server.restart))
        await eventually(lambda: _loading(server))
        service = Service(look.url).on(source(), max_attempts=3, dead_letter=DEAD)
        async with service.running():
            await eventually(lambda: service.texts() == ["1"])
        await restarting
        assert any("LOADING" in line for line in lines(caplog)), lines(caplog)
        assert lines_a_second(caplog) <= WORDS_PER_FAULT


def _loading(server: RedisServer) -> bool:
    try:
        return server.ask("GET", "x").startswith("-LOADING")
    except OSError:
        return False


@pytest.mark.case("RC-10")
async def test_a_blocking_read_that_ends_empty_is_no_error(
    look: Look, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(look.url).on(source(block=1.5))
    async with service.running() as run:
        await asyncio.sleep(3.5)
        assert run.health.ready
        look.add(STREAM, b"1")
        before = time.time()
        await eventually(lambda: service.runs)
        assert service.runs[0].at - before < 1
    assert lines(caplog) == []


@pytest.mark.rule("6.6")
async def test_a_group_that_two_processes_lost_is_whole_again(look: Look) -> None:
    """Who creates it cannot know what the other one holds: that may run once more, no oftener."""
    gates = Gate(), Gate()
    pair = [Service(look.url), Service(look.url)]

    def stuck_in(gate: Gate) -> Decide:
        async def decide(given: Given) -> Outcome:
            if given.text.startswith("slow") and not gate.reached.is_set():
                await gate()
                return retry()
            return ack()

        return decide

    for service, gate in zip(pair, gates, strict=True):
        service.on(source(), stuck_in(gate), workers=2, max_attempts=5, dead_letter=DEAD)
    async with pair[0].running(), pair[1].running():
        for number in range(50):
            if all(gate.reached.is_set() for gate in gates):
                break
            look.add(STREAM, b"slow %d" % number)
            await asyncio.sleep(0.02)
        await eventually(lambda: len(look.pending(STREAM, GROUP)) == 2)
        look.redis.xgroup_destroy(STREAM, GROUP)
        for number in range(20):
            look.add(STREAM, b"new %d" % number)
        await eventually(lambda: sum("new" in one for s in pair for one in s.texts()) >= 20)
        for gate in gates:
            gate.open()
        await eventually(lambda: not look.pending(STREAM, GROUP) and not look.unread(STREAM))
        await asyncio.sleep(0.3)
    runs = Counter(given.text for service in pair for given in service.runs)
    assert {f"new {number}" for number in range(20)} <= set(runs)
    assert max(runs[f"new {number}"] for number in range(20)) == 1
    assert look.redis.exists(DEAD) == 0
