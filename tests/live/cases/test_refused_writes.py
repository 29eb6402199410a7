"""What the server refuses for a while is held, told and stored later (rules 5.1 and 5.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surestream import BrokerRefused, Outcome, ack, retry, retry_after
from tests.live.cases.service import (
    DEAD,
    DELAYED,
    GROUP,
    STREAM,
    Gate,
    Given,
    Service,
    source,
    zset,
)
from tests.live.support import Look, LookAt, eventually, lines, lines_a_second
from tests.server_fixtures import StartRedis
from tests.servers import RedisServer


def always_retry(given: Given) -> Outcome:
    return retry()


@pytest.mark.case("ML-01")
@pytest.mark.rule("5.1", "5.2")
class TestDeadLetterKeyOfAnotherType:
    async def test_the_message_is_held_and_arrives_once_the_key_is_free(
        self, look: Look, caplog: pytest.LogCaptureFixture
    ) -> None:
        look.redis.set(DEAD, "not a stream")
        service = Service(look.url).on(source(), always_retry, max_attempts=2, dead_letter=DEAD)
        look.add(STREAM, b"x")
        async with service.running():
            await eventually(lambda: len(service.runs) == 2)
            await asyncio.sleep(2)

            assert len(look.pending(STREAM, GROUP)) == 1
            held = [line for line in lines(caplog) if "held" in line]
            assert 1 <= len(held) <= 5
            assert f"'{DEAD}' holds a string" in held[0]

            look.redis.delete(DEAD)
            await eventually(lambda: look.length(DEAD) == 1)
            await eventually(lambda: not look.pending(STREAM, GROUP))
        assert len(service.runs) == 2
        assert look.length(DEAD) == 1

    async def test_a_restart_meanwhile_loses_nothing(self, look: Look) -> None:
        look.redis.set(DEAD, "not a stream")
        look.add(STREAM, b"x")
        runs = 0
        for broken in (True, False):
            service = Service(look.url, shutdown_timeout=0.5)
            service.on(source(recover_after=0.5), always_retry, max_attempts=2, dead_letter=DEAD)
            async with service.running():
                if broken:
                    await eventually(lambda s=service: s.ended == 2)
                    await asyncio.sleep(0.1)
                else:
                    look.redis.delete(DEAD)
                    await eventually(lambda: look.length(DEAD) == 1)
                    await eventually(lambda: not look.pending(STREAM, GROUP))
            runs += len(service.runs)
        assert runs <= 3
        (dead,) = look.entries(DEAD)
        assert dead[b"h:x-ruststream-retry-count"] == b"2"


@pytest.mark.case("ML-02")
@pytest.mark.rule("5.2")
@pytest.mark.parametrize("way", ["retry", "timer", "zset", "dead"])
async def test_full_memory_holds_the_message_and_reading_goes_on(
    start_redis: StartRedis, look_at: LookAt, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    look = look_at(start_redis().url)
    gate = Gate()

    async def decide(given: Given) -> Outcome:
        if given.text != "bad" or (given.attempt > 1 and way != "dead"):
            return ack()
        await gate()
        return retry_after(0.1) if way in ("timer", "zset") else retry()

    kind = zset if way == "zset" else source
    service = Service(look.url)
    service.on(kind(), decide, workers=2, max_attempts=1 if way == "dead" else 3, dead_letter=DEAD)
    for number in range(30):
        look.add(STREAM, b"bad" if number == 3 else b"good %d" % number)
    async with service.running():
        await gate.reached.wait()
        look.redis.config_set("maxmemory", "1")
        gate.open()
        await eventually(lambda: len(service.runs) == 30)
        await asyncio.sleep(1.5)

        assert [count for _, _, count in look.pending(STREAM, GROUP)] == [1]
        assert lines(caplog)
        assert lines_a_second(caplog, "held") <= 2

        look.redis.config_set("maxmemory", "0")
        await eventually(lambda: look.at_rest(STREAM, (GROUP,), DELAYED))
        if way == "dead":
            await eventually(lambda: look.payloads(DEAD) == [b"bad"])
        else:
            await eventually(lambda: service.attempts("bad") == [1, 2])
    assert len(service.runs) == 30 + (way != "dead")


@pytest.mark.case("ML-12")
async def test_a_delay_set_of_another_type_is_named_and_stops_nothing(
    look: Look, caplog: pytest.LogCaptureFixture
) -> None:
    look.redis.lpush(DELAYED, "x")

    def decide(given: Given) -> Outcome:
        return retry_after(0.2) if given.text == "bad" and given.attempt == 1 else ack()

    service = Service(look.url).on(zset(), decide, max_attempts=3, dead_letter=DEAD)
    async with service.running() as run:
        look.add(STREAM, b"bad")
        await eventually(lambda: service.ended)
        for number in range(20):
            look.add(STREAM, b"good %d" % number)
        await eventually(lambda: len(service.runs) == 21)
        await asyncio.sleep(1)

        assert len(look.pending(STREAM, GROUP)) == 1
        assert any(
            f"'{DELAYED}' holds a list, and a zset is needed" in one for one in lines(caplog)
        )
        assert lines_a_second(caplog) <= 2
        assert run.health.degraded

        look.redis.delete(DELAYED)
        await eventually(lambda: service.attempts("bad") == [1, 2])
        await eventually(lambda: not look.pending(STREAM, GROUP))
        await eventually(lambda: run.health.ready, why=lambda: run.health)
    assert look.redis.exists(DEAD) == 0


@pytest.mark.case("HL-01")
class TestSourceKeyOfAnotherType:
    async def test_start_is_refused_with_key_and_type(self, look: Look) -> None:
        look.redis.set(STREAM, "x")
        service = Service(look.url).on(source())

        with pytest.raises(BrokerRefused, match=f"'{STREAM}' holds a string, and a stream is"):
            async with service.running():
                raise AssertionError("it started")

    async def test_a_running_service_says_so_and_recovers(
        self, look: Look, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = Service(look.url).on(source(), max_attempts=3, dead_letter=DEAD)
        async with service.running() as run:
            look.add(STREAM, b"1")
            await eventually(lambda: len(service.runs) == 1)
            look.redis.delete(STREAM)
            look.redis.set(STREAM, "x")
            before = look.commands()
            await asyncio.sleep(2.5)

            assert look.commands() - before < 60
            assert any(f"'{STREAM}' holds a string" in line for line in lines(caplog))
            assert lines_a_second(caplog) <= 2
            assert f"'{STREAM}' holds a string" in str(run.health)

            look.redis.delete(STREAM)
            look.add(STREAM, b"2")
            await eventually(lambda: service.texts() == ["1", "2"])
            await eventually(lambda: run.health.ready, why=lambda: run.health)


@pytest.mark.case("HL-08")
@pytest.mark.rule("5.2")
async def test_fifty_dead_letters_wait_for_their_key_and_others_go_on(
    look: Look, caplog: pytest.LogCaptureFixture
) -> None:
    def decide(given: Given) -> Outcome:
        return retry() if given.text.startswith("bad") else ack()

    look.redis.set(DEAD, "x")
    service = Service(look.url).on(source(), decide, max_attempts=1, dead_letter=DEAD)
    for number in range(50):
        look.add(STREAM, b"bad %d" % number)
    async with service.running():
        await eventually(lambda: len(service.runs) == 50)
        scripts = calls_of_scripts(look)
        for number in range(200):
            look.add(STREAM, b"good %d" % number)
        await eventually(lambda: len(service.runs) == 250)
        await eventually(lambda: len(look.pending(STREAM, GROUP)) == 50)
        await asyncio.sleep(3)

        # Spaced by a growing wait: about six tries each in three seconds.
        assert calls_of_scripts(look) - scripts < 50 * 10
        assert lines_a_second(caplog, "held") <= 2
        assert len(look.pending(STREAM, GROUP)) == 50

        look.redis.delete(DEAD)
        await eventually(lambda: look.length(DEAD) == 50)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert sorted(look.payloads(DEAD)) == sorted(b"bad %d" % number for number in range(50))
    assert len(service.runs) == 250


def calls_of_scripts(look: Look) -> int:
    stats: dict[str, Any] = look.redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


@pytest.mark.case("CL-01")
@pytest.mark.rule("5.2")
async def test_a_server_that_became_read_only_gets_its_writes_when_it_is_back(
    own_redis: RedisServer, look_at: LookAt, caplog: pytest.LogCaptureFixture
) -> None:
    look = look_at(own_redis.url)
    gate = Gate()

    async def decide(given: Given) -> Outcome:
        if given.text == "slow" and given.attempt == 1:
            await gate()
            return retry()
        return ack()

    service = Service(look.url).on(source(), decide, workers=2, max_attempts=3, dead_letter=DEAD)
    async with service.running() as run:
        look.add(STREAM, b"slow")
        await gate.reached.wait()
        look.redis.execute_command("REPLICAOF", "127.0.0.1", "1")
        gate.open()
        await eventually(lambda: run.health.degraded)
        await asyncio.sleep(2)
        assert lines_a_second(caplog) <= 4  # two faults: the link that reads, and the other

        look.redis.execute_command("REPLICAOF", "NO", "ONE")
        look.add(STREAM, b"new")
        await eventually(lambda: set(service.texts()) == {"slow", "new"})
        await eventually(lambda: not look.pending(STREAM, GROUP))
        await eventually(lambda: run.health.ready, why=lambda: run.health)
    assert service.attempts("slow") == [1, 2]
    assert service.attempts("new") == [1]
