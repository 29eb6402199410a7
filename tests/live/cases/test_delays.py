"""Delays: never early, hardly late, once (rules 5.5, 5.8 and 6.5)."""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest
import uvloop

from surestream import Outcome, ack, retry_after
from surestream.redis import DurableZset
from tests.live.cases.service import (
    DEAD,
    DELAYED,
    GROUP,
    STREAM,
    Given,
    Service,
    source,
    zset,
)
from tests.live.support import Look, LookAt, StartChild, eventually, until
from tests.server_fixtures import StartRedis

HANDLE = "tests.live.cases.programs:handle"
LATENESS = 0.25
"""Seconds that are allowed on a machine with other work to do. Idle, it is 50 ms at most."""


def parked_member(name: bytes, payload: bytes, **headers: str) -> bytes:
    """A member of a delay set, written by hand."""
    parts = [struct.pack(">I", len(name)), name, struct.pack(">I", len(headers))]
    for key, value in headers.items():
        for text in (f"x-{key.replace('_', '-')}".encode(), value.encode()):
            parts += [struct.pack(">I", len(text)), text]
    return b"".join([*parts, payload])


def once_later(delay: float) -> object:
    """Every message once more after ``delay``."""
    return lambda given: retry_after(delay) if given.attempt == 1 else ack()


@pytest.mark.case("TH-09")
@pytest.mark.rule("6.5")
@pytest.mark.parametrize("kind", ["timer", "zset"])
async def test_fifty_delays_are_never_early_and_hardly_late(look: Look, kind: str) -> None:
    decided: dict[str, float] = {}

    def decide(given: Given) -> Outcome:
        if given.attempt > 1:
            return ack()
        decided[given.text] = time.time()
        return retry_after(0.5 + int(given.text) * 0.01)

    service = Service(look.url)
    service.on(zset() if kind == "zset" else source(), decide, max_attempts=3, dead_letter=DEAD)
    async with service.running():
        for number in range(50):
            look.add(STREAM, b"%d" % number)
            await asyncio.sleep(0.005)
        await eventually(lambda: len(service.runs) == 100)
    late = sorted(
        given.at - decided[given.text] - 0.5 - int(given.text) * 0.01
        for given in service.runs
        if given.attempt == 2
    )
    print(f"{kind}: median {statistics.median(late) * 1e3:.1f} ms late, {late[-1] * 1e3:.1f} most")
    assert late[0] >= 0
    assert late[-1] < LATENESS, late


@pytest.mark.case("TH-09")
@pytest.mark.parametrize("kind", ["timer", "zset"])
def test_no_delay_is_early_on_the_loop_of_the_command_line(look: Look, kind: str) -> None:
    """uvloop tells the time in whole milliseconds, and its timers take them at their word."""
    decided: dict[str, float] = {}

    def decide(given: Given) -> Outcome:
        if given.attempt > 1:
            return ack()
        decided[given.text] = time.time()
        return retry_after(0.1)

    async def run() -> None:
        service = Service(look.url)
        stream = zset() if kind == "zset" else source()
        service.on(stream, decide, max_attempts=3, dead_letter=DEAD)
        async with service.running():
            for number in range(150):
                look.add(STREAM, b"%d" % number)
                # Not in step with the clock's milliseconds.
                await asyncio.sleep(0.0013)
            await eventually(lambda: len(service.runs) == 300)
        early = [
            decided[given.text] + 0.1 - given.at
            for given in service.runs
            if given.attempt == 2 and given.at < decided[given.text] + 0.1
        ]
        assert not early, f"{len(early)} of 150, by up to {max(early) * 1000:.2f} ms"

    uvloop.run(run())


