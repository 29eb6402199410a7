"""Publishes that cut their stream back, on a real server and on the in-process one."""

from __future__ import annotations

import asyncio

import pytest

from surestream.errors import BrokerRefused
from surestream.message import Outgoing
from surestream.redis.trimming import Trim, trim
from tests.live.redis_stream.room import Room


def message(number: int, options: Trim | None) -> Outgoing:
    return Outgoing("s", b"%d" % number, (("trace", b"t"),), options)


async def payloads(room: Room) -> list[int]:
    return [int(entry[b"_payload"]) for entry in await room.entries("s")]


async def test_an_exact_maximum_keeps_the_newest(room: Room) -> None:
    transport = await room.transport()

    for number in range(10):
        await transport.publish(message(number, trim(3, None, True)))

    assert await payloads(room) == [7, 8, 9]
    assert (await room.entries("s"))[0] == {b"_payload": b"7", b"h:trace": b"t"}


async def test_an_approximate_maximum_never_keeps_less(room: Room) -> None:
    transport = await room.transport()

    publishing = (transport.publish(message(n, trim(100, None, False))) for n in range(1_000))
    await asyncio.gather(*publishing)

    kept = await payloads(room)
    assert 100 <= len(kept) < 400
    assert kept == list(range(1_000 - len(kept), 1_000))


async def test_an_exact_lowest_id_cuts_below_it(room: Room) -> None:
    transport = await room.transport()
    ids = [await room.add("s", "_payload", str(number)) for number in range(5)]

    await transport.publish(message(5, trim(None, ids[3].decode(), True)))

    assert await payloads(room) == [3, 4, 5]


async def test_a_lowest_id_above_the_new_entry_is_refused(room: Room) -> None:
    transport = await room.transport()

    with pytest.raises(BrokerRefused, match='min_id="99999999999999-0" lies above') as told:
        await transport.publish(message(1, trim(None, "99999999999999", False)))

    assert told.value.permanent


async def test_a_publish_without_options_cuts_nothing(room: Room) -> None:
    transport = await room.transport()
    await transport.publish(message(0, None))

    await transport.publish(message(1, None))

    assert await payloads(room) == [0, 1]
