"""Successors, the fence, and the order of operations (rules 5.1 and 5.4)."""

from __future__ import annotations

import asyncio

import pytest

from surestream.contract import Stored, Successor
from surestream.errors import BrokerRefused
from surestream.message import Outgoing
from surestream.redis.entries import StreamDelivery
from surestream.redis.seat import mark_text
from surestream.redis.sources import RedisStream
from tests.live.redis_stream.room import Reader, Room, confirmed, copy_of

SOURCE = RedisStream("refunds", group="refunds", block=0.2)
MARK = b"h:x-surestream-for"


async def one(room: Room, *fields: bytes | str) -> tuple[Reader, StreamDelivery]:
    """A reader that holds one delivery."""
    await room.add("refunds", *(fields or ("_payload", "pay", "h:a", "1")))
    reader = await room.reader(SOURCE)
    (delivery,) = await reader.take(1)
    assert isinstance(delivery, StreamDelivery)
    return reader, delivery


@pytest.mark.rule("5.1")
async def test_a_dead_letter_is_stored_and_the_original_acknowledged(room: Room) -> None:
    reader, delivery = await one(room)

    stored = await reader.live.replace(
        delivery, Successor(copy_of(delivery, 5, "refunds.dlq"), dead=True)
    )

    assert stored is Stored.STORED
    assert await room.entries("refunds.dlq") == [
        {b"_payload": b"pay", b"h:x-ruststream-retry-count": b"5", b"h:a": b"1"}
    ]
    assert await room.pending("refunds", "refunds") == []
    assert len(await room.entries("refunds")) == 1


@pytest.mark.rule("4.7")
async def test_a_copy_to_its_own_stream_is_marked_and_deleted_once_settled(room: Room) -> None:
    reader, delivery = await one(room)

    await reader.live.replace(delivery, Successor(copy_of(delivery)))

    _, written = await room.entries("refunds")
    assert written[MARK] == mark_text("refunds", "refunds")
    (copy,) = await reader.take(1)
    assert copy.marked
    assert copy.special
    assert copy.header_count == 1
    await reader.ack(copy)
    assert len(await room.entries("refunds")) == 1


@pytest.mark.rule("4.7")
async def test_a_marked_copy_that_is_replaced_is_deleted_as_well(room: Room) -> None:
    reader, delivery = await one(room)
    await reader.live.replace(delivery, Successor(copy_of(delivery)))
    (copy,) = await reader.take(1)

    await reader.live.replace(copy, Successor(copy_of(copy, 2)))

    assert [
        entry.get(b"h:x-ruststream-retry-count") for entry in await room.entries("refunds")
    ] == [
        None,
        b"2",
    ]


@pytest.mark.rule("4.7")
async def test_a_copy_to_another_stream_has_no_mark(room: Room) -> None:
    reader, delivery = await one(room)

    await reader.live.replace(delivery, Successor(copy_of(delivery, 1, "elsewhere")))

    (written,) = await room.entries("elsewhere")
    assert MARK not in written


@pytest.mark.rule("5.4")
async def test_a_script_that_is_sent_again_stores_nothing_twice(room: Room) -> None:
    """As after a lost reply."""
    reader, delivery = await one(room)
    successor = Successor(copy_of(delivery))

    assert await reader.live.replace(delivery, successor) is Stored.STORED
    assert await reader.live.replace(delivery, successor) is Stored.OVERTAKEN

    assert len(await room.entries("refunds")) == 2


@pytest.mark.rule("5.4")
async def test_the_replacement_of_a_deleted_copy_is_not_stored_twice(room: Room) -> None:
    """The copy is gone from the stream, because it was settled. Servers before Redis 7 do not
    remember what was deleted; there a second copy is better than none."""
    reader, delivery = await one(room)
    await reader.live.replace(delivery, Successor(copy_of(delivery)))
    (copy,) = await reader.take(1)
    successor = Successor(copy_of(copy, 2))
    remembers = b"max-deleted-entry-id" in await room.ask("XINFO", "STREAM", "refunds")

    assert await reader.live.replace(copy, successor) is Stored.STORED
    again = await reader.live.replace(copy, successor)
    assert again is (Stored.OVERTAKEN if remembers else Stored.STORED)


