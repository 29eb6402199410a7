"""A link that is kept open: what it waits for, and what it says (rule 7.5)."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surestream.errors import ConnectFailed, ConnectionLost, ConnectRefused
from surestream.redis.address import RedisAddress
from surestream.redis.driver import connection_factory, pack
from surestream.redis.in_process import InProcessRedis
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.script import Script
from surestream.testing import paused_clock
from tests.unit.redis.stub_server import StubServer, echo

pytestmark = pytest.mark.rule("7.5")


def to_stub(server: StubServer, **options: Any) -> ReconnectingLink:
    address = RedisAddress.parse(server.url)
    return ReconnectingLink(
        connection_factory(address),
        name="surestream-test",
        display=address.display,
        random=random.Random(1),
        **options,
    )


def to_model(server: InProcessRedis, **options: Any) -> ReconnectingLink:
    return ReconnectingLink(
        server.connection_factory(),
        name="surestream-test",
        display="redis://test",
        random=random.Random(1),
        ping_every=None,
        **options,
    )


@asynccontextmanager
async def kept(link: ReconnectingLink) -> AsyncIterator[ReconnectingLink]:
    await link.open(5)
    try:
        yield link
    finally:
        await link.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what a server at the other end of a socket brings about."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - it has no event for this
            await asyncio.sleep(0.005)


async def test_it_is_opened_again_after_each_loss() -> None:
    ups: list[int] = []

    async with StubServer() as server:
        link = to_stub(server)
        link.on_up(lambda: ups.append(link.generation))
        async with kept(link):
            for generation in (1, 2, 3):
                assert link.up
                assert link.generation == generation
                assert await link.call("ECHO", "a") == b"a"
                server.cut()
                await until(lambda: link.generation > len(ups) - 1 and not link.up)
                await link.ready()

            assert await (await link.ready()).call("ECHO", "b") == b"b"
            assert ups == [1, 2, 3, 4]
            assert server.accepted == 4


async def test_commands_fail_at_once_while_it_is_down() -> None:
    with paused_clock() as clock:
        server = InProcessRedis()
        async with kept(to_model(server)) as link:
            server.stop()
            await clock.settle()

            assert not link.up
            assert link.client_id is None
            for future in (
                link.call("GET", "a"),
                link.call_packed(pack("GET", "a"), 1),
                link.script(Script("x", b"return 1"), []),
            ):
                assert future.done()
                with pytest.raises(ConnectionLost, match="not connected; this command was not"):
                    await future


async def test_a_waiter_gets_the_new_link() -> None:
    with paused_clock() as clock:
        server = InProcessRedis()
        async with kept(to_model(server)) as link:
            server.stop()
            await clock.settle()
            waiter = asyncio.create_task(link.ready())
            impatient = asyncio.create_task(link.ready())
            await clock.advance(60)
            assert not waiter.done()
            impatient.cancel()

            server.start()
            await clock.advance(5)

            assert waiter.done()
            assert link.up
            assert await waiter.result().call("PING") == b"PONG"


async def test_the_tries_grow_apart_and_are_spread() -> None:
    tries: list[float] = []

    with paused_clock() as clock:
        server = InProcessRedis()
        make = server.connection_factory()

        def connect() -> Any:
            tries.append(clock.seconds)
            return make()

        link = ReconnectingLink(
            connect,
            name="surestream-test",
            display="redis://test",
            random=random.Random(7),
            ping_every=None,
        )
        async with kept(link):
            await clock.advance(10)
            tries.clear()
            server.stop()
            begun = clock.seconds
            await clock.advance(60)
            waits = [b - a for a, b in zip([begun, *tries], tries, strict=False)]

            expected = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
            for wait, limit in zip(waits, expected, strict=False):
                assert limit / 2 <= wait <= limit + 0.001
            assert len(set(waits[7:])) > 1  # not in step with others

            server.start()
            await clock.advance(10)
            tries.clear()
            server.stop()
            await clock.advance(0.06)
            assert len(tries) >= 1  # it begins at 50 ms again


async def test_a_server_that_accepts_and_refuses_is_not_hammered() -> None:
    with paused_clock() as clock:
        server = InProcessRedis()
        link = to_model(server)
        link.on_up(lambda: asyncio.get_running_loop().call_later(0.01, server.drop_connections))
        async with kept(link):
            await clock.advance(60)

            assert link.generation < 30


@pytest.mark.case("CL-01", "RC-07")
async def test_an_unready_server_is_waited_for() -> None:
    refusing = b"-READONLY You can't write against a read only replica.\r\n"
    state = {"refuse": True, "loading": False}

    def answer(command: list[bytes]) -> bytes:
        if state["loading"]:
            return b"-LOADING Redis is loading\r\n"
        if command[0] in (b"CLIENT", b"PING"):
            return b"+PONG\r\n"
        return refusing if state["refuse"] else echo(command)

    async with StubServer(answer, greet=False) as server, kept(to_stub(server)) as link:
        with pytest.raises(ConnectionLost, match="READONLY"):
            await link.call("XADD", "a")
        state.update(refuse=False, loading=True)
        await until(lambda: server.accepted >= 3)
        assert not link.up
        state["loading"] = False

        assert await (await link.ready()).call("XADD", "a") == b"a"


# ── the first opening ───────────────────────────────────────────────────────


async def test_the_first_opening_waits_for_a_server_that_is_down() -> None:
    with paused_clock() as clock:
        server = InProcessRedis()
        server.stop()
        link = to_model(server)
        opening = asyncio.create_task(link.open(30))
        await clock.advance(20)
        assert not opening.done()

        server.start()
        await clock.advance(6)

        await opening
        assert link.up
        await link.close()


class Fading:
    """A connection that fails at the first try and is silent at the next ones."""

    tries = 0

    async def connect(self) -> None:
        Fading.tries += 1
        if Fading.tries == 1:
            raise OSError("host unknown")
        await asyncio.get_running_loop().create_future()

    async def send_packed_command(self, command: object, check_health: bool = False) -> None: ...
    async def read_response(self, *args: object, **options: object) -> object: ...
    async def disconnect(self, nowait: bool = False) -> None: ...


async def test_a_last_try_cut_short_does_not_hide_the_reason() -> None:
    with paused_clock() as clock:
        Fading.tries = 0
        link = ReconnectingLink(
            Fading, name="surestream-test", display="redis://test", random=random.Random(1)
        )
        opening = asyncio.create_task(link.open(1))
        await clock.advance(1.1)

        assert Fading.tries == 2
        with pytest.raises(ConnectFailed, match=r"host unknown \(tried for 1 s\)"):
            await opening


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
async def test_an_unknown_host_is_told(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*args: object, **options: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    address = RedisAddress.parse(f"{scheme}://nowhere.invalid")
    link = ReconnectingLink(
        connection_factory(address),
        name="surestream-test",
        display=address.display,
        random=random.Random(1),
    )

    told = "host 'nowhere.invalid' cannot be resolved: Name or service not known"
    with pytest.raises(ConnectFailed, match=told):
        await link.open(0.01)


async def test_the_first_opening_gives_up_when_its_time_is_over() -> None:
    with paused_clock() as clock:
        server = InProcessRedis()
        server.stop()
        link = to_model(server)
        opening = asyncio.create_task(link.open(30))

        await clock.advance(30.1)

        with pytest.raises(ConnectFailed, match=r"redis://test.*is stopped.*tried for 30 s"):
            await opening
        await link.close()


async def test_the_first_opening_gives_up_at_once_where_it_is_refused() -> None:
    def answer(command: list[bytes]) -> bytes:
        return b"-WRONGPASS invalid username-password pair\r\n"

    async with StubServer(answer, greet=False) as server:
        link = ReconnectingLink(
            connection_factory(RedisAddress.parse(server.url, password="s3cret")),
            name="surestream-test",
            display="redis://test",
            random=random.Random(1),
        )

        with pytest.raises(ConnectRefused, match="WRONGPASS") as refused:
            await link.open(30)

        assert "s3cret" not in str(refused.value)
        assert server.accepted == 1
        await link.close()


# ── the end ─────────────────────────────────────────────────────────────────


async def test_closing_ends_waiters_and_commands() -> None:
    async with StubServer(lambda command: None) as server:
        link = to_stub(server)
        await link.open()
        command = link.call("ECHO", "a")

        await link.close()
        await link.close()

        for waiting in (command, link.ready(), link.call("ECHO", "b")):
            with pytest.raises(ConnectionLost):
                await waiting
        assert not link.up


async def test_closing_while_it_is_down_ends_the_tries() -> None:
    with paused_clock() as clock:
        server = InProcessRedis()
        link = to_model(server)
        await link.open()
        server.stop()
        await clock.advance(1)
        waiter = asyncio.create_task(link.ready())
        await clock.settle()

        await link.close()

        with pytest.raises(ConnectionLost, match="closed"):
            await waiter
        server.start()
        await clock.advance(60)
        assert link.generation == 1


# ── what it says ────────────────────────────────────────────────────────────


@pytest.mark.case("SE-02")
async def test_it_says_little_and_nothing_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "surestream.redis")

    with paused_clock() as clock:
        server = InProcessRedis()
        async with kept(to_model(server)) as link:
            server.stop()
            await clock.advance(10)
            server.start()
            await clock.advance(10)
            assert link.up

    lines = [record.getMessage() for record in caplog.records]
    assert sum("connection lost" in line for line in lines) == 1
    assert sum("trying again" in line for line in lines) <= 2 * 10
    assert lines[-1] == "connected again to redis://test"


async def test_a_flapping_server_makes_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    with paused_clock() as clock:
        server = InProcessRedis()
        async with kept(to_model(server)):
            for _ in range(200):
                server.drop_connections()
                await clock.advance(0.05)

    assert sum("connection lost" in record.getMessage() for record in caplog.records) <= 20


async def test_a_callback_that_fails_hinders_nothing(caplog: pytest.LogCaptureFixture) -> None:
    called: list[str] = []

    def fail() -> None:
        raise RuntimeError("boom")

    async with StubServer() as server:
        link = to_stub(server)
        link.on_up(fail)
        link.on_up(lambda: called.append("after"))
        async with kept(link):
            assert link.up

    assert called == ["after"]
    assert "boom" in caplog.text
