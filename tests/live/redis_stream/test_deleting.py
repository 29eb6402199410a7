"""Deleting what is acknowledged: only what nobody else could still want (case MG-01)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surestream.contract import Stored, Successor
from surestream.errors import BrokerRefused, DeclarationError, DeclarationTypeError
from surestream.redis.sources import DurableZset, RedisStream
from tests.live.redis_stream.room import Room, confirmed, copy_of, lines, payloads

pytestmark = pytest.mark.case("MG-01")

DELAYS = DurableZset("refunds.delayed")


def source(group: str = "refunds", **more: Any) -> RedisStream:
    return RedisStream("refunds", group=group, block=0.2, **{"delete_acknowledged": True, **more})


async def test_what_is_acknowledged_leaves_the_stream(room: Room) -> None:
    # given
    await room.fill("refunds", 5)
    reader = await room.reader(source())
    deliveries = await reader.take(5)

    # when
    await reader.ack(deliveries[0], deliveries[3])

    # then what is unfinished stays
    assert [entry[b"_payload"] for entry in await room.entries("refunds")] == [b"1", b"2", b"4"]
    assert len(await room.pending("refunds", "refunds")) == 3


async def test_by_default_everything_stays(room: Room) -> None:
    await room.fill("refunds", 2)
    reader = await room.reader(source(delete_acknowledged=False))

    await reader.ack(*await reader.take(2))

    assert len(await room.entries("refunds")) == 2


async def test_hundreds_at_once_leave_the_stream(room: Room) -> None:
    await room.fill("refunds", 2_500)
    reader = await room.reader(source())

    await reader.ack(*await reader.take(2_500))

    assert await room.entries("refunds") == []


async def test_a_claimed_entry_stays_until_it_is_done(room: Room) -> None:
    # given an entry that is given back, to be claimed again
    await room.fill("refunds", 1)
    claiming = RedisStream.claiming(
        "refunds", min_idle=0.05, group="refunds", block=0.2, delete_acknowledged=True
    )
    reader = await room.reader(claiming)
    (delivery,) = await reader.take(1)
    await reader.live.give_back([delivery], after=0.05)
    reader.settled(delivery)
    assert len(await room.entries("refunds")) == 1

    # when it is back and done
    (again,) = await reader.orphans(1)
    await reader.ack(again)

    # then it leaves the stream
    assert await room.entries("refunds") == []


@pytest.mark.rule("5.1", "4.7")
async def test_an_original_leaves_with_its_copy_and_the_copy_with_its_end(room: Room) -> None:
    # given
    await room.fill("refunds", 1)
    reader = await room.reader(source())
    (delivery,) = await reader.take(1)

    # when it is retried
    stored = await reader.live.replace(delivery, Successor(copy_of(delivery)))

    # then only the copy is there
    (copy,) = await reader.take(1)
    assert stored is Stored.STORED
    assert copy.marked
    assert len(await room.entries("refunds")) == 1

    # when that is done
    await reader.ack(copy)

    # then nothing is
    assert await room.entries("refunds") == []


async def test_a_parked_original_leaves_the_stream(room: Room) -> None:
    await room.fill("refunds", 1)
    reader = await room.reader(source(delayed_retry=DELAYS))
    (delivery,) = await reader.take(1)

    await reader.live.park(delivery, (), 60.0)

    assert await room.entries("refunds") == []
    assert await room.ask("ZCARD", "refunds.delayed") == 1


async def test_a_dead_letter_with_too_many_headers_for_a_script_leaves_too(room: Room) -> None:
    await room.add("refunds", "_payload", "x", *(f for n in range(4_000) for f in (f"h:{n}", "v")))
    reader = await room.reader(source())
    (delivery,) = await reader.take(1)

    dead = Successor(copy_of(delivery, 5, "refunds.dlq"), dead=True)
    await reader.live.replace(delivery, dead)

    assert await room.entries("refunds") == []
    assert len(await room.entries("refunds.dlq")) == 1


@pytest.mark.rule("5.4")
async def test_a_worker_that_was_overtaken_brings_nothing_back(room: Room) -> None:
    # given an entry that another worker took over, finished and deleted
    await room.fill("refunds", 1)
    slow = await room.reader(source(recover_after=0.02))
    (delivery,) = await slow.take(1)
    fast = await room.reader(source(recover_after=0.02))
    (same,) = await fast.orphans(1)
    await fast.ack(same)
    assert await room.entries("refunds") == []

    # when the first one decides otherwise
    remembers = b"max-deleted-entry-id" in await room.ask("XINFO", "STREAM", "refunds")
    stored = await slow.live.replace(delivery, Successor(copy_of(delivery)))

    # then nothing happens; servers before Redis 7 do not remember what was deleted, and there a
    # second copy is better than none
    assert stored is (Stored.OVERTAKEN if remembers else Stored.STORED)
    assert len(await room.entries("refunds")) == (0 if remembers else 1)


async def test_another_group_is_refused_at_the_start(room: Room) -> None:
    # given a stream that others read
    await room.fill("refunds", 1)
    await room.ask("XGROUP", "CREATE", "refunds", "audit", "0")

    # when
    with pytest.raises(BrokerRefused) as told:
        await room.reader(source())

    # then it is told, and nothing was left behind
    assert (
        'refunds/refunds: delete_acknowledged=True, but the stream has another group ("audit")'
        in str(told.value)
    )
    assert "XGROUP DESTROY refunds audit" in str(told.value)
    assert told.value.permanent
    assert len(await room.ask("XINFO", "GROUPS", "refunds")) == 1


@pytest.mark.parametrize("first", [True, False], ids=["deleting first", "deleting second"])
async def test_two_groups_of_one_service_are_refused(room: Room, first: bool) -> None:
    transport = await room.transport()
    await room.reader(source("one", delete_acknowledged=first), transport)

    with pytest.raises(DeclarationError, match="delete_acknowledged=True of refunds/") as told:
        await room.reader(source("two", delete_acknowledged=not first), transport)

    assert "handler at test.py:1" in str(told.value)


async def test_two_readers_of_one_group_may_both_delete(room: Room) -> None:
    transport = await room.transport()
    readers = [await room.reader(source(), transport) for _ in range(2)]
    await room.fill("refunds", 1)

    taken = await asyncio.gather(*(reader.pull(1) for reader in readers))
    for reader, deliveries in zip(readers, taken, strict=True):
        await reader.ack(*deliveries)

    assert await room.entries("refunds") == []


async def test_a_group_that_appears_later_loses_nothing(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    # given a subscription that deletes
    await room.fill("refunds", 4)
    reader = await room.reader(source())
    one, two, three, four = await reader.take(4)
    await reader.ack(one)

    # when another group comes, and goes again
    await room.ask("XGROUP", "CREATE", "refunds", "audit", "0")
    await reader.ack(two)
    await reader.live.replace(three, Successor(copy_of(three)))
    await room.ask("XGROUP", "DESTROY", "refunds", "audit")
    await reader.ack(four)

    # then nothing was deleted from then on, and that is told once
    assert [e[b"_payload"] for e in await room.entries("refunds")] == [b"1", b"2", b"3", b"2"]
    (line,) = lines(caplog)
    assert 'nothing is deleted any more: the stream has another group now ("audit")' in line


async def test_a_copy_is_deleted_all_the_same(room: Room) -> None:
    # given a marked copy, which is nobody else's business, and a new group
    await room.fill("refunds", 1)
    reader = await room.reader(source())
    (delivery,) = await reader.take(1)
    await reader.live.replace(delivery, Successor(copy_of(delivery)))
    copies = await reader.take(1)
    await room.fill("refunds", 1)
    await room.ask("XGROUP", "CREATE", "refunds", "audit", "0")
    others = await reader.take(1)

    await reader.ack(*others, *copies)

    assert len(await room.entries("refunds")) == 1


async def test_a_right_that_is_missing_is_told_at_the_start(own_room: Room) -> None:
    await own_room.fill("refunds", 1)
    await own_room.ask("ACL", "SETUSER", "default", "-xdel")

    with pytest.raises(BrokerRefused, match=r"delete_acknowledged=True: NOPERM .*xdel"):
        await own_room.reader(source())


async def test_a_right_that_is_lost_keeps_entries_and_is_told(
    own_room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    await own_room.fill("refunds", 1)
    reader = await own_room.reader(source())
    deliveries = await reader.take(1)
    await own_room.ask("ACL", "SETUSER", "default", "-xdel")

    await reader.ack(*deliveries)

    assert await own_room.pending("refunds", "refunds") == []
    assert len(await own_room.entries("refunds")) == 1
    (line,) = lines(caplog)
    assert "settled entries stay in the stream: " in line
    assert reader.live.trouble is None


async def test_the_stream_may_be_gone_meanwhile(room: Room) -> None:
    await room.fill("refunds", 1)
    reader = await room.reader(source())
    deliveries = await reader.take(1)

    await room.ask("DEL", "refunds")
    await reader.ack(*deliveries)

    await confirmed(reader.live)
    assert payloads(deliveries) == [b"0"]


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_it_is_a_yes_or_no(value: object) -> None:
    with pytest.raises(DeclarationTypeError, match="delete_acknowledged"):
        source(delete_acknowledged=value)
