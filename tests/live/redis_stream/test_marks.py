"""Several groups on one stream (rule 4.7)."""

from __future__ import annotations

import pytest

from surestream.contract import Successor
from surestream.redis.sources import RedisStream
from tests.live.redis_stream.room import Room, confirmed, copy_of, lines, payloads

pytestmark = pytest.mark.rule("4.7")

MINE = RedisStream("orders", group="mine", block=0.2, recover_after=0.3)
OTHER = RedisStream("orders", group="other", block=0.2)


async def test_another_group_acknowledges_a_copy_unseen(room: Room) -> None:
    await room.fill("orders", 1)
    mine, other = await room.reader(MINE), await room.reader(OTHER)
    await other.ack(*await other.take(1))
    (delivery,) = await mine.take(1)
    await mine.live.replace(delivery, Successor(copy_of(delivery)))
    await room.add("orders", "_payload", "next")

    assert payloads(await other.take(1)) == [b"next"]
    assert payloads(await mine.take(2)) == [b"0", b"next"]
    await confirmed(other.live)
    assert [count for _, count in await room.pending("orders", "other")] == [1]


async def test_a_foreign_group_s_copy_stays_in_the_stream_for_it(room: Room) -> None:
    """Only the group it is for deletes it."""
    mine, other = await room.reader(MINE), await room.reader(OTHER)
    await room.add("orders", "_payload", "p", "h:x-surestream-for", "orders/other")

    assert await mine.quiet()
    await confirmed(mine.live)

    assert len(await room.entries("orders")) == 1
    await other.ack(*await other.take(1))
    assert await room.entries("orders") == []


@pytest.mark.parametrize(
    "mark", ["orders/gone", "elsewhere/other", "nonsense", "", "a/b/c", "%ff/x"]
)
async def test_a_mark_that_names_nobody_here_is_ignored_with_one_warning(
    room: Room, caplog: pytest.LogCaptureFixture, mark: str
) -> None:
    mine, _ = await room.reader(MINE), await room.reader(OTHER)
    for number in range(3):
        await room.add("orders", "_payload", str(number), "h:x-surestream-for", mark)

    deliveries = await mine.take(3)

    assert payloads(deliveries) == [b"0", b"1", b"2"]
    assert not any(delivery.marked for delivery in deliveries)
    assert len([line for line in lines(caplog) if "ignored" in line]) == 1
    await mine.ack(*deliveries)
    assert len(await room.entries("orders")) == 3


async def test_a_group_created_a_moment_ago_is_known(room: Room) -> None:
    mine = await room.reader(MINE)
    await room.add("orders", "_payload", "1", "h:x-surestream-for", "orders/gone")
    await mine.take(1)
    await room.reader(OTHER)
    await room.add("orders", "_payload", "2", "h:x-surestream-for", "orders/other")

    assert await mine.quiet()


async def test_marks_are_percent_encoded(room: Room) -> None:
    source = RedisStream("a/b:ü", group="g h/%", block=0.2)
    await room.fill("a/b:ü", 1)
    reader = await room.reader(source)
    (delivery,) = await reader.take(1)

    await reader.live.replace(delivery, Successor(copy_of(delivery)))

    _, written = await room.entries("a/b:ü")
    assert written[b"h:x-surestream-for"] == b"a%2Fb%3A%C3%BC/g%20h%2F%25"
    (copy,) = await reader.take(1)
    assert copy.marked


async def test_a_foreign_copy_that_a_dead_worker_held_is_not_handed_out(room: Room) -> None:
    mine, _ = await room.reader(MINE), await room.reader(OTHER)
    await room.add("orders", "_payload", "p", "h:x-surestream-for", "orders/other")
    await room.ask("XREADGROUP", "GROUP", "mine", "dead", "STREAMS", "orders", ">")
    entry = (await room.pending("orders", "mine"))[0][0]
    await room.ask("XCLAIM", "orders", "mine", "dead", 0, entry, "IDLE", 10_000, "JUSTID")

    assert not (await mine.recover()).deliveries
    await confirmed(mine.live)
    assert await room.pending("orders", "mine") == []


async def test_a_value_that_reads_like_a_mark_is_none(room: Room) -> None:
    mine = await room.reader(MINE)
    await room.add("orders", "_payload", "p", "h:a", "h:x-surestream-for", "h:b", "orders/mine")

    (delivery,) = await mine.take(1)

    assert not delivery.marked
