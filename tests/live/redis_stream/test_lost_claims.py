"""A claim whose reply got lost: the entry is ours, counted, and in nobody's hand (rule 6.4)."""

from __future__ import annotations

import asyncio

import pytest

from surestream.errors import ConnectionLost
from surestream.redis.scripted import CLAIM, GIVE_BACK
from surestream.redis.sources import RedisStream, StreamSource
from tests.live.redis_stream.cutting import Cutter
from tests.live.redis_stream.room import Reader, Room, payloads, until

pytestmark = pytest.mark.rule("6.4")

PLAIN = RedisStream("refunds", group="refunds", block=5, recover_after=0.3)
CLAIMING = RedisStream.claiming("refunds", group="refunds", block=5, min_idle=0.3)


@pytest.fixture
async def cut_room(room: Room) -> tuple[Room, Cutter]:
    """A room whose transports lose replies when told to."""
    cutter = Cutter(room.connect)
    return Room(cutter.factory, room.link, room.control), cutter


async def orphaned(room: Room, source: StreamSource, cutter: Cutter) -> Reader:
    """A reader to whom the reply to its claim of one orphan gets lost, its reading connection
    waiting in a blocking read."""
    await room.add("refunds", "_payload", "lost")
    await room.ask("XGROUP", "CREATE", "refunds", "refunds", "0")
    await room.ask("XREADGROUP", "GROUP", "refunds", "dead", "STREAMS", "refunds", ">")
    reader = await room.reader(source)
    await asyncio.sleep(0.35)
    cutter.script = CLAIM
    with pytest.raises(ConnectionLost):
        await reader.recover(1)
    assert cutter.lost == 1
    return reader


@pytest.mark.parametrize("source", [PLAIN, CLAIMING], ids=["plain", "claiming"])
async def test_it_is_handed_out_by_the_next_look_and_counted_once(
    cut_room: tuple[Room, Cutter], source: StreamSource
) -> None:
    room, cutter = cut_room
    reader = await orphaned(room, source, cutter)
    pull = asyncio.create_task(reader.pull())
    assert await until(lambda: reader.live._command.up)  # pyright: ignore[reportPrivateUsage]

    found = await reader.recover(1)

    assert payloads(found.deliveries) == [b"lost"]
    assert [delivery.server_count for delivery in found.deliveries] == [2]
    assert [count for _, count in await room.pending("refunds", "refunds")] == [2]
    await reader.ack(*found.deliveries)
    assert await room.pending("refunds", "refunds") == []
    pull.cancel()
    await asyncio.wait([pull])
    await room.close()


async def test_it_is_not_handed_out_twice_where_both_connections_were_lost(
    cut_room: tuple[Room, Cutter],
) -> None:
    room, cutter = cut_room
    reader = await orphaned(
        room, RedisStream("refunds", group="refunds", block=0.2, recover_after=0.3), cutter
    )
    await room.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await reader.quiet()
    await reader.quiet()

    found = [*(await reader.recover(5)).deliveries, *(await reader.recover(5)).deliveries]

    assert payloads(found) == [b"lost"]
    assert [delivery.server_count for delivery in found] == [2]
    await room.close()


async def test_a_claim_that_the_server_never_saw_is_tried_again(
    cut_room: tuple[Room, Cutter],
) -> None:
    room, _ = cut_room
    await room.add("refunds", "_payload", "lost")
    await room.ask("XGROUP", "CREATE", "refunds", "refunds", "0")
    await room.ask("XREADGROUP", "GROUP", "refunds", "dead", "STREAMS", "refunds", ">")
    reader = await room.reader(PLAIN)
    await asyncio.sleep(0.35)
    recovery = reader.live._arrivals._recovery  # pyright: ignore[reportPrivateUsage]
    ((entry, count),) = await room.pending("refunds", "refunds")
    recovery._unheard[entry] = count  # pyright: ignore[reportPrivateUsage]

    found = await reader.recover(1)

    assert [delivery.server_count for delivery in found.deliveries] == [2]
    await room.close()


@pytest.mark.rule("7.4")
async def test_a_process_that_stops_hands_it_back_with_the_count_it_had(
    cut_room: tuple[Room, Cutter],
) -> None:
    room, cutter = cut_room
    reader = await orphaned(room, PLAIN, cutter)
    assert await until(lambda: reader.live._command.up)  # pyright: ignore[reportPrivateUsage]

    await reader.close()

    assert [count for _, count in await room.pending("refunds", "refunds")] == [1]
    another = await room.reader(PLAIN)
    (again,) = await another.orphans(1, within=1)
    assert again.server_count == 2
    await room.close()


@pytest.mark.rule("7.4")
async def test_handing_back_twice_does_nothing_the_second_time(
    cut_room: tuple[Room, Cutter],
) -> None:
    room, cutter = cut_room
    await room.fill("refunds", 1)
    reader = await room.reader(CLAIMING)
    (delivery,) = await reader.take(1)
    cutter.script = GIVE_BACK
    with pytest.raises(ConnectionLost):
        await reader.live.give_back([delivery], after=0.3)
    assert await until(lambda: reader.live._command.up)  # pyright: ignore[reportPrivateUsage]

    await reader.live.give_back([delivery], after=0.3)
    reader.settled(delivery)

    (again,) = await reader.orphans(1)
    assert again.server_count == 2
    await room.close()
