"""The multiplexed connection, against a server that says what the test wants."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surestream.errors import ConnectFailed, ConnectionLost, ConnectRefused, SureStreamError
from surestream.redis.address import RedisAddress
from surestream.redis.driver import connection_factory, pack
from surestream.redis.errors import (
    NotAuthenticated,
    OutOfMemory,
    ReadOnly,
    RedisRefusal,
    ServerUnready,
    WrongType,
)
from surestream.redis.link import Link
from surestream.redis.script import Script
from tests.unit.redis.stub_server import StubServer, echo


@asynccontextmanager
async def linked(server: StubServer, **options: Any) -> AsyncIterator[Link]:
    address = RedisAddress.parse(server.url)
    link = Link(
        connection_factory(address), name="surestream-test", display=address.display, **options
    )
    await link.open()
    try:
        yield link
    finally:
        await link.close()


async def outcome(future: asyncio.Future[Any]) -> object:
    """The result, or the error that stands for it."""
    try:
        return await asyncio.wait_for(future, 5)
    except SureStreamError as error:
        return error


def commands(server: StubServer) -> list[list[bytes]]:
    """What the server received, without the link's greeting and pings."""
    return [
        command for command in server.received if command[0] not in (b"CLIENT", b"PING", b"AUTH")
    ]


# ── replies and their order ─────────────────────────────────────────────────


async def test_replies_come_to_the_commands_they_belong_to() -> None:
    async with StubServer() as server, linked(server) as link:
        futures = [link.call("ECHO", str(number)) for number in range(1000)]

        replies = await asyncio.gather(*futures)

    assert replies == [str(number).encode() for number in range(1000)]


async def test_commands_of_one_turn_leave_in_one_write() -> None:
    class Counting:
        """A connection of the driver that notes its writes."""

        def __init__(self) -> None:
            self.inner = connection_factory(RedisAddress.parse(server.url))()
            self.connect = self.inner.connect
            self.read_response = self.inner.read_response
            self.disconnect = self.inner.disconnect
            self.writes = 0

        async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            self.writes += 1
            await self.inner.send_packed_command(command, check_health)

    async with StubServer() as server:
        connection = Counting()
        link = Link(lambda: connection, name="surestream-test")
        await link.open()
        opening = connection.writes

        await asyncio.gather(*(link.call("ECHO", str(number)) for number in range(100)))

        await link.close()
        assert connection.writes == opening + 1


async def test_arguments_are_text_bytes_and_numbers() -> None:
    async with StubServer() as server, linked(server) as link:
        await link.call("XADD", b"\x00\xff", "ü", 17, 2.5)

        assert commands(server) == [[b"XADD", b"\x00\xff", "ü".encode(), b"17", b"2.5"]]
        with pytest.raises(TypeError):
            link.call("XADD", None)  # type: ignore[arg-type]
        assert link.outstanding == 0


async def test_a_cancelled_command_does_not_shift_the_others() -> None:
    async with StubServer() as server, linked(server) as link:
        first, second, third = (link.call("ECHO", name) for name in ("a", "b", "c"))
        second.cancel()

        assert await first == b"a"
        assert await third == b"c"
        assert await link.call("ECHO", "d") == b"d"

    assert [command[1] for command in commands(server)] == [b"a", b"b", b"c", b"d"]


async def test_a_caller_that_gives_up_while_waiting_does_not_shift_the_others() -> None:
    async with StubServer(lambda command: None) as server, linked(server) as link:
        waiting = asyncio.ensure_future(link.call("ECHO", "a"))
        later = link.call("ECHO", "b")
        await asyncio.sleep(0.02)
        waiting.cancel()
        server.answer = echo
        server.send(b"$1\r\na\r\n$1\r\nb\r\n")

        assert await later == b"b"
        assert await link.call("ECHO", "c") == b"c"


async def test_an_error_reply_is_raised_where_it_belongs() -> None:
    def answer(command: list[bytes]) -> bytes:
        return b"-WRONGTYPE Operation against a key\r\n" if command[1] == b"bad" else echo(command)

    async with StubServer(answer) as server, linked(server) as link:
        before, bad, after = (link.call("ECHO", name) for name in ("a", "bad", "b"))

        assert await before == b"a"
        with pytest.raises(WrongType):
            await bad
        assert await after == b"b"
        assert not link.closed


