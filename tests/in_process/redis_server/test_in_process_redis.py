"""The Redis inside this process, under a paused clock (rules 8.1, 8.2)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import fakeredis
import pytest

from surestream.clock import wall_time
from surestream.errors import ConnectionLost
from surestream.redis.driver import pack
from surestream.redis.errors import NoGroup, RedisRefusal, Unblocked
from surestream.redis.in_process import InProcessRedis
from surestream.redis.link import Link
from surestream.redis.script import Script
from surestream.testing import PausedClock, paused_clock

pytestmark = pytest.mark.rule("8.1", "8.2")

Connect = Callable[[], Any]


@pytest.fixture
async def clock() -> AsyncIterator[PausedClock]:
    with paused_clock() as clock:
        yield clock


@pytest.fixture
async def server(clock: PausedClock) -> InProcessRedis:
    return InProcessRedis()


@pytest.fixture
async def connect(server: InProcessRedis) -> AsyncIterator[Connect]:
    links: list[Link] = []

    async def open_link(database: int = 0) -> Link:
        link = Link(server.connection_factory(database), name="surestream-test")
        links.append(link)
        await link.open()
        return link

    yield open_link
    for link in links:
        await link.close()


async def read(link: Link, consumer: str = "c", *, block: int = 5000, start: str = ">") -> Any:
    return await link.call(
        "XREADGROUP", "GROUP", "g", consumer, "COUNT", 10, "BLOCK", block, "STREAMS", "s", start
    )


async def with_group(link: Link) -> Link:
    await link.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    return link


# ── the clock ───────────────────────────────────────────────────────────────


async def test_ids_idle_times_and_scripts_follow_the_paused_clock(
    clock: PausedClock, connect: Connect
) -> None:
    link = await with_group(await connect())
    first = await link.call("XADD", "s", "*", "a", "1")
    begun = int(first.partition(b"-")[0])
    assert begun == pytest.approx(wall_time() * 1000, abs=1)
    await read(link)

    await clock.advance(30)

    second = await link.call("XADD", "s", "*", "a", "2")
    assert int(second.partition(b"-")[0]) == begun + 30_000
    assert await link.call("XPENDING", "s", "g", "-", "+", 10) == [[first, b"c", 30_000, 1]]
    seconds, micros = await link.call("EVAL", "return redis.call('TIME')", 0)
    assert int(seconds) * 1000 + int(micros) // 1000 == begun + 30_000


async def test_an_entry_is_claimable_at_the_very_millisecond(
    clock: PausedClock, connect: Connect
) -> None:
    link = await with_group(await connect())
    for number in range(50):
        await clock.advance(0.1)
        added = await link.call("XADD", "s", f"{number + 1}-1", "a", "1")
        await read(link)

        await clock.advance(29.999)
        early = await link.call("XCLAIM", "s", "g", "other", 30_000, added, "JUSTID")
        rows = await link.call("XPENDING", "s", "g", "IDLE", 30_000, "-", "+", 10)
        assert (early, rows) == ([], [])

        await clock.advance(0.001)
        rows = await link.call("XPENDING", "s", "g", "IDLE", 30_000, "-", "+", 10)
        assert [row[0] for row in rows] == [added]
        claimed = await link.call("XCLAIM", "s", "g", "other", 30_000, added, "JUSTID")
        assert claimed == [added]
        await link.call("XACK", "s", "g", added)


async def test_a_key_expires_when_virtual_time_says_so(
    clock: PausedClock, connect: Connect
) -> None:
    link = await connect()
    await link.call("ZADD", "z", 1, "a")
    await link.call("PEXPIREAT", "z", int(wall_time() * 1000) + 60_000)

    await clock.advance(59)
    assert await link.call("TYPE", "z") == b"zset"
    await clock.advance(2)
    assert await link.call("TYPE", "z") == b"none"


async def test_a_blocking_read_ends_when_virtual_time_says_so(
    clock: PausedClock, connect: Connect
) -> None:
    link = await with_group(await connect())
    reading = asyncio.create_task(read(link, block=5000))

    await clock.advance(4.9)
    assert not reading.done()
    await clock.advance(0.2)
    assert reading.done()
    assert await reading is None


async def test_others_in_this_process_keep_the_real_time(
    clock: PausedClock, connect: Connect
) -> None:
    await clock.advance(1_000_000)
    other = fakeredis.FakeRedis()

    def add() -> Any:
        return other.xadd("s", {"a": "1"})

    added = await asyncio.to_thread(add)

    assert int(added.partition(b"-")[0]) == pytest.approx(time.time() * 1000, abs=60_000)


# ── blocking reads ──────────────────────────────────────────────────────────


async def test_whoever_waited_first_is_served_first(clock: PausedClock, connect: Connect) -> None:
    writer = await with_group(await connect())
    readings: list[asyncio.Task[Any]] = []
    for number in range(20):
        readings.append(asyncio.create_task(read(await connect(), f"c{number}", block=0)))
        await clock.settle()

    for number in range(20):
        await writer.call("XADD", "s", f"{number + 1}-1", "a", "1")

    got = [(await reading)[0][1][0][0] for reading in readings]
    assert got == [b"%d-1" % (number + 1) for number in range(20)]


async def test_a_client_that_left_takes_nothing(clock: PausedClock, connect: Connect) -> None:
    writer = await with_group(await connect())
    gone = await connect()
    reading = asyncio.create_task(read(gone, block=0))
    await clock.settle()

    await gone.close()
    await writer.call("XADD", "s", "1-1", "a", "1")

    with pytest.raises(ConnectionLost):
        await reading
    assert (await writer.call("XPENDING", "s", "g"))[0] == 0


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (("DEL", "s"), Unblocked),
        (("FLUSHALL",), Unblocked),
        (("SET", "s", "x"), Unblocked),
        (("XGROUP", "DESTROY", "s", "g"), NoGroup),
    ],
)
async def test_a_read_ends_with_its_stream_or_group(
    end: tuple[str, ...], kind: type[Exception], clock: PausedClock, connect: Connect
) -> None:
    other = await with_group(await connect())
    reading = asyncio.create_task(read(await connect(), block=0))
    await clock.settle()

    await other.call(*end)

    with pytest.raises(kind):
        await reading


async def test_a_read_is_unblocked_and_its_link_goes_on(
    clock: PausedClock, connect: Connect
) -> None:
    other = await with_group(await connect())
    reader = await connect()
    reading = asyncio.create_task(read(reader, block=0))
    await clock.settle()
    behind = reader.call("ECHO", "later")
    await clock.settle()
    assert not behind.done()

    assert await other.call("CLIENT", "UNBLOCK", reader.client_id) == 1

    assert await reading is None
    assert await behind == b"later"
    assert await other.call("CLIENT", "UNBLOCK", reader.client_id) == 0


async def test_nobody_blocks_inside_a_script(connect: Connect) -> None:
    link = await with_group(await connect())

    with pytest.raises(RedisRefusal, match="BLOCK"):
        await link.call(
            "EVAL",
            "return redis.call('XREADGROUP','GROUP','g','c','BLOCK','0','STREAMS','s','>')",
            0,
        )
    assert await link.call("PING") == b"PONG"


# ── several servers, databases and links ────────────────────────────────────


async def test_servers_and_databases_are_apart(connect: Connect) -> None:
    first, second = await connect(), await connect(1)
    elsewhere = Link(InProcessRedis().connection_factory(), name="surestream-test")
    await elsewhere.open()

    await first.call("SET", "k", "v")

    assert await second.call("GET", "k") is None
    assert await elsewhere.call("GET", "k") is None
    assert await (await connect()).call("GET", "k") == b"v"
    await elsewhere.close()


async def test_a_large_pipeline_is_quick_and_in_order(connect: Connect) -> None:
    link = await connect()
    packed = b"".join(pack("ECHO", str(number) * 50) for number in range(5000))

    replies = await asyncio.wait_for(link.call_packed(packed, 5000), 10)

    assert replies == [(str(number) * 50).encode() for number in range(5000)]


async def test_scripts_are_kept_and_forgotten_like_the_servers(connect: Connect) -> None:
    link = await connect()
    script = Script("sum", b"return ARGV[1] + ARGV[2]")

    assert await link.script(script, [], [1, 2]) == 3
    assert await link.script(script, [], [2, 2]) == 4
    await link.call("SCRIPT", "FLUSH")
    assert await link.script(script, [], [2, 3]) == 5


async def test_a_name_that_a_script_does_not_declare_is_refused(connect: Connect) -> None:
    link = await connect()

    for source in ("return undeclared", "undeclared = 1"):
        with pytest.raises(RedisRefusal, match=r"global variable|readonly"):
            await link.call("EVAL", source, 0)
    assert await link.call("EVAL", "local declared = 1 return declared", 0) == 1


# ── outages ─────────────────────────────────────────────────────────────────


async def test_a_stopped_server_drops_everybody_and_takes_nobody(
    clock: PausedClock, server: InProcessRedis, connect: Connect
) -> None:
    link = await with_group(await connect())
    reading = asyncio.create_task(read(await connect(), block=0))
    await clock.settle()

    server.stop()
    await clock.settle()

    with pytest.raises(ConnectionLost):
        await reading
    assert link.closed
    with pytest.raises(ConnectionLost):
        await link.call("PING")
    assert not server.running


@pytest.mark.parametrize(("keep_data", "left"), [(True, b"v"), (False, None)])
async def test_it_comes_back_with_the_data_or_without(
    keep_data: bool, left: bytes | None, server: InProcessRedis, connect: Connect
) -> None:
    await (await connect()).call("SET", "k", "v")

    server.stop()
    server.start(keep_data=keep_data)

    assert await (await connect()).call("GET", "k") == left


async def test_connections_can_be_cut_while_it_goes_on(
    server: InProcessRedis, connect: Connect
) -> None:
    link = await connect()
    answered = link.call("SET", "k", "v")
    await answered

    server.drop_connections()

    with pytest.raises(ConnectionLost):
        await link.call("GET", "k")
    assert await (await connect()).call("GET", "k") == b"v"


async def test_a_killed_client_is_cut(clock: PausedClock, connect: Connect) -> None:
    other, victim = await connect(), await connect()

    assert await other.call("CLIENT", "KILL", "ID", victim.client_id) == 1
    await clock.settle()

    assert victim.closed
    assert not other.closed


# ── without it ──────────────────────────────────────────────────────────────


@pytest.fixture
def without_fakeredis(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("surestream.redis.in_process")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fakeredis", None)


def test_the_missing_extra_is_named(without_fakeredis: None) -> None:
    with pytest.raises(ImportError, match=r"pip install 'surestream\[testing\]'"):
        import surestream.redis.in_process  # noqa: F401
