"""Taking entries from a stream."""

from __future__ import annotations

import asyncio

import pytest

from surestream.contract import SubscriptionTerms
from surestream.errors import BrokerRefused, DeclarationError
from surestream.message import Outgoing
from surestream.redis.sources import ConsumerGroup, DurableZset, EntryId, RedisStream, StreamKey
from surestream.redis.transport import RedisTransport
from tests.live.redis_stream.room import Room, StandIn, ids, payloads, until

SOURCE = RedisStream("refunds", group="refunds", block=0.2)


async def test_delivers_entries_in_order_and_settles_them(room: Room) -> None:
    entries = await room.fill("refunds", 5)
    reader = await room.reader(SOURCE)

    deliveries = await reader.take(5)

    assert payloads(deliveries) == [b"0", b"1", b"2", b"3", b"4"]
    assert ids(deliveries) == [entry.decode() for entry in entries]
    first = deliveries[0]
    assert (first[EntryId], first[StreamKey], first[ConsumerGroup]) == (
        entries[0].decode(),
        "refunds",
        "refunds",
    )
    assert first.address == "refunds"
    assert not first.special
    await reader.ack(*deliveries)
    assert await room.pending("refunds", "refunds") == []


async def test_a_read_returns_no_more_than_asked_for(room: Room) -> None:
    await room.fill("refunds", 5)
    reader = await room.reader(SOURCE)

    assert len(await reader.pull(2)) == 2
    assert len(await room.pending("refunds", "refunds")) == 2


async def test_a_cancelled_pull_loses_nothing(room: Room) -> None:
    """The reply of a read under way is for the next pull."""
    reader = await room.reader(RedisStream("refunds", group="refunds", block=5))
    pull = asyncio.create_task(reader.pull())
    await asyncio.sleep(0.05)
    pull.cancel()
    await asyncio.wait([pull])
    await room.fill("refunds", 3)

    deliveries = await reader.take(3)

    assert payloads(deliveries) == [b"0", b"1", b"2"]
    assert {delivery.server_count for delivery in deliveries} == {1}


async def test_stopping_ends_a_waiting_pull_at_once(room: Room) -> None:
    reader = await room.reader(RedisStream("refunds", group="refunds", block=60))
    pull = asyncio.create_task(reader.pull())
    await asyncio.sleep(0.05)

    async with asyncio.timeout(2):
        await reader.live.stop_pulling()
        assert await pull == []

    assert await reader.pull() == []


async def test_stopping_right_after_the_pull_began(room: Room) -> None:
    """The order to end may overtake the read on the way to the server."""
    reader = await room.reader(RedisStream("refunds", group="refunds", block=60))
    pull = asyncio.create_task(reader.pull())
    await asyncio.sleep(0)

    async with asyncio.timeout(2):
        await reader.live.stop_pulling()
        assert await pull == []


@pytest.mark.case("ML-08")
@pytest.mark.rule("6.6")
@pytest.mark.parametrize(
    ("start", "expected"),
    [("beginning", [b"0", b"1", b"2", b"late"]), ("new", [b"late"]), ("second", [b"2", b"late"])],
)
async def test_a_new_group_starts_where_it_is_told(
    room: Room, start: str, expected: list[bytes]
) -> None:
    entries = await room.fill("refunds", 3)
    place = entries[1].decode() if start == "second" else start
    reader = await room.reader(RedisStream("refunds", group="g", block=0.2, start=place))
    await room.add("refunds", "_payload", "late")

    assert payloads(await reader.take(len(expected))) == expected
    assert await reader.quiet()


async def test_an_existing_group_goes_on_where_it_stands(room: Room) -> None:
    await room.fill("refunds", 3)
    first = await room.reader(SOURCE)
    await first.ack(*await first.take(3))
    await first.close()
    await room.add("refunds", "_payload", "late")

    second = await room.reader(SOURCE)

    assert payloads(await second.take(1)) == [b"late"]