async def test_an_error_for_a_cancelled_command_is_dropped() -> None:
    def answer(command: list[bytes]) -> bytes:
        return b"-OOM full\r\n" if command[1] == b"bad" else echo(command)

    async with StubServer(answer) as server, linked(server) as link:
        bad, after = link.call("ECHO", "bad"), link.call("ECHO", "b")
        bad.cancel()

        assert await after == b"b"


async def test_nested_and_empty_replies_come_as_they_are() -> None:
    replies = iter([b"*-1\r\n", b"$-1\r\n", b"*2\r\n*1\r\n:5\r\n$0\r\n\r\n", b"*0\r\n", b"+OK\r\n"])

    async with StubServer(lambda command: next(replies)) as server, linked(server) as link:
        got = [await link.call("X") for _ in range(5)]

    assert got == [None, None, [[5], b""], [], b"OK"]


async def test_a_large_pipeline_keeps_its_order() -> None:
    payload = b"x" * 2000

    async with StubServer() as server, linked(server) as link:
        futures = [link.call("ECHO", payload, number) for number in range(10_000)]

        replies = await asyncio.wait_for(asyncio.gather(*futures), 20)

    assert replies == [b"%d" % number for number in range(10_000)]
    assert link.outstanding == 0


async def test_a_full_socket_keeps_the_order() -> None:
    payload = b"x" * 100_000

    async with StubServer() as server, linked(server) as link:
        server.deaf = True
        futures = [link.call("ECHO", payload, 0)]
        await asyncio.sleep(0.05)
        for number in range(1, 200):
            futures.append(link.call("ECHO", payload, number))
            if number % 50 == 0:
                await asyncio.sleep(0.01)
        assert not futures[-1].done()
        server.hear()

        replies = await asyncio.wait_for(asyncio.gather(*futures), 20)

    assert replies == [b"%d" % number for number in range(200)]


# ── batches ─────────────────────────────────────────────────────────────────


async def test_a_batch_has_one_future_and_errors_are_values_in_it() -> None:
    def answer(command: list[bytes]) -> bytes:
        return b"-OOM full\r\n" if command[1] == b"bad" else echo(command)

    async with StubServer(answer) as server, linked(server) as link:
        before = link.call("ECHO", "before")
        packed = b"".join(pack("ECHO", name) for name in ("a", "bad", "c"))
        batch = link.call_packed(packed, 3)
        after = link.call("ECHO", "after")
        assert link.outstanding == 5

        first, refused, third = await batch

        assert (first, third) == (b"a", b"c")
        assert isinstance(refused, OutOfMemory)
        assert (await before, await after) == (b"before", b"after")


async def test_a_cancelled_batch_does_not_shift_the_others() -> None:
    async with StubServer() as server, linked(server) as link:
        batch = link.call_packed(pack("ECHO", "a") + pack("ECHO", "b"), 2)
        after = link.call("ECHO", "c")
        batch.cancel()

        assert await after == b"c"


async def test_an_empty_batch_is_done() -> None:
    async with StubServer() as server, linked(server) as link:
        assert await link.call_packed(b"", 0) == []
        assert link.outstanding == 0


# ── scripts ─────────────────────────────────────────────────────────────────


async def test_a_script_is_sent_in_full_once_and_by_its_digest_from_then_on() -> None:
    script = Script("three", b"return 3")

    async with StubServer() as server, linked(server) as link:
        await asyncio.gather(*(link.script(script, ["k"], [number]) for number in (1, 2, 3)))

    assert [command[:2] for command in commands(server)] == [
        [b"EVAL", b"return 3"],
        [b"EVALSHA", script.digest],
        [b"EVALSHA", script.digest],
    ]
    assert [command[2:] for command in commands(server)] == [
        [b"1", b"k", b"%d" % number] for number in (1, 2, 3)
    ]


async def test_a_script_that_the_server_forgot_is_sent_again_in_full() -> None:
    script = Script("three", b"return 3")
    forgotten = True

    def answer(command: list[bytes]) -> bytes:
        if command[0] == b"EVALSHA" and forgotten:
            return b"-NOSCRIPT No matching script.\r\n"
        return b":3\r\n" if command[0].startswith(b"EVAL") else echo(command)

    async with StubServer(answer) as server, linked(server) as link:
        await link.script(script, [])
        again, other = link.script(script, ["k"], ["a"]), link.call("ECHO", "x")

        assert await other == b"x"
        assert await again == 3
        assert commands(server)[-1] == [b"EVAL", b"return 3", b"1", b"k", b"a"]