@pytest.mark.rule("5.4")
async def test_an_overtaken_delivery_stores_nothing(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XCLAIM", "refunds", "refunds", "another", 0, delivery.id)

    stored = await reader.live.replace(delivery, Successor(copy_of(delivery)))

    assert stored is Stored.OVERTAKEN
    assert len(await room.entries("refunds")) == 1
    assert await room.pending("refunds", "refunds") == [(delivery.entry, 2)]


@pytest.mark.rule("5.4")
async def test_a_delivery_that_came_again_to_the_same_consumer_is_overtaken(room: Room) -> None:
    """The count tells the two apart."""
    reader, delivery = await one(room)
    consumer = reader.live.seat.consumer
    await room.ask("XCLAIM", "refunds", "refunds", consumer, 0, delivery.id)

    assert await reader.live.replace(delivery, Successor(copy_of(delivery))) is Stored.OVERTAKEN


@pytest.mark.rule("5.4")
async def test_an_overtaken_worker_may_still_acknowledge(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XCLAIM", "refunds", "refunds", "another", 0, delivery.id)

    await reader.ack(delivery)

    assert await room.pending("refunds", "refunds") == []


@pytest.mark.rule("5.4")
async def test_a_trimmed_entry_is_replaced_from_memory(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XTRIM", "refunds", "MAXLEN", 0)
    await room.ask("XACK", "refunds", "refunds", delivery.id)

    stored = await reader.live.replace(
        delivery, Successor(copy_of(delivery, 5, "refunds.dlq"), dead=True)
    )

    assert stored is Stored.STORED
    assert (await room.entries("refunds.dlq"))[0][b"_payload"] == b"pay"


@pytest.mark.rule("5.4")
async def test_after_a_flush_the_successor_is_stored_from_memory(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("FLUSHALL")

    assert await reader.live.replace(delivery, Successor(copy_of(delivery))) is Stored.STORED

    assert (await room.entries("refunds"))[0][b"_payload"] == b"pay"


@pytest.mark.rule("5.4")
async def test_after_a_flush_a_marked_copy_is_stored_from_memory_too(room: Room) -> None:
    """Nobody can have settled it: nothing was ever deleted from the new stream."""
    reader, delivery = await one(room)
    await reader.live.replace(delivery, Successor(copy_of(delivery)))
    (copy,) = await reader.take(1)
    await asyncio.sleep(0.01)  # or the new stream may use the same id
    await room.ask("FLUSHALL")
    await room.fill("refunds", 1)
    await room.ask("XGROUP", "CREATE", "refunds", "refunds", "0")

    assert await reader.live.replace(copy, Successor(copy_of(copy, 2))) is Stored.STORED


@pytest.mark.case("ML-01")
async def test_a_dead_letter_key_of_another_type_leaves_the_original_pending(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("SET", "refunds.dlq", "x")
    successor = Successor(copy_of(delivery, 2, "refunds.dlq"), dead=True)

    with pytest.raises(BrokerRefused, match=r"'refunds\.dlq' holds a string, and a stream") as told:
        await reader.live.replace(delivery, successor)

    assert not told.value.permanent
    assert await room.pending("refunds", "refunds") == [(delivery.entry, 1)]
    await room.ask("DEL", "refunds.dlq")
    assert await reader.live.replace(delivery, successor) is Stored.STORED


@pytest.mark.rule("2.6")
async def test_quarantine_keeps_every_field_and_is_trimmed(room: Room) -> None:
    reader, delivery = await one(room, "odd", b"\xff", "_payload", "p", "h:a", "1", "odd", "2")
    for number in range(300):
        await room.add("aside", "n", str(number))

    await reader.live.replace(
        delivery, Successor(Outgoing("aside", b"", ()), verbatim=True, max_length=10)
    )

    rows = await room.ask("XRANGE", "aside", "-", "+")
    assert rows[-1][1] == [b"odd", b"\xff", b"_payload", b"p", b"h:a", b"1", b"odd", b"2"]
    assert len(rows) < 301


@pytest.mark.case("HC-10")
async def test_unknown_fields_survive_on_copies_and_dead_letters(room: Room) -> None:
    reader, delivery = await one(room, "trace", "t", "_payload", "p", b"\xfe", b"\xff")

    await reader.live.replace(delivery, Successor(copy_of(delivery, 1, "refunds.dlq"), dead=True))

    assert await room.entries("refunds.dlq") == [
        {b"_payload": b"p", b"h:x-ruststream-retry-count": b"1", b"trace": b"t", b"\xfe": b"\xff"}
    ]


@pytest.mark.case("HC-04")
async def test_odd_headers_survive_byte_for_byte(room: Room) -> None:
    fields = [
        *("h:ü€", "ß"),
        *("h:empty", ""),
        *("h: spaces ", " v "),
        *("h:a:b", "c:d"),
        *(b"h:\xff\xfe", b"\x00\xff"),
    ]
    reader, delivery = await one(room, "_payload", "p", *fields)

    copied = Outgoing("copy", delivery.payload, delivery.headers.pairs)
    await reader.live.replace(delivery, Successor(copied))

    before = await room.ask("XRANGE", "refunds", "-", "+")
    after = await room.ask("XRANGE", "copy", "-", "+")
    assert after[0][1] == before[0][1]


@pytest.mark.parametrize("count", [3_895, 3_905, 4_500])
async def test_a_message_of_very_many_headers_is_copied_all_the_same(
    room: Room, count: int
) -> None:
    """Lua's stack holds 8,000 values: beyond that there is no script."""
    fields = [text for number in range(count) for text in (f"h:{number}", "v")]
    reader, delivery = await one(room, "_payload", "p", *fields)
    successor = Successor(Outgoing("many", delivery.payload, delivery.headers.pairs))

    assert await reader.live.replace(delivery, successor) is Stored.STORED
    assert await reader.live.replace(delivery, successor) is Stored.OVERTAKEN

    assert len((await room.entries("many"))[0]) == count + 1
    assert await room.pending("refunds", "refunds") == []


@pytest.mark.rule("4.7")
async def test_a_marked_copy_of_very_many_headers_is_deleted_once_settled(room: Room) -> None:
    fields = [text for number in range(4_500) for text in (f"h:{number}", "v")]
    reader, delivery = await one(room, "_payload", "p", *fields)
    await reader.live.replace(delivery, Successor(copy_of(delivery)))
    (copy,) = await reader.take(1)
    assert copy.marked

    await reader.live.replace(copy, Successor(copy_of(copy, 5, "refunds.dlq"), dead=True))

    assert await room.pending("refunds", "refunds") == []
    assert len(await room.entries("refunds")) == 1
    assert len(await room.entries("refunds.dlq")) == 1


@pytest.mark.rule("7.4")
async def test_what_is_handed_back_keeps_its_count_and_is_taken_over_at_once(room: Room) -> None:
    reader, delivery = await one(room)

    await reader.live.give_back([delivery], spent=False)
    reader.settled(delivery)

    assert await room.pending("refunds", "refunds") == [(delivery.entry, 0)]
    another = await room.reader(SOURCE)
    (again,) = await another.orphans(1)
    assert again.id == delivery.id
    assert again.server_count == 1
    assert not again.special


@pytest.mark.rule("7.4")
async def test_what_is_handed_back_after_a_run_keeps_the_raised_count(room: Room) -> None:
    reader, delivery = await one(room)

    await reader.live.give_back([delivery])
    reader.settled(delivery)

    another = await room.reader(SOURCE)
    (again,) = await another.orphans(1)
    assert again.server_count == 2
    assert again.special


@pytest.mark.rule("5.4")
async def test_a_trimmed_entry_is_handed_back_from_memory(room: Room) -> None:
    """Claiming it would clear it from the pending list; what it said is here alone."""
    reader, delivery = await one(room)
    await room.ask("XTRIM", "refunds", "MAXLEN", 0)

    await reader.live.give_back([delivery], spent=False)
    reader.settled(delivery)

    assert await room.pending("refunds", "refunds") == []
    (again,) = await reader.take(1)
    assert again.payload == b"pay"
    assert again.headers.raw("a") == b"1"
    assert again.header_count == 0


@pytest.mark.rule("6.6")
async def test_what_is_handed_back_to_a_group_that_is_gone_is_delivered_again(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")

    await reader.live.give_back([delivery], spent=False)
    reader.settled(delivery)

    another = await room.reader(SOURCE)
    (again,) = await another.take(1)
    assert again.id == delivery.id


@pytest.mark.rule("5.4")
async def test_what_another_holds_is_not_handed_back(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XCLAIM", "refunds", "refunds", "another", 0, delivery.id)

    await reader.live.give_back([delivery], spent=False)

    assert await room.pending("refunds", "refunds") == [(delivery.entry, 2)]


async def idle(room: Room) -> int:
    """Milliseconds that the one pending entry is idle."""
    ((_, _, milliseconds, _),) = await room.ask("XPENDING", "refunds", "refunds", "-", "+", 10)
    return int(milliseconds)


@pytest.mark.rule("6.2")
async def test_touching_renews_the_claim_and_not_the_count(room: Room) -> None:
    reader, delivery = await one(room)
    await asyncio.sleep(0.15)
    before = await idle(room)

    await reader.live.touch([delivery])

    assert before >= 150
    assert await idle(room) < 100
    assert await room.pending("refunds", "refunds") == [(delivery.entry, 1)]


@pytest.mark.rule("6.2")
async def test_touching_leaves_alone_what_is_another_s(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XCLAIM", "refunds", "refunds", "another", 0, delivery.id)

    await reader.live.touch([delivery])

    assert [row[1] for row in await room.ask("XPENDING", "refunds", "refunds", "-", "+", 10)] == [
        b"another"
    ]


@pytest.mark.rule("5.4")
async def test_touching_a_trimmed_entry_does_not_clear_it(room: Room) -> None:
    """The fence has to hold until the worker is done."""
    reader, delivery = await one(room)
    await room.ask("XTRIM", "refunds", "MAXLEN", 0)

    await reader.live.touch([delivery])

    assert await room.pending("refunds", "refunds") == [(delivery.entry, 1)]


@pytest.mark.case("ML-02")
async def test_full_memory_leaves_the_original_pending(own_room: Room) -> None:
    reader, delivery = await one(own_room)
    await own_room.ask("CONFIG", "SET", "maxmemory", "1")
    successor = Successor(copy_of(delivery))

    with pytest.raises(BrokerRefused, match="OOM") as told:
        await reader.live.replace(delivery, successor)

    assert not told.value.permanent
    assert await own_room.pending("refunds", "refunds") == [(delivery.entry, 1)]
    await own_room.ask("CONFIG", "SET", "maxmemory", "0")
    assert await reader.live.replace(delivery, successor) is Stored.STORED


async def test_a_script_that_the_access_list_forbids_settles_nothing(own_room: Room) -> None:
    reader, delivery = await one(own_room)
    await own_room.ask("ACL", "SETUSER", "default", "resetkeys", "~refunds")

    with pytest.raises(BrokerRefused, match=r"key 'refunds\.dlq': NOPERM") as told:
        await reader.live.replace(
            delivery, Successor(copy_of(delivery, 1, "refunds.dlq"), dead=True)
        )

    assert not told.value.permanent
    assert await own_room.pending("refunds", "refunds") == [(delivery.entry, 1)]


async def test_acknowledgements_that_are_refused_are_repeated(own_room: Room) -> None:
    transport = await own_room.transport()
    await own_room.fill("refunds", 1)
    reader = await own_room.reader(SOURCE, transport)
    (delivery,) = await reader.take(1)
    await own_room.ask("ACL", "SETUSER", "default", "-xack")

    reader.live.acknowledge([delivery])
    reader.settled(delivery)
    await asyncio.sleep(0.1)

    assert "acknowledgements are refused" in str(transport.trouble)
    assert await own_room.pending("refunds", "refunds") == [(delivery.entry, 1)]
    await own_room.ask("ACL", "SETUSER", "default", "+xack")
    await confirmed(reader.live)
    assert await own_room.pending("refunds", "refunds") == []
    assert transport.trouble is None