@pytest.mark.case("HL-01")
async def test_a_key_of_another_type_refuses_to_start(room: Room) -> None:
    await room.ask("SET", "refunds", "x")

    refused = "handler at test.py:1: key 'refunds' holds a string, and a stream is needed"
    with pytest.raises(BrokerRefused, match=refused):
        await room.reader(SOURCE)


@pytest.mark.case("HL-01")
async def test_a_key_that_changes_its_type_is_waited_for(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    transport = await room.transport()
    reader = await room.reader(SOURCE, transport)
    await room.ask("DEL", "refunds")
    await room.ask("SET", "refunds", "x")
    pull = asyncio.create_task(reader.take(1))
    await asyncio.sleep(1.0)
    trouble = transport.trouble
    await room.ask("DEL", "refunds")
    await room.add("refunds", "_payload", "again")

    assert payloads(await pull) == [b"again"]
    assert trouble is not None
    assert "'refunds' holds a string" in trouble
    assert len([r for r in caplog.records if "holds a string" in r.getMessage()]) <= 5
    assert transport.trouble is None


async def test_two_streams_on_one_delay_set_are_refused(room: Room) -> None:
    """Rule 6.5."""
    delays = DurableZset("delayed")
    transport = await room.transport()
    await room.reader(RedisStream("a", group="g", delayed_retry=delays), transport)

    with pytest.raises(DeclarationError, match='of "a" and of "b"'):
        await room.reader(RedisStream("b", group="g", delayed_retry=delays), transport)
    with pytest.raises(DeclarationError, match="as a stream and as DurableZset"):
        await room.reader(RedisStream("delayed", group="g"), transport)


async def test_one_consumer_name_twice_is_refused(room: Room) -> None:
    """Rule 6.11."""
    transport = await room.transport()
    source = RedisStream("refunds", group="g", consumer="me")
    await room.reader(source, transport)

    with pytest.raises(DeclarationError, match='consumer="me"'):
        await transport.subscribe(source, SubscriptionTerms("n", "w"), StandIn())


@pytest.mark.case("WC-16")
@pytest.mark.rule("3.7")
async def test_a_rewound_group_delivers_as_new_and_keeps_the_header(room: Room) -> None:
    await room.add("refunds", "_payload", "p", "h:x-ruststream-retry-count", "2")
    reader = await room.reader(SOURCE)
    await reader.ack(*await reader.take(1))
    await room.ask("XGROUP", "SETID", "refunds", "refunds", "0")

    (again,) = await reader.take(1)

    assert (again.server_count, again.header_count) == (1, 2)


async def test_an_order_to_stop_ends_a_wait_for_the_connection(own_room: Room) -> None:
    """Rule 7.3: also where the server is away for good."""
    reader = await own_room.reader(SOURCE)
    await asyncio.to_thread(own_room.control.kill)
    pull = asyncio.create_task(reader.pull())
    await asyncio.sleep(0.1)

    async with asyncio.timeout(2):
        await reader.live.stop_pulling()
        assert await pull == []


async def test_a_service_waits_for_its_server_and_says_so(own_room: Room) -> None:
    """Rule 7.5."""
    transport = await own_room.transport()
    reader = await own_room.reader(SOURCE, transport)
    assert transport.trouble is None
    await asyncio.to_thread(own_room.control.kill)
    pull = asyncio.create_task(reader.take(1, within=15))
    await asyncio.sleep(0.1)
    assert "not connected" in str(transport.trouble)
    await asyncio.to_thread(own_room.control.start)
    await transport_up(transport)

    await transport.publish(Outgoing("refunds", b"back"))

    assert payloads(await pull) == [b"back"]
    assert transport.trouble is None


async def transport_up(transport: RedisTransport) -> None:
    """Wait until it is connected again."""
    assert await until(lambda: transport.trouble is None, within=10)