async def test_a_script_that_is_refused_raises() -> None:
    script = Script("three", b"return 3")
    refusals = iter([b"-WRONGTYPE in full\r\n", b"-OOM by digest\r\n"])

    async with StubServer(lambda command: next(refusals)) as server, linked(server) as link:
        with pytest.raises(WrongType):
            await link.script(script, [])
        with pytest.raises(OutOfMemory):
            await link.script(script, [])


async def test_a_script_in_a_batch() -> None:
    script = Script("three", b"return 3")

    async with StubServer() as server, linked(server) as link:
        await link.call_packed(link.pack_script(script, ["k"]) + link.pack_script(script, ["k"]), 2)

    assert [command[0] for command in commands(server)] == [b"EVAL", b"EVALSHA"]


# ── opening ─────────────────────────────────────────────────────────────────


async def test_the_connection_is_named_and_numbered() -> None:
    async with StubServer() as server, linked(server) as link:
        assert [b"CLIENT", b"SETNAME", b"surestream-test"] in server.received
        assert link.client_id == 7


async def test_an_access_list_without_client_and_ping_is_no_obstacle() -> None:
    def answer(command: list[bytes]) -> bytes:
        return b"-NOPERM no permissions\r\n" if command[0] != b"ECHO" else echo(command)

    async with StubServer(answer, greet=False) as server, linked(server) as link:
        assert link.client_id is None
        assert await link.call("ECHO", "a") == b"a"


async def open_link(url: str, timeout: float = 2.0) -> Link:
    address = RedisAddress.parse(url)
    link = Link(connection_factory(address), name="surestream-test", display=address.display)
    await link.open(timeout)
    return link


@pytest.mark.case("RC-07")
async def test_a_server_that_is_loading_is_not_ready() -> None:
    async with StubServer(lambda command: b"-LOADING Redis is loading\r\n", greet=False) as server:
        with pytest.raises(ConnectFailed, match="is not ready: LOADING Redis is loading") as failed:
            await open_link(server.url)

        assert not isinstance(failed.value, ConnectRefused)


@pytest.mark.case("SE-02")
@pytest.mark.parametrize(
    ("path", "answers", "told"),
    [
        ("", {b"PING": b"-NOAUTH Authentication required.\r\n"}, "NOAUTH"),
        ("", {b"CLIENT": b"-NOAUTH Authentication required.\r\n"}, "NOAUTH"),
        ("/9", {b"SELECT": b"-ERR DB index is out of range\r\n"}, "DB index is out of range"),
        ("", {b"AUTH": b"-WRONGPASS invalid username-password pair\r\n"}, "WRONGPASS"),
    ],
)
async def test_a_client_that_is_not_let_in_is_told_why(
    path: str, answers: dict[bytes, bytes], told: str
) -> None:
    async with StubServer(lambda c: answers.get(c[0], b"+OK\r\n"), greet=False) as server:
        url = f"redis://user:pa%2Fss@127.0.0.1:{server.port}{path}"

        with pytest.raises(ConnectRefused, match=told) as refused:
            await open_link(url)

    assert f"redis://127.0.0.1:{server.port}" in str(refused.value)
    assert "pa/ss" not in str(refused.value)
    assert refused.value.__cause__ is None


async def test_a_server_that_does_not_answer_fails_in_time() -> None:
    async with StubServer() as server:
        server.mute = True

        with pytest.raises(ConnectFailed, match="no answer in time"):
            await open_link(server.url, timeout=0.1)


async def test_a_server_that_hangs_up_fails() -> None:
    async with StubServer() as server:
        server.answer = lambda command: server.cut()
        server.greet = False

        with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1"):
            await open_link(server.url)


async def test_nobody_listening_fails() -> None:
    async with StubServer() as server:
        url = server.url

    with pytest.raises(ConnectFailed, match=r"redis://127\.0\.0\.1"):
        await open_link(url)


async def test_what_is_no_redis_fails() -> None:
    async with StubServer(lambda command: b"HTTP/1.1 400 Bad\r\n\r\n", greet=False) as server:
        with pytest.raises(ConnectFailed, match="Protocol error"):
            await open_link(server.url)


