"""The whole way: declaration, runtime and transport, on both kinds of server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any

import pytest

from surestream.app import App
from surestream.delivery import Delivery
from surestream.errors import DeclarationError
from surestream.outcome import Outcome, ack, drop, retry, retry_after
from surestream.redis import DurableZset, EntryId, RedisBroker, RedisStream
from surestream.redis.driver import connection_factory
from surestream.redis.in_process import InProcessRedis
from surestream.redis.link import Link
from surestream.runtime.lifecycle import Run
from surestream.subscriber import subscriber
from tests.live.redis_stream.room import Room, until
from tests.servers import RedisServer

Serve = Callable[..., AbstractAsyncContextManager[Room]]


@pytest.fixture(params=["live", "in process"])
def serve(request: pytest.FixtureRequest) -> Serve:
    """Run a handler under a policy, and look at its server."""

    @asynccontextmanager
    async def serving(handler: Any, **policy: Any) -> AsyncIterator[Room]:
        in_process = request.param == "in process"
        url = "redis://localhost"
        if not in_process:
            server: RedisServer = request.getfixturevalue("redis_server")
            server.flush()
            url = server.url
        app = App("refunds")
        broker = app.add(RedisBroker(url))
        broker.include(handler, **policy)
        run = Run(app, in_process=in_process)
        await run.start()
        if in_process:
            model = run.context.servers[broker]
            assert isinstance(model, InProcessRedis)
            connect = model.connection_factory()
        else:
            connect = connection_factory(broker.address)
        link = Link(connect, name="look")
        await link.open()
        try:
            yield Room(connect, link, run)
        finally:
            await link.close()
            await run.stop()

    return serving


@pytest.mark.rule("3.2")
async def test_an_entry_written_by_hand_ends_in_the_dead_letters_after_five_deliveries(
    serve: Serve,
) -> None:
    seen: list[tuple[str, int]] = []

    @subscriber(RedisStream("refunds", group="refunds"))
    async def refund(body: bytes, delivery: Delivery, entry: Annotated[str, EntryId]) -> Outcome:
        seen.append((entry, delivery.attempt))
        return retry()

    async with serve(refund, max_attempts=5, dead_letter="refunds.dlq") as room:
        body = b'{"id":1,"card":"down","amount_cents":500}'
        await room.add("refunds", "_payload", body)
        assert await until(lambda: len(seen) == 5)
        await asyncio.sleep(0.05)

        (dead,) = await room.entries("refunds.dlq")
        assert dead[b"_payload"] == body
        assert dead[b"h:x-ruststream-retry-count"] == b"5"
        assert [attempt for _, attempt in seen] == [1, 2, 3, 4, 5]
        assert len({entry for entry, _ in seen}) == 5
        assert await room.pending("refunds", "refunds") == []
        assert len(await room.entries("refunds")) == 1


@pytest.mark.parametrize("delays", [None, DurableZset("refunds.delayed")])
async def test_a_delayed_retry_comes_back_once(serve: Serve, delays: DurableZset | None) -> None:
    times: list[float] = []

    @subscriber(RedisStream("refunds", group="refunds", delayed_retry=delays))
    async def refund(body: bytes) -> Outcome:
        times.append(asyncio.get_running_loop().time())
        return retry_after(0.2) if len(times) == 1 else ack()

    async with serve(refund, max_attempts=5, dead_letter="refunds.dlq") as room:
        await room.add("refunds", "_payload", "x")
        assert await until(lambda: len(times) == 2)
        await asyncio.sleep(0.3)

        assert len(times) == 2
        assert 0.2 <= times[1] - times[0] < 1
        assert await room.pending("refunds", "refunds") == []


async def test_what_is_dropped_or_undecodable_is_not_a_dead_letter(serve: Serve) -> None:
    """Rules 4.5 and 2.6."""
    seen: list[dict[str, int]] = []

    @subscriber(RedisStream("refunds", group="refunds"))
    async def refund(body: dict[str, int]) -> Outcome:
        seen.append(body)
        return drop()

    async with serve(refund, max_attempts=5, dead_letter="refunds.dlq") as room:
        await room.add("refunds", "_payload", b"\xff", "h:a", "1")
        await room.add("refunds", "a", b"\xff", "b", b"\xfe")
        await room.add("refunds", "_payload", b'{"id": 1}')
        assert await until(lambda: len(seen) == 1)
        await asyncio.sleep(0.05)

        assert await room.ask("EXISTS", "refunds.dlq") == 0
        assert await room.entries("refunds.undecodable") == [
            {b"_payload": b"\xff", b"h:a": b"1"},
            {b"a": b"\xff", b"b": b"\xfe"},
        ]
        assert await room.pending("refunds", "refunds") == []


def test_a_broker_never_shows_its_password() -> None:
    broker = RedisBroker("redis://me:secret@example.test:7000/3")

    assert repr(broker) == "RedisBroker('redis://example.test:7000/3')"


def test_arguments_win_over_the_url() -> None:
    context = ssl.create_default_context()
    broker = RedisBroker(
        "redis://a:b@localhost/1", username="c", password="d", database=2, tls=context
    )

    address = broker.address
    assert (address.username, address.password, address.database) == ("c", "d", 2)
    assert address.tls is context


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(DeclarationError, match="redis://"):
        RedisBroker("localhost:6379")
