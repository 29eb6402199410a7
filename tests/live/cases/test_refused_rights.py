"""What an access list or a key of another type forbids, for good or for a while (rule 5.2)."""

from __future__ import annotations

import asyncio

import pytest

from surestream import Outcome, Subscriber, ack, retry
from tests.live.cases.service import DEAD, GROUP, STREAM, Given, Service, source
from tests.live.support import Look, LookAt, eventually, lines, lines_a_second
from tests.servers import RedisServer

QUARANTINE = f"{STREAM}.undecodable"
GARBAGE = b"\xff"


def text_only(service: Service) -> list[str]:
    """A handler that cannot read garbage."""
    seen: list[str] = []

    async def work(text: str) -> Outcome:
        seen.append(text)
        return ack()

    service.broker.include(Subscriber(source(), work))
    return seen


@pytest.mark.rule("2.6", "5.2")
@pytest.mark.parametrize("fault", ["type", "memory"])
async def test_what_cannot_be_set_aside_is_held_and_stops_nothing(
    own_redis: RedisServer, look_at: LookAt, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    look = look_at(own_redis.url)
    service = Service(look.url)
    seen = text_only(service)
    for number in range(40):
        look.add(STREAM, GARBAGE if number % 2 else b"%d" % number)
    look.redis.xgroup_create(STREAM, GROUP, id="0")
    if fault == "type":
        look.redis.set(QUARANTINE, "x")
    else:
        look.redis.config_set("maxmemory", "1")
    async with service.running():
        await eventually(lambda: len(seen) == 20)
        await asyncio.sleep(1.2)
        assert len(look.pending(STREAM, GROUP)) == 20
        assert lines_a_second(caplog, "held") <= 2

        if fault == "type":
            look.redis.delete(QUARANTINE)
        else:
            look.redis.config_set("maxmemory", "0")
        await eventually(lambda: look.length(QUARANTINE) == 20)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert len(seen) == 20


def allow(look: Look, *rights: str) -> str:
    """A user with these rights; the URL to be that user."""
    look.redis.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">pw", *rights)
    return look.url.replace("redis://", "redis://limited:pw@")


@pytest.mark.rule("5.1", "5.2")
async def test_a_dead_letter_that_may_not_be_written_waits_until_it_may(
    own_redis: RedisServer, look_at: LookAt, caplog: pytest.LogCaptureFixture
) -> None:
    look = look_at(own_redis.url)
    url = allow(look, "~tasks", "+@all")
    service = Service(url).on(source(), lambda _: retry(), max_attempts=2, dead_letter=DEAD)
    async with service.running():
        look.add(STREAM, b"x")
        await eventually(lambda: service.ended == 2)
        await asyncio.sleep(1)
        assert len(look.pending(STREAM, GROUP)) == 1
        assert any("NOPERM" in line or "permission" in line for line in lines(caplog))
        assert lines_a_second(caplog) <= 3

        allow(look, "~*", "+@all")
        await eventually(lambda: look.length(DEAD) == 1)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert len(service.runs) == 2


@pytest.mark.rule("4.7", "5.1")
async def test_copies_that_may_not_be_deleted_are_settled_all_the_same(
    own_redis: RedisServer, look_at: LookAt, caplog: pytest.LogCaptureFixture
) -> None:
    look = look_at(own_redis.url)
    url = allow(look, "~*", "+@all", "-xdel")

    def decide(given: Given) -> Outcome:
        return retry() if given.attempt < 3 else ack()

    service = Service(url).on(source(), decide, max_attempts=5, dead_letter=DEAD)
    async with service.running():
        for number in range(20):
            look.add(STREAM, b"%d" % number)
        await eventually(lambda: service.ended == 60)
        await eventually(lambda: not look.pending(STREAM, GROUP))
        await asyncio.sleep(0.3)
    assert len(service.runs) == 60
    assert look.length(STREAM) == 60
    assert lines_a_second(caplog) <= 2