@pytest.mark.case("DU-03")
@pytest.mark.rule("6.5")
def test_eight_processes_promote_each_of_1000_due_entries_once(
    start: StartChild, look: Look
) -> None:
    now = time.time() * 1000
    members = {
        parked_member(b"%d" % number, b"%d" % number, ruststream_retry_count="1"): now - number
        for number in range(1000)
    }
    look.redis.zadd(DELAYED, members)
    children = [start(HANDLE, url=look.url, delays=DELAYED) for _ in range(8)]

    until(lambda: len(look.journal()) >= 1000, why=lambda: [child.log for child in children])
    until(lambda: not look.pending(STREAM, GROUP) and not look.unread(STREAM))
    assert [child.stop() for child in children] == [0] * 8

    runs = look.journal()
    assert Counter(run["text"] for run in runs) == {str(number): 1 for number in range(1000)}
    assert {run["attempt"] for run in runs} == {2}
    assert look.redis.xinfo_stream(STREAM)["entries-added"] == 1000
    assert look.parked(DELAYED) == 0


@pytest.mark.case("CK-02")
@pytest.mark.rule("6.5")
async def test_what_is_not_due_is_left_where_it_is(look: Look) -> None:
    now = time.time() * 1000
    dues = {
        f"{number}": now + (number * 300 if number < 5 else 3_600_000 + number)
        for number in range(100)
    }
    look.redis.zadd(
        DELAYED, {parked_member(text.encode(), text.encode()): due for text, due in dues.items()}
    )
    service = Service(look.url).on(zset(), workers=4)
    busy = True

    async def load() -> None:
        while busy:
            look.add(STREAM, b"load")
            await asyncio.sleep(0.01)

    async with service.running():
        loading = asyncio.create_task(load())
        before = written(look)
        await eventually(lambda: len([one for one in service.texts() if one != "load"]) == 5)
        await asyncio.sleep(1)
        busy = False
        await loading

        assert written(look) - before == 5  # five ZREM, and nothing put back
        assert look.parked(DELAYED) == 95
    for given in service.runs:
        if given.text != "load":
            assert given.at * 1000 >= dues[given.text]


def written(look: Look) -> int:
    """How many commands have changed a sorted set."""
    stats = look.redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("zadd", "zrem"))


@pytest.mark.case("OS-04")
async def test_overdue_entries_come_back_in_due_order(look: Look) -> None:
    def decide(given: Given) -> Outcome:
        return retry_after(float(given.text)) if given.attempt == 1 else ack()

    first = Service(look.url).on(zset(), decide, max_attempts=3, dead_letter=DEAD)
    async with first.running():
        for delay in (b"1.0", b"0.8", b"0.9"):
            look.add(STREAM, delay)
        await eventually(lambda: look.parked(DELAYED) == 3)
    await asyncio.sleep(1.1)
    assert look.parked(DELAYED) == 3

    second = Service(look.url).on(zset(), decide, max_attempts=3, dead_letter=DEAD)
    async with second.running():
        await eventually(lambda: len(second.runs) == 3)
    assert second.texts() == ["0.8", "0.9", "1.0"]


@pytest.mark.case("OS-04")
async def test_entries_due_at_the_same_time_come_back_in_the_order_of_their_ids(look: Look) -> None:
    service = Service(look.url).on(zset(), once_later(60), max_attempts=3, dead_letter=DEAD)
    async with service.running():
        for number in range(20):
            look.add(STREAM, b"%d" % number)
        await eventually(lambda: look.parked(DELAYED) == 20)
        due = int(time.time() * 1000) + 100
        members = [member for member, _ in look.redis.zrange(DELAYED, 0, -1, withscores=True)]
        look.redis.zadd(DELAYED, dict.fromkeys(members, due), xx=True)
        await eventually(lambda: len(service.runs) == 40)
    assert service.texts()[20:] == [str(number) for number in range(20)]


@pytest.mark.case("OS-05")
def test_an_idle_process_promotes_for_one_that_hangs(start: StartChild, look: Look) -> None:
    """The one that parked is stopped in the middle of a handler; another one is idle."""
    busy = start(HANDLE, url=look.url, delays=DELAYED, later={"due": 1.0})
    look.add(STREAM, b"due")
    until(lambda: look.parked(DELAYED) == 1, why=lambda: busy.log)
    ((_, due),) = look.redis.zrange(DELAYED, 0, -1, withscores=True)
    busy.pause()
    start(HANDLE, url=look.url, delays=DELAYED)

    until(lambda: len(look.journal()) == 2)
    run = look.journal()[1]
    assert run["text"] == "due"
    assert run["attempt"] == 2
    assert due / 1000 <= run["at"] <= due / 1000 + 0.2 + LATENESS
    busy.resume()


