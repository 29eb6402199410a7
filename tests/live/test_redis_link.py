"""The multiplexed connection against real servers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from surestream.errors import ConnectFailed, ConnectionLost, ConnectRefused
from surestream.redis.address import RedisAddress
from surestream.redis.driver import connection_factory, pack
from surestream.redis.errors import NoGroup, ReadOnly, Unblocked, WrongType
from surestream.redis.link import Link
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.script import Script
from tests.server_fixtures import StartRedis
from tests.servers import RedisServer


@asynccontextmanager
async def linked(url: str, **options: Any) -> AsyncIterator[Link]:
    address = RedisAddress.parse(url)
    link = Link(
        connection_factory(address), name="surestream-test", display=address.display, **options
    )
    await link.open()
    try:
        yield link
    finally:
        await link.close()


@asynccontextmanager
async def kept(url: str, **options: Any) -> AsyncIterator[ReconnectingLink]:
    address = RedisAddress.parse(url)
    link = ReconnectingLink(
        connection_factory(address),
        name="surestream-test",
        display=address.display,
        random=random.Random(1),
        **options,
    )
    await link.open(10)
    try:
        yield link
    finally:
        await link.close()


async def read(link: Link | ReconnectingLink, *, block: int = 5000) -> Any:
    return await link.call(
        *("XREADGROUP", "GROUP", "g", "c", "COUNT", 10, "BLOCK", block, "STREAMS", "s", ">"),
        deadline=block / 1000 + 5,
    )


# ── commands ────────────────────────────────────────────────────────────────


async def test_many_callers_share_one_connection(redis_url: str) -> None:
    async with linked(redis_url) as link:

        async def publish(number: int) -> None:
            for _ in range(50):
                await link.call("XADD", "s", "*", "n", number)

        await asyncio.gather(*(publish(number) for number in range(100)))

        assert await link.call("XLEN", "s") == 5000
        clients = await link.call("CLIENT", "LIST")
        assert isinstance(clients, bytes)
        assert clients.count(b"name=surestream-test") == 1
        assert f"id={link.client_id} ".encode() in clients


async def test_a_pipeline_of_many_megabytes(redis_url: str) -> None:
    payload = b"x" * 100_000

    async with linked(redis_url) as link:
        stored = [link.call("SET", f"k{number % 10}", payload) for number in range(500)]
        fetched = [link.call("GET", f"k{number % 10}") for number in range(500)]

        assert await asyncio.gather(*stored) == [b"OK"] * 500
        assert await asyncio.gather(*fetched) == [payload] * 500


@pytest.mark.case("HL-01")
async def test_a_key_of_another_type_is_refused_and_the_link_goes_on(redis_url: str) -> None:
    async with linked(redis_url) as link:
        await link.call("SET", "s", "x")

        for future in (link.call("XADD", "s", "*", "a", 1), link.call("XREAD", "STREAMS", "s", 0)):
            with pytest.raises(WrongType):
                await future
        batch = await link.call_packed(
            pack("XADD", "s", "*", "a", 1) + pack("DEL", "s") + pack("XADD", "s", "1-1", "a", 1), 3
        )

        assert isinstance(batch[0], WrongType)
        assert batch[1:] == [1, b"1-1"]


async def test_scripts_survive_the_servers_forgetting_them(redis_url: str) -> None:
    script = Script(
        "both", b"redis.call('XADD', KEYS[1], '*', 'n', ARGV[1]) return redis.call('XLEN', KEYS[1])"
    )

    async with linked(redis_url) as link:
        assert await link.script(script, ["s"], [1]) == 1
        assert await link.script(script, ["s"], [2]) == 2
        await link.call("SCRIPT", "FLUSH")
        lengths = await asyncio.gather(*(link.script(script, ["s"], [n]) for n in range(20)))
        assert sorted(lengths) == list(range(3, 23))

        await link.call("SET", "s", "x")
        with pytest.raises(WrongType):
            await link.script(script, ["s"], [1])


# ── blocking reads ──────────────────────────────────────────────────────────


async def test_a_blocking_read_is_ended_by_unblocking_it(redis_url: str) -> None:
    async with linked(redis_url) as reader, linked(redis_url) as other:
        await other.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        reading = asyncio.create_task(read(reader))
        assert reader.client_id is not None
        await asyncio.sleep(0.1)

        assert await other.call("CLIENT", "UNBLOCK", reader.client_id) == 1

        assert await asyncio.wait_for(reading, 5) is None
        assert await reader.call("PING") == b"PONG"


@pytest.mark.parametrize("end", [("DEL", "s"), ("XGROUP", "DESTROY", "s", "g")])
async def test_a_blocking_read_ends_with_its_stream_or_group(
    end: tuple[str, ...], redis_url: str
) -> None:
    async with linked(redis_url) as reader, linked(redis_url) as other:
        await other.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        reading = asyncio.create_task(read(reader, block=1500))
        await asyncio.sleep(0.1)

        await other.call(*end)

        # Each version says it in its own words, and 6.2 of a deleted stream: with nothing.
        with contextlib.suppress(NoGroup, Unblocked):
            assert await asyncio.wait_for(reading, 5) is None
        assert not reader.closed


@pytest.mark.case("RC-10")
async def test_a_blocking_read_outlives_the_pings(redis_url: str) -> None:
    async with linked(redis_url, ping_every=0.1, ping_timeout=0.1) as reader:
        await reader.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")

        assert await read(reader, block=600) is None
        assert not reader.closed


# ── who is let in ───────────────────────────────────────────────────────────


@pytest.mark.case("SE-02")
async def test_a_password_opens_and_a_wrong_one_is_refused(start_redis: StartRedis) -> None:
    server = await asyncio.to_thread(start_redis, password="pa/ss@")
    bare = f"redis://127.0.0.1:{server.port}"

    async with linked(f"redis://:pa%2Fss%40@127.0.0.1:{server.port}/3") as link:
        assert await link.call("PING") == b"PONG"
        info = await link.call("CLIENT", "INFO")
        assert isinstance(info, bytes)
        assert b" db=3 " in info

    for url, told in (
        (bare, "NOAUTH"),
        (f"redis://:wr%2Fng@127.0.0.1:{server.port}", "WRONGPASS"),
        (f"redis://some:pa%2Fss%40@127.0.0.1:{server.port}", "WRONGPASS"),
    ):
        with pytest.raises(ConnectRefused, match=told) as refused:
            async with linked(url):
                pass
        assert bare in str(refused.value)
        for secret in ("wr/ng", "wr%2Fng", "pa/ss"):
            assert secret not in str(refused.value)


async def test_a_database_that_does_not_exist_is_refused(redis_url: str) -> None:
    with pytest.raises(ConnectRefused, match="DB index is out of range"):
        async with linked(redis_url.removesuffix("/0") + "/99"):
            pass


async def test_a_user_with_few_rights_is_let_in(redis_url: str) -> None:
    async with linked(redis_url) as admin:
        await admin.call("ACL", "SETUSER", "few", "on", ">pw", "~s*", "+xadd")
        try:
            url = redis_url.replace("redis://", "redis://few:pw@")
            async with linked(url) as link:
                assert link.client_id is None
                assert await link.call("XADD", "s", "1-1", "a", 1) == b"1-1"
        finally:
            await admin.call("ACL", "DELUSER", "few")


async def test_a_unix_socket(start_redis: StartRedis, tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    server = await asyncio.to_thread(
        start_redis, password="pw", args=("--unixsocket", str(path), "--unixsocketperm", "700")
    )
    assert server.port

    async with linked(f"unix://:pw@{path}?db=2") as link:
        assert await link.call("SET", "k", "v") == b"OK"
    with pytest.raises(ConnectRefused, match="WRONGPASS"):
        async with linked(f"unix://:no@{path}"):
            pass
    with pytest.raises(ConnectFailed, match="missing"):
        async with linked(f"unix://{tmp_path}/missing.sock"):
            pass


# ── losing and finding it ───────────────────────────────────────────────────


async def test_a_killed_server_fails_what_is_outstanding(own_redis: RedisServer) -> None:
    async with linked(own_redis.url) as link:
        await link.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        reading = asyncio.create_task(read(link))
        await asyncio.sleep(0.1)

        await asyncio.to_thread(own_redis.kill)

        with pytest.raises(ConnectionLost, match="may or may not have run"):
            await asyncio.wait_for(reading, 5)
        assert link.closed


@pytest.mark.rule("7.5")
@pytest.mark.case("RC-06")
async def test_a_server_that_restarts_again_and_again_is_found_again(
    own_redis: RedisServer,
) -> None:
    async with kept(own_redis.url) as link:
        await link.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        before = len(asyncio.all_tasks())
        for _ in range(3):
            reading = asyncio.create_task(read(link))
            await asyncio.sleep(0.05)
            await asyncio.to_thread(own_redis.restart)
            with pytest.raises(ConnectionLost):
                await asyncio.wait_for(reading, 10)
            await asyncio.wait_for(link.ready(), 10)

        await link.call("XADD", "s", "1-1", "a", 1)

        assert (await read(link))[0][1][0][0] == b"1-1"
        assert link.generation == 4
        assert len(asyncio.all_tasks()) == before
        spent = time.process_time()
        await asyncio.sleep(0.5)
        assert time.process_time() - spent < 0.1


@pytest.mark.case("RC-08")
async def test_a_server_that_stands_still_is_given_up_and_found_again(
    own_redis: RedisServer,
) -> None:
    async with kept(own_redis.url, ping_every=0.2, ping_timeout=0.2, attempt_timeout=0.3) as link:
        await asyncio.to_thread(own_redis.pause)
        waiting = link.call("XADD", "s", "*", "a", 1)

        with pytest.raises(ConnectionLost, match="no sign of life"):
            await asyncio.wait_for(waiting, 10)

        await asyncio.to_thread(own_redis.resume)
        fresh = await asyncio.wait_for(link.ready(), 15)
        assert isinstance(await fresh.call("XADD", "s", "*", "a", 2), bytes)


@pytest.mark.case("CL-01")
async def test_a_primary_that_becomes_a_replica_is_left_and_asked_for_anew(
    own_redis: RedisServer, start_redis: StartRedis
) -> None:
    other = await asyncio.to_thread(start_redis)

    async with kept(own_redis.url) as link, linked(own_redis.url) as admin:
        await admin.call("CONFIG", "SET", "replica-serve-stale-data", "yes")
        await admin.call("REPLICAOF", "127.0.0.1", other.port)
        generation = link.generation

        with pytest.raises(ReadOnly):
            await link.call("XADD", "s", "*", "a", 1)

        await admin.call("REPLICAOF", "NO", "ONE")
        fresh = await asyncio.wait_for(link.ready(), 15)
        assert link.generation > generation
        assert isinstance(await fresh.call("XADD", "s", "*", "a", 1), bytes)


async def test_a_server_that_is_not_there_yet_is_waited_for(start_redis: StartRedis) -> None:
    server = await asyncio.to_thread(start_redis)
    await asyncio.to_thread(server.stop)
    opening = asyncio.ensure_future(open_and_ping(server.url))
    await asyncio.sleep(0.3)
    assert not opening.done()

    await asyncio.to_thread(server.start)

    assert await asyncio.wait_for(opening, 15) == b"PONG"


async def open_and_ping(url: str) -> Any:
    async with kept(url) as link:
        return await link.call("PING")
