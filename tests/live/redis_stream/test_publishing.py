"""Publishing to streams, and what entries written by others look like."""

from __future__ import annotations

import asyncio

import pytest

from surestream.contract import Stored
from surestream.errors import BrokerRefused, ConnectionLost
from surestream.message import Outgoing
from surestream.redis.sources import RedisStream
from tests.live.redis_stream.room import Room, payloads

SOURCE = RedisStream("refunds", group="refunds", block=0.2)


async def test_a_message_is_an_entry_with_payload_and_headers(room: Room) -> None:
    transport = await room.transport()

    stored = await transport.publish(Outgoing("refunds", b"\x82\xa2", (("trace", b"t"),)))

    assert stored is Stored.STORED
    assert await room.entries("refunds") == [{b"_payload": b"\x82\xa2", b"h:trace": b"t"}]


async def test_concurrent_publishes_are_all_stored(room: Room) -> None:
    transport = await room.transport()

    await asyncio.gather(*(transport.publish(Outgoing("s", b"%d" % n)) for n in range(200)))

    assert [entry[b"_payload"] for entry in await room.entries("s")] == [
        b"%d" % number for number in range(200)
    ]


@pytest.mark.parametrize(
    "message", [Outgoing("", b""), Outgoing("\ud800", b""), Outgoing("s", b"", (("\ud800", b""),))]
)
async def test_what_can_never_be_stored_is_refused_for_good(room: Room, message: Outgoing) -> None:
    transport = await room.transport()

    with pytest.raises(BrokerRefused) as told:
        await transport.publish(message)

    assert told.value.permanent


async def test_a_key_of_another_type_is_named_with_both_types(room: Room) -> None:
    transport = await room.transport()
    await room.ask("SADD", "s", "x")

    with pytest.raises(BrokerRefused, match="key 's' holds a set, and a stream is needed there"):
        await transport.publish(Outgoing("s", b""))


async def test_a_late_publish_fails_at_once(room: Room) -> None:
    transport = await room.transport()
    await transport.close()

    with pytest.raises(ConnectionLost):
        await transport.publish(Outgoing("s", b""))


@pytest.mark.case("HC-05")
async def test_long_header_names_and_values_travel(room: Room) -> None:
    transport = await room.transport()
    reader = await room.reader(SOURCE, transport)
    headers = (("k" * 70_000, b"v"), ("v", b"x" * 1_000_000), ("", b"no name"))

    await transport.publish(Outgoing("refunds", b"p", headers))

    (delivery,) = await reader.take(1)
    assert delivery.headers.pairs == headers


@pytest.mark.case("DE-02")
async def test_any_bytes_arrive_as_they_are(room: Room) -> None:
    transport = await room.transport()
    reader = await room.reader(SOURCE, transport)
    bodies = [b"", b"\x82\xa2", bytes(range(256)), b"\0" * 10, b'"\\ud800"']
    for body in bodies:
        await transport.publish(Outgoing("refunds", body))

    assert payloads(await reader.take(5)) == bodies


@pytest.mark.case("DE-04")
@pytest.mark.case("DE-05")
async def test_entries_of_other_programs(room: Room) -> None:
    reader = await room.reader(SOURCE)
    for fields in (
        ("foo", "bar"),
        ("data", b"\x93\x01\xff"),
        ("a", "1", "b", "ü"),
        ("a b", "1", "a b", "2", "_p", "x"),
        ("_payload", "first", "_payload", "second"),
        ("h:trace", "t", "body", "text"),
        ("a", b"\xff", "b", "1"),
        ("h:only", "headers"),
    ):
        await room.add("refunds", *fields)

    deliveries = await reader.take(8)

    assert payloads(deliveries)[:6] == [
        b"bar",
        b"\x93\x01\xff",
        b'{"a": "1", "b": "\\u00fc"}',
        b'{"a b": "1", "_p": "x"}',
        b"first",
        b"text",
    ]
    assert deliveries[5].headers.get("trace") == "t"
    assert [delivery.fault is None for delivery in deliveries] == [True] * 6 + [False] * 2
    assert all(delivery.special for delivery in deliveries[6:])
    assert "no field that could be its payload" in str(deliveries[7].fault)
