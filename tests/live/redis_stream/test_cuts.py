"""Connections that are cut while messages are on their way (rules 5.3 and 6.4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from surestream.contract import Stored, Successor
from surestream.delivery import Delivery
from surestream.errors import ConnectionLost
from surestream.redis.sources import DurableZset, RedisStream
from tests.live.redis_stream.room import Reader, Room, confirmed, copy_of, payloads, until

pytestmark = pytest.mark.rule("5.3")

SOURCE = RedisStream(
    "refunds", group="refunds", block=0.2, delayed_retry=DurableZset("refunds.delayed")
)


async def cut(room: Room, reader: Reader, chance: Random, share: float = 0.7) -> None:
    """End some of the service's connections."""
    for line in (await room.ask("CLIENT", "LIST")).decode().splitlines():
        if "name=surestream" in line and chance.random() < share:
            number = line.split("id=")[1].split()[0]
            await room.ask("CLIENT", "KILL", "ID", number)


async def settle(reader: Reader, delivery: Delivery, second: list[Delivery]) -> None:
    """As the runtime: again until the connection holds."""
    number = int(delivery.payload)
    while True:
        try:
            if delivery.header_count == 0 and number % 3 == 0:
                await reader.live.replace(delivery, Successor(copy_of(delivery)))
            elif delivery.header_count == 0 and number % 3 == 1:
                await reader.live.park(delivery, copy_of(delivery).headers, 0.05)
            else:
                reader.live.acknowledge([delivery])
                second.append(delivery)
            break
        except ConnectionLost:
            await asyncio.sleep(0.02)
    reader.settled(delivery)


async def test_cuts_lose_no_message_and_double_none(own_room: Room) -> None:
    """Nothing was killed, so nothing runs twice: what is unconfirmed is known here."""
    chance = Random(7)
    entries = 900
    await own_room.fill("refunds", entries)
    reader = await own_room.reader(SOURCE)
    runs: Counter[tuple[bytes, int]] = Counter()
    done: list[Delivery] = []

    async def work() -> None:
        while len(done) < entries:
            for delivery in await reader.pull(20):
                runs[delivery.payload, delivery.header_count] += 1
                await settle(reader, delivery, done)
            await asyncio.sleep(0.001)

    working = asyncio.create_task(work())
    for cuts in range(1, 6):
        await until(lambda cuts=cuts: sum(runs.values()) > cuts * 200, within=10)
        await cut(own_room, reader, chance)
    async with asyncio.timeout(20):
        await working

    await confirmed(reader.live)
    assert set(runs.values()) == {1}
    assert sorted(payloads(done), key=int) == [b"%d" % number for number in range(entries)]
    assert await own_room.pending("refunds", "refunds") == []
    assert len(await own_room.entries("refunds")) == entries


@pytest.mark.rule("6.4")
async def test_a_read_that_the_server_still_had_is_looked_for_once_more(own_room: Room) -> None:
    """A connection that is dead for us may live on for the server, until its block is over."""
    reader = await own_room.reader(SOURCE)
    await reader.quiet()
    await cut(own_room, reader, Random(1), share=1)
    await reader.quiet()
    await reader.quiet()
    await own_room.fill("refunds", 1)
    await own_room.ask(
        *("XREADGROUP", "GROUP", "refunds", reader.live.seat.consumer, "COUNT", 1),
        *("STREAMS", "refunds", ">"),
    )

    (delivery,) = await reader.take(1)

    assert delivery.server_count == 1


async def test_a_reply_that_got_lost_on_the_way_to_the_successor(own_room: Room) -> None:
    """Rule 5.4: the script is sent again, and finds its work done."""
    await own_room.fill("refunds", 1)
    reader = await own_room.reader(SOURCE)
    (delivery,) = await reader.take(1)
    successor = Successor(copy_of(delivery, 1, "dlq"), dead=True)
    storing = asyncio.ensure_future(reader.live.replace(delivery, successor))
    await asyncio.sleep(0)
    storing.cancel()
    await asyncio.wait([storing])
    await asyncio.sleep(0.05)

    again = await reader.live.replace(delivery, successor)

    assert again is Stored.OVERTAKEN
    assert len(await own_room.entries("dlq")) == 1


async def test_full_memory_does_not_keep_a_service_from_starting(own_room: Room) -> None:
    """The group is there; what is in it can be drained."""
    await own_room.fill("refunds", 1)
    first = await own_room.reader(RedisStream("refunds", group="refunds", block=0.2))
    await first.close()
    await own_room.ask("CONFIG", "SET", "maxmemory", "1")

    second = await own_room.reader(RedisStream("refunds", group="refunds", block=0.2))

    assert payloads(await second.take(1)) == [b"0"]
