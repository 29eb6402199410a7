"""What lives keeps what it holds; what does not is taken over (rules 6.1, 6.2 and 6.4)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from surestream import Outcome, Subscriber, ack, retry, retry_after
from tests.live.cases.service import DEAD, DELAYED, GROUP, STREAM, Given, Service, source, zset
from tests.live.support import Look, StartChild, eventually, lines, lines_a_second, until
from tests.servers import RedisServer

HANDLE = "tests.live.cases.programs:handle"


@pytest.mark.rule("6.2")
async def test_long_runs_and_what_waits_behind_them_are_not_taken_by_an_idle_sibling(
    look: Look,
) -> None:
    async def slowly(given: Given) -> Outcome:
        await asyncio.sleep(0.5)
        return ack()

    busy = Service(look.url).on(source(recover_after=1), slowly)
    idle = Service(look.url).on(source(recover_after=1), slowly)
    for number in range(5):
        look.add(STREAM, b"%d" % number)
    async with busy.running():
        await eventually(lambda: len(look.pending(STREAM, GROUP)) == 5)
        async with idle.running():
            await eventually(lambda: busy.ended == 5 and not look.pending(STREAM, GROUP))
    assert busy.texts() == ["0", "1", "2", "3", "4"]
    assert idle.runs == []


@pytest.mark.rule("5.5", "6.2")
async def test_delays_in_memory_are_not_taken_by_an_idle_sibling(look: Look) -> None:
    def later(given: Given) -> Outcome:
        return retry_after(2.5) if given.attempt == 1 else ack()

    settings = {"max_attempts": 3, "dead_letter": DEAD}
    pair = [Service(look.url).on(source(recover_after=1), later, **settings) for _ in "ab"]
    async with pair[0].running(), pair[1].running():
        for number in range(20):
            look.add(STREAM, b"%d" % number)
        await eventually(lambda: sum(len(one.runs) for one in pair) == 40)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    runs = Counter((given.text, given.attempt) for one in pair for given in one.runs)
    assert set(runs.values()) == {1}


@pytest.mark.rule("5.2", "6.2")
async def test_what_waits_for_its_dead_letter_is_not_taken_by_an_idle_sibling(look: Look) -> None:
    look.redis.set(DEAD, "not a stream")
    settings = {"max_attempts": 1, "dead_letter": DEAD}
    pair = [
        Service(look.url).on(source(recover_after=1), lambda _: retry(), **settings) for _ in "ab"
    ]
    async with pair[0].running(), pair[1].running():
        for number in range(10):
            look.add(STREAM, b"%d" % number)
        await eventually(lambda: sum(one.ended for one in pair) == 10)
        await asyncio.sleep(2.5)
        assert sum(len(one.runs) for one in pair) == 10
        look.redis.delete(DEAD)
        await eventually(lambda: look.length(DEAD) == 10)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert sum(len(one.runs) for one in pair) == 10


@pytest.mark.rule("6.2")
async def test_a_run_beyond_hold_limit_may_be_taken_over_once(look: Look) -> None:
    async def slowly(given: Given) -> Outcome:
        await asyncio.sleep(2.5)
        return retry() if given.attempt == 1 else ack()

    first, second = Service(look.url), Service(look.url)
    settings = {"hold_limit": 0.6, "max_attempts": 5, "dead_letter": DEAD}
    first.on(source(recover_after=0.3), slowly, **settings)
    second.on(source(recover_after=0.3), **settings)
    async with first.running():
        look.add(STREAM, b"x")
        await eventually(lambda: len(first.runs) == 1)
        async with second.running():
            await eventually(lambda: not look.pending(STREAM, GROUP))
            assert first.ended == 0
            await eventually(lambda: first.ended == 1)
            await asyncio.sleep(0.2)
    assert len(second.runs) == 1
    assert look.length(STREAM) == 1  # its late retry did nothing


@pytest.mark.case("RC-09")
class TestHandlersThatBlock:
    async def test_a_plain_function_blocks_nobody(self, look: Look) -> None:
        """Its claim is renewed, the connection lives, other messages go on."""
        began: list[str] = []

        def work(body: bytes) -> Outcome:
            began.append(body.decode())
            if body == b"slow":
                time.sleep(2.5)
            return ack()

        service = Service(look.url)
        service.broker.include(Subscriber(source(recover_after=1), work), workers=2)
        sibling = Service(look.url).on(source(recover_after=1))
        look.add(STREAM, b"slow")
        async with service.running() as run:
            await eventually(lambda: began == ["slow"])
            for number in range(20):
                look.add(STREAM, b"%d" % number)
            await eventually(lambda: len(began) == 21, within=2.3)
            async with sibling.running():
                await eventually(lambda: not look.pending(STREAM, GROUP))
            assert run.health.ready
        assert sibling.runs == []

    def test_one_that_blocks_the_loop_is_overtaken_and_loses_nothing(
        self, start: StartChild, look: Look
    ) -> None:
        settings = {"url": look.url, "recover_after": 0.3, "later": {"x": 0.2}}
        first = start(HANDLE, blocks={"x": 1.5}, **settings)
        until(lambda: ": running" in first.log)
        look.add(STREAM, b"x")
        until(lambda: look.journal(), why=lambda: first.log)
        second = start(HANDLE, **settings)
        until(lambda: len(look.journal()) == 3, why=lambda: (first.log, second.log))
        until(lambda: len(look.redis.lrange("ended", 0, -1)) == 3)
        until(lambda: not look.pending(STREAM, GROUP))
        assert first.stop() == second.stop() == 0

        assert [run["attempt"] for run in look.journal()] == [1, 1, 2]
        assert look.length(STREAM) == 1


@pytest.mark.rule("6.4")
async def test_many_orphans_are_shared_by_two_siblings_and_run_once(look: Look) -> None:
    """Read by a consumer that is gone: nobody ever ran them."""
    look.redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    for number in range(300):
        look.add(STREAM, b"%d" % number)
    look.redis.xreadgroup(GROUP, "gone", {STREAM: ">"}, count=300)
    settings = {"workers": 4, "max_attempts": 3, "dead_letter": DEAD}
    pair = [Service(look.url).on(source(recover_after=1), **settings) for _ in "ab"]
    async with pair[0].running(), pair[1].running():
        await eventually(lambda: sum(one.ended for one in pair) == 300)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    runs = Counter(given.text for one in pair for given in one.runs)
    assert runs == {str(number): 1 for number in range(300)}
    assert {given.attempt for one in pair for given in one.runs} == {1}


@pytest.mark.case("HL-03")
@pytest.mark.rule("6.1")
async def test_a_message_that_is_retried_for_ever_disturbs_nobody(
    look: Look, caplog: pytest.LogCaptureFixture
) -> None:
    def decide(given: Given) -> Outcome:
        return retry() if given.text == "bad" else ack()

    service = Service(look.url).on(source(), decide)
    async with service.running():
        look.add(STREAM, b"bad")
        await eventually(lambda: len(service.runs) > 3)
        for number in range(100):
            look.add(STREAM, b"good %d" % number)
        await eventually(lambda: sum(text != "bad" for text in service.texts()) == 100, within=5)
        await asyncio.sleep(2)
        begun = time.monotonic()
    assert time.monotonic() - begun < 4
    assert len(service.attempts("bad")) < 12
    assert lines_a_second(caplog, level=20) < 8
    assert look.length(STREAM) <= 102


@pytest.mark.rule("5.2")
async def test_no_more_is_held_than_was_allowed_and_health_says_why(look: Look) -> None:
    look.redis.set(DEAD, "not a stream")
    service = Service(look.url)
    service.on(
        source(), lambda _: retry(), max_attempts=1, dead_letter=DEAD, max_unsettled=10, workers=2
    )
    for number in range(200):
        look.add(STREAM, b"%d" % number)
    async with service.running() as run:
        await eventually(lambda: run.health.degraded)
        await asyncio.sleep(1)
        assert 10 <= len(service.runs) <= 15
        assert "wait for" in str(run.health)
        look.redis.delete(DEAD)
        await eventually(lambda: look.length(DEAD) == 200)
        await eventually(lambda: not look.pending(STREAM, GROUP))
        await eventually(lambda: run.health.ready, why=lambda: run.health)
    assert len(service.runs) == 200


@pytest.mark.rule("5.4")
@pytest.mark.parametrize("loss", ["xtrim", "xdel"])
@pytest.mark.parametrize("kind", ["copy", "zset", "dead"])
async def test_an_entry_that_is_deleted_while_it_is_in_hand_is_stored_from_memory(
    look: Look, loss: str, kind: str
) -> None:
    def decide(given: Given) -> Outcome:
        if given.attempt == 1 and loss == "xtrim":
            look.redis.xtrim(STREAM, maxlen=0, approximate=False)
        elif given.attempt == 1:
            look.redis.xdel(STREAM, given.entry)
        if given.attempt > 1:
            return ack()
        return retry_after(0.05) if kind == "zset" else retry()

    service = Service(look.url)
    service.on(zset(), decide, max_attempts=1 if kind == "dead" else 3, dead_letter=DEAD)
    async with service.running():
        look.add(STREAM, b"x")
        if kind == "dead":
            await eventually(lambda: look.payloads(DEAD) == [b"x"])
        else:
            await eventually(lambda: service.attempts() == [1, 2])
        await eventually(lambda: look.at_rest(STREAM, (GROUP,), DELAYED))


@pytest.fixture
def paused_server(own_redis: RedisServer) -> Iterator[RedisServer]:
    yield own_redis
    own_redis.resume()


@pytest.mark.rule("7.5")
async def test_a_server_that_hangs_for_a_while_costs_nothing(
    paused_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    look = Look(paused_server.url)

    async def decide(given: Given) -> Outcome:
        await asyncio.sleep(0.2)
        return retry() if given.attempt == 1 else ack()

    service = Service(look.url).on(source(), decide, workers=5, max_attempts=3, dead_letter=DEAD)
    for number in range(5):
        look.add(STREAM, b"%d" % number)
    async with service.running():
        await eventually(lambda: len(service.runs) == 5)
        paused_server.pause()
        await asyncio.sleep(2)
        paused_server.resume()
        await eventually(lambda: len(service.runs) == 10)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert Counter(service.attempts()) == {1: 5, 2: 5}
    assert lines(caplog) == []
    look.close()


@pytest.mark.rule("5.4")
async def test_scripts_that_the_server_forgets_are_sent_again(look: Look) -> None:
    def decide(given: Given) -> Outcome:
        if given.attempt % 5 == 0:
            look.redis.script_flush()
        return retry() if given.attempt < 20 else ack()

    service = Service(look.url).on(source(), decide, max_attempts=20, dead_letter=DEAD)
    for number in range(20):
        look.add(STREAM, b"%d" % number)
    async with service.running():
        await eventually(lambda: service.ended == 400)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert set(Counter((given.text, given.attempt) for given in service.runs).values()) == {1}
    assert look.length(STREAM) == 20