@pytest.mark.case("CK-13")
async def test_waiting_delays_can_be_seen_moved_and_cancelled(look: Look) -> None:
    service = Service(look.url).on(zset(), once_later(1.0), max_attempts=3, dead_letter=DEAD)
    async with service.running():
        before = time.time() * 1000
        for text in (b"moved", b"removed", b"left"):
            look.add(STREAM, text)
        await eventually(lambda: look.parked(DELAYED) == 3)
        after = time.time() * 1000
        waiting = look.redis.zrange(DELAYED, 0, -1, withscores=True)
        assert all(before + 1000 <= due <= after + 1001 for _, due in waiting)
        members = {member[member.index(b"tasks/g") + 7 :]: member for member, _ in waiting}
        look.redis.zrem(DELAYED, members[b"removed"])
        sooner = int(time.time() * 1000) + 300
        look.redis.zadd(DELAYED, {members[b"moved"]: sooner}, xx=True)

        await eventually(lambda: len(service.runs) == 5)
        await asyncio.sleep(0.3)
    again = {given.text: given.at * 1000 for given in service.runs[3:]}
    assert set(again) == {"moved", "left"}
    assert sooner <= again["moved"] <= sooner + 200 + LATENESS * 1000
    assert again["left"] >= before + 1000


@pytest.mark.case("CK-13", "ML-06")
@pytest.mark.rule("6.5")
async def test_a_delay_that_is_moved_beyond_ttl_is_not_lost(look: Look) -> None:
    """The set expires with its last due member, wherever that was moved."""
    service = Service(look.url)
    delays = DurableZset(DELAYED, ttl=0.5)
    service.on(source(delayed_retry=delays), once_later(1.0), max_attempts=3, dead_letter=DEAD)
    async with service.running():
        look.add(STREAM, b"x")
        await eventually(lambda: look.parked(DELAYED) == 1)
        ((member, due),) = look.redis.zrange(DELAYED, 0, -1, withscores=True)
        look.redis.zadd(DELAYED, {member: due + 1500}, xx=True)
        await eventually(lambda: service.attempts() == [1, 2], within=5)
    assert service.runs[1].at * 1000 >= due + 1500


@pytest.mark.case("ML-06")
@pytest.mark.rule("6.5")
async def test_a_delay_longer_than_ttl_comes_back(look: Look) -> None:
    service = Service(look.url)
    delays = DurableZset(DELAYED, ttl=0.5)
    service.on(source(delayed_retry=delays), once_later(1.5), max_attempts=3, dead_letter=DEAD)
    async with service.running():
        look.add(STREAM, b"x")
        await eventually(lambda: look.parked(DELAYED) == 1)
        assert 1500 < look.redis.pttl(DELAYED) <= 2001
        await eventually(lambda: service.attempts() == [1, 2])
    assert service.runs[1].at - service.runs[0].at >= 1.5


@pytest.mark.case("SD-09")
class TestDelaysOutlive:
    def test_the_process_that_parked_them(self, start: StartChild, look: Look) -> None:
        first = start(HANDLE, url=look.url, delays=DELAYED, later={"x": 0.5})
        look.add(STREAM, b"x")
        until(lambda: look.parked(DELAYED) == 1, why=lambda: first.log)
        first.kill()
        time.sleep(0.8)
        before = time.time()
        start(HANDLE, url=look.url, delays=DELAYED)

        until(lambda: len(look.journal()) == 2)
        assert [run["attempt"] for run in look.journal()] == [1, 2]
        assert look.journal()[1]["at"] - before < 5

    async def test_the_server_that_keeps_them(
        self, start_redis: StartRedis, look_at: LookAt
    ) -> None:
        # With everysec a kill may take up to two seconds of answered writes with it.
        server = start_redis(appendonly=True, args=("--appendfsync", "always"))
        look = look_at(server.url)
        service = Service(look.url).on(zset(), once_later(1.0), max_attempts=3, dead_letter=DEAD)
        async with service.running():
            look.add(STREAM, b"x")
            await eventually(lambda: look.parked(DELAYED) == 1)
            ((_, due),) = look.redis.zrange(DELAYED, 0, -1, withscores=True)
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.restart)
            await eventually(lambda: service.attempts() == [1, 2])
            await eventually(lambda: not look.pending(STREAM, GROUP))
        assert due / 1000 <= service.runs[1].at <= due / 1000 + 1


