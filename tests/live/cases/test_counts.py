"""What is counted, where, and what a dead letter carries (sections 3 and 4)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import msgspec
import pytest

from surestream import RETRY_COUNT_HEADER, Headers, Outcome, Subscriber, ack, retry, retry_after
from surestream.redis import DurableZset, RedisStream
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
from tests.live.support import Look, StartChild, eventually, until

HANDLE = "tests.live.cases.programs:handle"


@pytest.mark.case("WC-07")
@pytest.mark.rule("3.2")
async def test_the_count_survives_a_restart(look: Look) -> None:
    look.add(STREAM, b"x")
    attempts: list[int] = []

    def serve(until_attempt: int) -> Service:
        async def decide(given: Given) -> Outcome:
            if given.attempt > until_attempt:
                await Gate()()
            attempts.append(given.attempt)
            return retry()

        service = Service(look.url, shutdown_timeout=0.1)
        return service.on(source(), decide, max_attempts=5, dead_letter=DEAD)

    first = serve(2)
    async with first.running():
        await eventually(lambda: len(first.runs) == 3)
    async with serve(9).running():
        await eventually(lambda: look.length(DEAD) == 1)
    assert attempts == [1, 2, 3, 4, 5]
    assert look.entries(DEAD)[0][b"h:x-ruststream-retry-count"] == b"5"
    assert look.pending(STREAM, GROUP) == []


@pytest.mark.case("WC-15")
@pytest.mark.rule("2.4", "7.4")
def test_runs_that_the_stop_cut_off_are_no_attempts(start: StartChild, look: Look) -> None:
    look.add(STREAM, b"x")
    for number in range(5):
        child = start(HANDLE, url=look.url, takes={"x": 60}, shutdown_timeout=0.2)
        until(lambda n=number: len(look.journal()) == n + 1, why=lambda c=child: c.log)
        assert child.stop() == 0, child.log
        assert look.length(STREAM) == 1
    child = start(HANDLE, url=look.url)
    until(lambda: not look.pending(STREAM, GROUP), why=lambda: child.log)

    assert [(run["attempt"], run["count"]) for run in look.journal()] == [(1, 1)] * 6
    assert look.redis.exists(DEAD) == 0


@pytest.mark.case("WC-16")
@pytest.mark.rule("3.7")
async def test_a_rewind_leaves_the_header_alone(look: Look) -> None:
    service = Service(look.url).on(source(), max_attempts=5, dead_letter=DEAD)
    look.add(STREAM, b"x", **{RETRY_COUNT_HEADER: "2"})
    async with service.running():
        for runs in range(1, 4):
            await eventually(lambda n=runs: service.ended == n)
            await eventually(lambda: not look.pending(STREAM, GROUP))
            look.redis.xgroup_setid(STREAM, GROUP, "0")
        await eventually(lambda: service.ended == 4)
    assert set(service.attempts()) == {3}
    assert {given.delivery.server_count for given in service.runs} == {1}
    assert look.redis.exists(DEAD) == 0


class Refund(msgspec.Struct):
    id: int
    note: str = ""


@pytest.mark.case("OS-06")
@pytest.mark.rule("4.1", "4.3")
async def test_a_dead_letter_is_read_by_the_same_handler_and_says_why(look: Look) -> None:
    seen: list[tuple[Refund, dict[str, str]]] = []

    async def work(refund: Refund, headers: Headers) -> Outcome:
        seen.append((refund, dict(headers)))
        if headers.get("x-surestream-dead-reason"):
            return ack()
        raise RuntimeError("the processor says no")

    service = Service(look.url)
    service.broker.include(
        Subscriber(zset(), work),
        max_attempts=3,
        dead_letter=DEAD,
        on_error={RuntimeError: retry_after(0.02)},
    )
    service.broker.include(Subscriber(source(key=DEAD, group="review"), work))
    async with service.running():
        look.add(STREAM, {"id": 7, "note": "ü"}, trace="abc", content_type="application/json")
        await eventually(lambda: len(seen) == 4)
        await eventually(lambda: not look.pending(DEAD, "review"))
    refund, headers = seen[3]
    assert refund == seen[0][0] == Refund(7, "ü")
    assert headers["trace"] == "abc"
    assert headers["content_type"] == "application/json"
    assert headers[RETRY_COUNT_HEADER] == "3"
    dead = {
        name.removeprefix("x-surestream-dead-"): value
        for name, value in headers.items()
        if name.startswith("x-surestream-dead-")
    }
    assert dead["reason"] == "attempts-spent"
    assert dead["source"] == STREAM
    assert dead["attempts"] == "3"
    assert "RuntimeError" in dead["error"]
    assert {"time", "service", "subscription"} <= set(dead)


@pytest.mark.case("TH-02", "TH-03")
async def test_two_readers_of_one_group_share_and_two_groups_do_not(look: Look) -> None:
    """One of the two readers waits much longer for orphans: nothing is one yet."""
    service = Service(look.url)
    service.on(source(recover_after=0.5), decide_slowly).on(source(), decide_slowly)
    other = Service(look.url).on(source(group="other")).on(source(group="other", consumer="me"))
    async with service.running(), other.running():
        for number in range(10):
            look.add(STREAM, b"%d" % number)
        await eventually(lambda: service.ended >= 10 and other.ended >= 10)
        await asyncio.sleep(0.7)
    every = sorted(str(number) for number in range(10))
    assert sorted(service.texts()) == every
    assert sorted(other.texts()) == every


async def decide_slowly(given: Given) -> Outcome:
    await asyncio.sleep(0.02)
    return ack()


@pytest.mark.rule("4.7")
class TestTwoGroupsOnOneStream:
    @pytest.mark.parametrize("kind", ["copy", "timer", "zset", "hand-over"])
    async def test_the_other_group_never_runs_the_copies(self, look: Look, kind: str) -> None:
        """A foreign group sees them."""
        look.redis.xgroup_create(STREAM, "foreign", id="0", mkstream=True)

        def decide(given: Given) -> Outcome:
            if given.text != "bad" or given.attempt > 2:
                return ack()
            return retry() if kind == "copy" else retry_after(0.3)

        mine, other = Service(look.url), Service(look.url)
        stream = zset() if kind == "zset" else source()
        mine.on(stream, decide, max_attempts=5, dead_letter=DEAD)
        other.on(source(group="other"), max_attempts=5, dead_letter="other.dlq")
        async with other.running():
            async with mine.running():
                for number in range(5):
                    look.add(STREAM, b"bad" if number == 2 else b"good %d" % number)
                runs = 5 if kind == "hand-over" else 7
                await eventually(lambda: mine.ended == runs)
                await asyncio.sleep(0.05)
            if kind == "hand-over":
                again = Service(look.url)
                again.on(stream, decide, max_attempts=5, dead_letter=DEAD)
                async with again.running():
                    await eventually(lambda: again.attempts() == [2, 3])
            await eventually(lambda: not look.unread(STREAM) or not look.pending(STREAM, "other"))
            look.add(STREAM, b"last")
            await eventually(lambda: "last" in other.texts())
            await eventually(lambda: not look.pending(STREAM, "other"))
        assert Counter(other.texts())["bad"] == 1
        assert len(other.runs) == 6
        assert look.redis.exists(DEAD, "other.dlq") == 0
        seen = look.redis.xreadgroup("foreign", "c", {STREAM: ">"})[0][1]
        assert len(seen) >= 6

    async def test_a_foreign_group_sees_the_copies(self, look: Look) -> None:
        look.redis.xgroup_create(STREAM, "foreign", id="0", mkstream=True)
        seen: list[dict[bytes, bytes]] = []

        def decide(given: Given) -> Outcome:
            for _, entries in look.redis.xreadgroup("foreign", "c", {STREAM: ">"}):
                seen.extend(fields for _, fields in entries)
            return retry() if given.attempt < 3 else ack()

        service = Service(look.url).on(source(), decide, max_attempts=5, dead_letter=DEAD)
        async with service.running():
            look.add(STREAM, b"x")
            await eventually(lambda: len(service.runs) == 3)
        assert [fields.get(b"h:x-ruststream-retry-count") for fields in seen] == [None, b"1", b"2"]


@pytest.mark.case("ML-08")
@pytest.mark.rule("6.6")
class TestFirstStart:
    async def test_begins_at_the_beginning_and_goes_on(self, look: Look) -> None:
        for number in range(3):
            look.add(STREAM, b"%d" % number)
        service = Service(look.url).on(source())
        async with service.running():
            await eventually(lambda: len(service.runs) == 3)
            look.add(STREAM, b"3")
            await eventually(lambda: service.texts() == ["0", "1", "2", "3"])

    async def test_begins_at_what_is_new_where_told_to(self, look: Look) -> None:
        look.add(STREAM, b"old")
        service = Service(look.url).on(source(start="new"))
        async with service.running():
            look.add(STREAM, b"new")
            await eventually(lambda: service.runs)
            await asyncio.sleep(0.3)
        assert service.texts() == ["new"]

    async def test_begins_after_the_id_it_was_given(self, look: Look) -> None:
        ids = [look.add(STREAM, b"%d" % number) for number in range(4)]
        service = Service(look.url).on(source(start=ids[1]))
        async with service.running():
            await eventually(lambda: service.texts() == ["2", "3"])


@pytest.mark.case("MG-01")
@pytest.mark.rule("4.7")
async def test_retries_do_not_grow_the_stream(look: Look) -> None:
    def decide(given: Given) -> Outcome:
        number = int(given.text)
        if number % 5 or given.attempt > 2:
            return ack()
        return retry() if number % 2 else retry_after(0.05)

    stream = RedisStream(STREAM, group=GROUP, delayed_retry=DurableZset(DELAYED))
    service = Service(look.url).on(stream, decide, workers=4, max_attempts=3, dead_letter=DEAD)
    async with service.running():
        with look.redis.pipeline() as pipe:
            for number in range(2000):
                pipe.xadd(STREAM, {"_payload": str(number)})
            pipe.execute()
        await eventually(lambda: service.ended == 2000 + 400 * 2, why=lambda: service.ended)
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert look.length(STREAM) == 2000
    assert look.redis.xinfo_stream(STREAM)["entries-added"] == 2000 + 800
    assert look.redis.exists(DEAD, DELAYED) == 0


@pytest.mark.case("MG-02")
@pytest.mark.rule("6.4")
def test_consumers_of_killed_processes_do_not_pile_up(start: StartChild, look: Look) -> None:
    """Their silence is shortened here: by default they are kept for 20 s at least."""
    settings = {"url": look.url, "recover_after": 0.3, "silence": 0.2}
    for number in range(30):
        look.add(STREAM, b"%d" % number)
        child = start(HANDLE, takes={str(number): 60}, **settings)
        until(lambda c=child: c.pid in {run["pid"] for run in look.journal()}, why=lambda: 0)
        child.kill()
    left = look.redis.xinfo_consumers(STREAM, GROUP)
    child = start(HANDLE, **settings)
    until(lambda: not look.pending(STREAM, GROUP), why=lambda: child.log)
    until(lambda: len(look.redis.xinfo_consumers(STREAM, GROUP)) == 1, why=lambda: child.log)

    assert len(left) < 30
    ended = {text.decode() for text in look.redis.lrange("ended", 0, -1)}
    dead = {json.loads(payload) for payload in look.payloads(DEAD)}
    assert {int(text) for text in ended} | dead == set(range(30))