async def test_cancelled_opening_leaves_nothing_open() -> None:
    async with StubServer() as server:
        server.mute = True
        opening = asyncio.create_task(open_link(server.url))
        await asyncio.sleep(0.05)

        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

        gc.collect()  # An open socket would be a warning, and warnings are errors.


# ── losing it ───────────────────────────────────────────────────────────────


class Losses:
    """What ``on_lost`` was called with."""

    def __init__(self) -> None:
        self.reasons: list[ConnectionLost] = []
        self.event = asyncio.Event()

    def __call__(self, reason: ConnectionLost) -> None:
        self.reasons.append(reason)
        self.event.set()

    async def wait(self) -> ConnectionLost:
        await asyncio.wait_for(self.event.wait(), 5)
        return self.reasons[0]


async def test_a_lost_connection_fails_everything_outstanding_once() -> None:
    losses = Losses()

    async with StubServer(lambda command: None) as server, linked(server, on_lost=losses) as link:
        single = link.call("ECHO", "a")
        batch = link.call_packed(pack("ECHO", "b") + pack("ECHO", "c"), 2)
        script = link.script(Script("x", b"return 1"), [])
        cancelled = link.call("ECHO", "d")
        cancelled.cancel()
        await asyncio.sleep(0.02)
        server.cut()

        for future in (single, batch, script):
            with pytest.raises(ConnectionLost, match="may or may not have run"):
                await future
        assert link.closed
        assert link.outstanding == 0
        assert len(losses.reasons) == 1
        assert server.url in str(losses.reasons[0])


async def test_commands_on_a_lost_link_fail_at_once() -> None:
    losses = Losses()

    async with StubServer() as server, linked(server, on_lost=losses) as link:
        server.cut()
        await losses.wait()

        for future in (
            link.call("ECHO", "a"),
            link.call_packed(pack("ECHO", "a"), 1),
            link.script(Script("x", b"return 1"), []),
        ):
            assert future.done()
            with pytest.raises(ConnectionLost, match="was not sent"):
                await future
    assert commands(server) == []


async def test_a_connection_cut_in_the_middle_of_a_reply() -> None:
    losses = Losses()

    async with StubServer(lambda command: None) as server, linked(server, on_lost=losses) as link:
        first, second = link.call("ECHO", "a"), link.call("ECHO", "b")
        await asyncio.sleep(0.02)
        server.send(b"$1\r\na\r\n$1000\r\nbbbb")
        assert await first == b"a"
        server.cut()

        with pytest.raises(ConnectionLost):
            await second
        await losses.wait()


async def test_a_reply_that_nobody_asked_for_ends_the_link() -> None:
    losses = Losses()

    async with StubServer() as server, linked(server, on_lost=losses):
        server.send(b"+SURPRISE\r\n")

        assert "nothing had asked for" in str(await losses.wait())


async def test_bytes_that_are_no_reply_end_the_link() -> None:
    losses = Losses()

    async with (
        StubServer(lambda command: b"nonsense\r\n") as server,
        linked(server, on_lost=losses) as link,
    ):
        with pytest.raises(ConnectionLost, match="Protocol error"):
            await link.call("ECHO", "a")


@pytest.mark.case("CL-01", "RC-07")
@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"-READONLY You can't write against a read only replica.\r\n", ReadOnly),
        (b"-LOADING Redis is loading\r\n", ServerUnready),
        (b"-MASTERDOWN Link with MASTER is down\r\n", ServerUnready),
        (b"-NOAUTH Authentication required.\r\n", NotAuthenticated),
    ],
)
async def test_an_unready_server_ends_the_link(raw: bytes, kind: type[ServerUnready]) -> None:
    losses = Losses()
    answers = iter([raw])

    async with (
        StubServer(lambda command: next(answers, None)) as server,
        linked(server, on_lost=losses) as link,
    ):
        refused, behind = link.call("XADD", "s"), link.call("XADD", "s")

        assert type(await outcome(refused)) is kind
        assert type(await outcome(behind)) is ConnectionLost
        assert raw[1:-2].decode() in str(await losses.wait())