@pytest.mark.case("CK-09")
@pytest.mark.parametrize("delay", [1.5, timedelta(milliseconds=1500), 2])
async def test_delays_keep_their_fractions(look: Look, delay: float | timedelta) -> None:
    service = Service(look.url)
    service.on(zset(), lambda _: retry_after(delay), max_attempts=2, dead_letter=DEAD)
    async with service.running():
        before = time.time() * 1000
        look.add(STREAM, b"x")
        await eventually(lambda: look.parked(DELAYED) == 1)
        after = time.time() * 1000
        ((_, due),) = look.redis.zrange(DELAYED, 0, -1, withscores=True)
    milliseconds = timedelta(seconds=delay) if isinstance(delay, int | float) else delay
    span = milliseconds / timedelta(milliseconds=1)
    assert before + span <= due <= after + span + 1


@pytest.mark.case("CK-08", "CK-09")
@pytest.mark.parametrize("kind", ["timer", "zset"])
async def test_a_delay_below_a_millisecond_is_one_and_counts(look: Look, kind: str) -> None:
    service = Service(look.url)
    stream = zset() if kind == "zset" else source()
    service.on(stream, lambda _: retry_after(0.0005), max_attempts=9, dead_letter=DEAD)
    async with service.running():
        look.add(STREAM, b"x")
        await eventually(lambda: look.length(DEAD) == 1)
    assert service.attempts() == list(range(1, 10))
    assert min(b.at - a.at for a, b in pairwise(service.runs)) >= 0.0005


@pytest.mark.case("CK-09")
async def test_other_spans_keep_their_fractions_too(look: Look) -> None:
    half = timedelta(milliseconds=1500)
    service = Service(look.url)
    delays = DurableZset(DELAYED, ttl=half)
    kind = source(block=half, recover_after=half, delayed_retry=delays)
    with look.redis.monitor() as monitor:
        service.on(kind, once_later(1.5), max_attempts=2, dead_letter=DEAD)
        async with service.running():
            look.add(STREAM, b"x")
            await eventually(lambda: look.parked(DELAYED) == 1)
            assert 2900 < look.redis.pttl(DELAYED) <= 3001
        look.redis.set("end", "of it")
        commands = []
        while not commands or "SET end" not in commands[-1]:
            commands.append(monitor.next_command()["command"])
    assert any("BLOCK 1500" in one for one in commands if one.startswith("XREADGROUP"))
    assert any("IDLE 1500" in one for one in commands if one.startswith("XPENDING"))


@pytest.mark.case("CK-12")
@pytest.mark.rule("6.5")
@pytest.mark.parametrize("skew", [120.0, -120.0])
def test_a_host_whose_clock_is_wrong_parks_for_the_right_time(
    start: StartChild, look: Look, skew: float
) -> None:
    """One clock decides: the server's."""
    settings = {"url": look.url, "delays": DELAYED, "later": {"x": 0.5}}
    wrong, right = start(HANDLE, skew=skew, **settings), start(HANDLE, **settings)
    published = 0
    while published < 200 and not {wrong.pid, right.pid} <= {run["pid"] for run in look.journal()}:
        look.add(STREAM, b"x")
        published += 1
        time.sleep(0.03)

    until(lambda: len(look.journal()) == published * 2, why=lambda: (wrong.log, right.log))
    until(lambda: look.at_rest(STREAM, (GROUP,), DELAYED))
    runs = look.journal()
    firsts = sorted(run["at"] for run in runs if run["attempt"] == 1)
    seconds = sorted(run["at"] for run in runs if run["attempt"] == 2)
    late = [after - before - 0.5 for before, after in zip(firsts, seconds, strict=True)]
    assert min(late) >= 0
    assert max(late) < LATENESS
