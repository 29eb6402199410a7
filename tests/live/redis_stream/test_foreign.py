"""Entries of other programs in which no payload can be found: their content survives (rule 4.1)."""

from __future__ import annotations

from typing import cast

import pytest

from surestream import App, Outcome, Subscriber, ack, retry, retry_after
from surestream.contract import Stored, Successor
from surestream.errors import BrokerRefused
from surestream.message import RETRY_COUNT_HEADER, Outgoing
from surestream.redis import DurableZset, RedisBroker, RedisStream
from surestream.redis.entries import ForeignDelivery
from surestream.redis.in_process import InProcessRedis
from surestream.redis.link import Link
from surestream.testing import TestApp
from tests.live.redis_stream.room import Reader, Room, copy_of

pytestmark = pytest.mark.rule("4.1")

SOURCE = RedisStream("refunds", group="refunds", block=0.2)
FIELDS = (b"card", b"\xff\x00", b"h:tenant", b"north", b"\xfe", b"", b"card", b"again")
CONTENT = [b"card", b"\xff\x00", b"\xfe", b"", b"card", b"again"]


async def held(room: Room, source: RedisStream = SOURCE) -> tuple[Reader, ForeignDelivery]:
    """A reader that holds an entry whose fields are no text."""
    await room.add("refunds", *FIELDS)
    reader = await room.reader(source)
    (delivery,) = await reader.take(1)
    assert isinstance(delivery, ForeignDelivery)
    return reader, delivery


async def fields(room: Room, key: str) -> list[bytes]:
    """All fields of the newest entry, repeats kept."""
    ((_, newest),) = await room.ask("XREVRANGE", key, "+", "-", "COUNT", 1)
    return list(newest)


async def test_a_copy_carries_its_fields_and_the_count(room: Room) -> None:
    reader, delivery = await held(room)

    assert await reader.live.replace(delivery, Successor(copy_of(delivery, 1))) is Stored.STORED

    written = await fields(room, "refunds")
    assert b"_payload" not in written
    assert written[-len(CONTENT) :] == CONTENT
    (again,) = await reader.take(1)
    assert isinstance(again, ForeignDelivery)
    assert again.fault is not None
    assert again.header_count == 1
    assert again.headers.raw("tenant") == b"north"
    assert again.marked


async def test_a_dead_letter_carries_its_fields_too(room: Room) -> None:
    reader, delivery = await held(room)
    headers = ((RETRY_COUNT_HEADER, b"5"), ("tenant", b"north"))

    await reader.live.replace(delivery, Successor(Outgoing("refunds.dlq", b"", headers), dead=True))

    assert await fields(room, "refunds.dlq") == [
        *(b"h:x-ruststream-retry-count", b"5", b"h:tenant", b"north"),
        *CONTENT,
    ]


async def test_an_entry_of_headers_alone_is_copied_as_one(room: Room) -> None:
    await room.add("refunds", "h:tenant", "north")
    reader = await room.reader(SOURCE)
    (delivery,) = await reader.take(1)

    await reader.live.replace(delivery, Successor(copy_of(delivery, 1, "elsewhere")))

    assert await fields(room, "elsewhere") == [
        *(b"h:x-ruststream-retry-count", b"1", b"h:tenant", b"north"),
    ]


@pytest.mark.rule("5.2")
async def test_a_delay_set_cannot_keep_it_and_says_so(room: Room) -> None:
    source = RedisStream(
        "refunds", group="refunds", block=0.2, delayed_retry=DurableZset("refunds.delayed")
    )
    reader, delivery = await held(room, source)

    with pytest.raises(BrokerRefused, match="keeps a payload and headers") as refused:
        await reader.live.park(delivery, copy_of(delivery).headers, 30)

    assert refused.value.permanent
    assert len(await room.pending("refunds", "refunds")) == 1


async def run(source: RedisStream, outcome: Outcome) -> list[bytes]:
    """The dead letter of such an entry, of a service that tries three times to decode it."""

    async def process(refund: dict[str, str]) -> Outcome:
        return ack()

    app = App("refunds")
    broker = app.add(RedisBroker())
    broker.include(
        Subscriber(source, process),
        max_attempts=3,
        dead_letter="refunds.dlq",
        on_decode_error=outcome,
    )
    async with TestApp(app) as tb:
        server = cast("InProcessRedis", tb.run.context.servers[broker])
        link = Link(server.connection_factory(), name="look")
        await link.open()
        look = Room(server.connection_factory(), link, server)
        await look.add("refunds", *FIELDS)
        await tb.settle()
        await tb.advance(120)
        dead = await fields(look, "refunds.dlq")
        await look.close()
    return dead


@pytest.mark.parametrize("outcome", [retry(), retry_after(30)], ids=repr)
async def test_what_cannot_be_decoded_is_in_the_dead_letter_after_all_tries(
    outcome: Outcome,
) -> None:
    dead = await run(RedisStream("refunds", group="refunds"), outcome)

    assert dead[:2] == [b"h:x-ruststream-retry-count", b"3"]
    assert dead[-len(CONTENT) :] == CONTENT


async def test_where_delays_are_parked_it_is_dead_at_once() -> None:
    source = RedisStream("refunds", group="refunds", delayed_retry=DurableZset("refunds.delayed"))

    dead = await run(source, retry_after(30))

    assert dead[-len(CONTENT) :] == CONTENT
    assert b"copy-refused" in dead