async def test_closing_fails_what_is_outstanding_and_reports_no_loss() -> None:
    losses = Losses()

    async with StubServer(lambda command: None) as server, linked(server, on_lost=losses) as link:
        waiting = link.call("ECHO", "a")

        await link.close()
        await link.close()

        with pytest.raises(ConnectionLost, match="the link was closed"):
            await waiting
    assert losses.reasons == []


async def test_closing_does_not_wait_for_a_socket_that_takes_nothing() -> None:
    async with StubServer() as server, linked(server) as link:
        server.deaf = True
        link.call("ECHO", "x")
        await asyncio.sleep(0.02)
        stuck = link.call("ECHO", b"x" * 30_000_000)
        await asyncio.sleep(0.05)

        await asyncio.wait_for(link.close(), 1)

        with pytest.raises(ConnectionLost):
            await stuck


async def test_tasks_that_are_cancelled_from_outside_leave_no_caller_waiting() -> None:
    async with StubServer(lambda command: None) as server, linked(server) as link:
        waiting = link.call("ECHO", "a")
        for task in asyncio.all_tasks():
            if "surestream-test" in task.get_name():
                task.cancel()

        with pytest.raises(ConnectionLost, match="torn down"):
            await asyncio.wait_for(waiting, 5)


# ── signs of life ───────────────────────────────────────────────────────────


@pytest.mark.case("RC-08")
async def test_a_silent_server_is_found_while_commands_wait() -> None:
    losses = Losses()

    async with (
        StubServer() as server,
        linked(server, on_lost=losses, ping_every=0.05, ping_timeout=0.05) as link,
    ):
        server.mute = True
        waiting = link.call("XADD", "s")

        assert isinstance(await outcome(waiting), ConnectionLost)
        assert "no sign of life" in str(await losses.wait())


@pytest.mark.case("RC-08")
async def test_a_silent_server_is_found_while_the_link_is_idle() -> None:
    losses = Losses()

    async with (
        StubServer() as server,
        linked(server, on_lost=losses, ping_every=0.05, ping_timeout=0.05),
    ):
        server.mute = True

        assert "no sign of life" in str(await losses.wait())


@pytest.mark.case("RC-08")
async def test_a_server_that_answers_pings_is_left_alone() -> None:
    losses = Losses()

    async with (
        StubServer(lambda command: None) as server,
        linked(server, on_lost=losses, ping_every=0.02, ping_timeout=0.05) as link,
    ):
        await asyncio.sleep(0.3)

        assert not link.closed
        assert server.received.count([b"PING"]) >= 3
    assert losses.reasons == []


@pytest.mark.case("RC-08", "RC-10")
async def test_a_reply_that_misses_its_deadline_ends_the_link() -> None:
    losses = Losses()

    async with StubServer(lambda command: None) as server, linked(server, on_lost=losses) as link:
        first = link.call("XREADGROUP", deadline=0.1)
        second = link.call_packed(pack("XREADGROUP"), 1, deadline=30)

        assert isinstance(await outcome(first), ConnectionLost)
        assert isinstance(await outcome(second), ConnectionLost)
        assert "no reply within its deadline" in str(await losses.wait())


@pytest.mark.case("RC-10")
async def test_replies_within_their_deadlines_end_nothing() -> None:
    async with StubServer() as server, linked(server, ping_every=0.03, ping_timeout=0.03) as link:
        for _ in range(5):
            await link.call("ECHO", "a", deadline=0.05)
            await asyncio.sleep(0.03)

        assert not link.closed


@pytest.mark.case("RC-10")
async def test_a_blocking_read_is_not_pinged_away() -> None:
    async with (
        StubServer(lambda command: None) as server,
        linked(server, ping_every=0.02, ping_timeout=0.02) as link,
    ):
        read = link.call("XREADGROUP", "BLOCK", "200", deadline=5)
        await asyncio.sleep(0.15)

        assert not link.closed
        assert [b"PING"] not in server.received[3:]
        server.send(b"*-1\r\n")
        assert await read is None


async def test_refusals_carry_the_code_and_the_text() -> None:
    async with (
        StubServer(lambda command: b"-ERR no such thing\r\n") as server,
        linked(server) as link,
    ):
        with pytest.raises(RedisRefusal) as refused:
            await link.call("X")

    assert (refused.value.code, refused.value.message) == ("ERR", "no such thing")
    assert refused.value.permanent
