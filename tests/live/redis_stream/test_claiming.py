"""Entries that stay pending and are claimed again after ``min_idle`` (rules 6.2 and 6.3)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from surestream.contract import Stored, SubscriptionTerms, Successor
from surestream.delivery import Delivery
from surestream.errors import DeclarationError
from surestream.redis.entries import StreamDelivery
from surestream.redis.sources import ClaimingStream, DurableZset, RedisStream
from tests.live.redis_stream.room import Reader, Room, confirmed, copy_of, ids, lines, payloads

WAITING = b"surestream-waiting"


def claiming(min_idle: float = 0.3, **options: Any) -> ClaimingStream:
    return RedisStream.claiming("refunds", group="refunds", min_idle=min_idle, block=0.2, **options)


async def one(room: Room, source: ClaimingStream | None = None) -> tuple[Reader, StreamDelivery]:
    """A reader that holds one delivery."""
    await room.add("refunds", "_payload", "pay", "h:a", "1")
    reader = await room.reader(source or claiming())
    (delivery,) = await reader.take(1)
    assert isinstance(delivery, StreamDelivery)
    return reader, delivery


async def retry(reader: Reader, *deliveries: Delivery) -> None:
    """What the runtime does for an outcome of retry."""
    await reader.live.give_back(deliveries, after=0.3)
    reader.settled(*deliveries)


async def row(room: Room) -> tuple[bytes, bytes, int, int]:
    """Id, consumer, milliseconds idle and count of the one pending entry."""
    ((entry, consumer, idle, count),) = await room.ask(
        "XPENDING", "refunds", "refunds", "-", "+", 10
    )
    return entry, consumer, idle, count


async def test_new_entries_are_delivered_as_on_any_stream(room: Room) -> None:
    await room.fill("refunds", 3)
    reader = await room.reader(claiming())

    deliveries = await reader.take(3)

    assert payloads(deliveries) == [b"0", b"1", b"2"]
    assert not any(delivery.special for delivery in deliveries)
    await reader.ack(*deliveries)
    assert await room.pending("refunds", "refunds") == []


async def test_a_retry_leaves_the_entry_pending_and_the_same_one_is_back(room: Room) -> None:
    reader, delivery = await one(room)
    began = time.monotonic()

    await retry(reader, delivery)

    entry, consumer, idle, count = await row(room)
    assert (entry, consumer, count) == (delivery.entry, WAITING, 1)
    assert idle < 200
    assert (await reader.recover()).deliveries == []
    (again,) = await reader.orphans(1)
    assert time.monotonic() - began >= 0.3
    assert again.id == delivery.id
    assert (again.payload, again.server_count) == (b"pay", 2)
    assert again.special
    assert len(await room.entries("refunds")) == 1


@pytest.mark.rule("6.2")
async def test_the_outcome_begins_the_wait_anew(room: Room) -> None:
    """However long the handler ran before it decided."""
    reader, delivery = await one(room)
    await asyncio.sleep(0.25)
    began = time.monotonic()

    await retry(reader, delivery)
    await reader.orphans(1)

    assert time.monotonic() - began >= 0.3


@pytest.mark.rule("6.2")
async def test_the_wait_for_the_next_look_is_cut_to_the_next_deadline(room: Room) -> None:
    reader, delivery = await one(room, claiming(min_idle=2))
    await retry(reader, delivery)

    found = await reader.recover()

    assert not found.deliveries
    assert not found.more
    assert found.next_in is not None
    assert 1 < found.next_in <= 2


async def test_what_a_dead_worker_held_is_claimed_and_counted(room: Room) -> None:
    await room.fill("refunds", 3)
    reader = await room.reader(claiming())
    await room.ask("XREADGROUP", "GROUP", "refunds", "dead", "STREAMS", "refunds", ">")

    found = await reader.orphans(3)

    assert payloads(found) == [b"0", b"1", b"2"]
    assert {delivery.server_count for delivery in found} == {2}


@pytest.mark.rule("6.2")
async def test_what_is_touched_is_not_claimed(room: Room) -> None:
    reader, delivery = await one(room)
    other = await room.reader(claiming())
    for _ in range(6):
        await asyncio.sleep(0.1)
        await reader.live.touch([delivery])
        assert (await other.recover()).deliveries == []
        assert (await reader.recover()).deliveries == []

    assert (await row(room))[3] == 1


async def test_each_entry_is_claimed_by_one_of_several(room: Room) -> None:
    await room.fill("refunds", 30)
    readers = [await room.reader(claiming()) for _ in range(3)]
    await room.ask("XREADGROUP", "GROUP", "refunds", "dead", "STREAMS", "refunds", ">")
    await asyncio.sleep(0.35)

    async def all_there_is(reader: Reader) -> list[Delivery]:
        found: list[Delivery] = []
        while (look := await reader.recover(1)).deliveries or look.more:
            found += look.deliveries
        return found

    found = await asyncio.gather(*map(all_there_is, readers))

    everything = [entry.decode() for entry, _ in await room.pending("refunds", "refunds")]
    assert sorted(ids([*found[0], *found[1], *found[2]])) == sorted(everything)
    assert {count for _, count in await room.pending("refunds", "refunds")} == {2}


@pytest.mark.rule("5.4")
async def test_a_retry_of_what_another_holds_does_nothing(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XCLAIM", "refunds", "refunds", "another", 0, delivery.id)

    await retry(reader, delivery)

    entry, consumer, _, count = await row(room)
    assert (entry, consumer, count) == (delivery.entry, b"another", 2)


@pytest.mark.rule("5.4")
async def test_a_retry_of_a_trimmed_entry_is_stored_from_memory(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XTRIM", "refunds", "MAXLEN", 0)

    await retry(reader, delivery)

    assert await room.pending("refunds", "refunds") == []
    (copy,) = await room.entries("refunds")
    assert copy[b"_payload"] == b"pay"
    assert copy[b"h:a"] == b"1"
    assert copy[b"h:x-ruststream-retry-count"] == b"1"
    assert copy[b"h:x-surestream-for"] == b"refunds/refunds"
    assert int(copy[b"h:x-surestream-not-before"]) > time.time() * 1000


@pytest.mark.rule("6.6")
async def test_a_retry_in_a_group_that_is_gone_is_not_lost(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")

    await retry(reader, delivery)

    found = [*await reader.pull(), *(await reader.recover()).deliveries]
    if not found:
        found = await reader.orphans(1)
    assert ids(found) == [delivery.id]


@pytest.mark.case("DE-01")
async def test_entries_that_are_gone_are_cleared_with_one_line(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    entries = await room.fill("refunds", 5)
    reader = await room.reader(claiming())
    await retry(reader, *await reader.take(5))
    await room.ask("XDEL", "refunds", entries[1], entries[3])
    await room.ask("XTRIM", "refunds", "MAXLEN", "=", 2)

    found = await reader.orphans(2)
    await reader.recover()

    assert payloads(found) == [b"2", b"4"]
    assert len(await room.pending("refunds", "refunds")) == 2
    assert len([line for line in lines(caplog) if "no longer in the stream" in line]) == 1


@pytest.mark.case("WC-16")
@pytest.mark.rule("3.7")
async def test_a_rewound_group_counts_from_1_again(room: Room) -> None:
    reader, delivery = await one(room)
    await retry(reader, delivery)
    (second,) = await reader.orphans(1)
    assert second.server_count == 2
    await reader.ack(second)
    await room.ask("XGROUP", "SETID", "refunds", "refunds", "0")

    (again,) = await reader.take(1)

    assert (again.id, again.server_count) == (delivery.id, 1)


@pytest.mark.case("CK-09")
async def test_half_seconds_are_not_cut(room: Room) -> None:
    reader, delivery = await one(room, claiming(min_idle=1.5))
    began = time.monotonic()
    await retry(reader, delivery)

    await reader.orphans(1, within=10)

    assert 1.5 <= time.monotonic() - began < 2.5


# ── lost replies, names, the end ────────────────────────────────────────────


@pytest.mark.rule("6.4")
async def test_what_waits_for_its_claim_is_no_lost_reply(own_room: Room) -> None:
    await own_room.fill("refunds", 2)
    reader = await own_room.reader(claiming(min_idle=60))
    first, _ = await reader.take(2)
    await retry(reader, first)
    await own_room.fill("refunds", 1)
    consumer = reader.live.seat.consumer
    await own_room.ask("XREADGROUP", "GROUP", "refunds", consumer, "STREAMS", "refunds", ">")
    await own_room.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    (found,) = await reader.take(1)

    assert (found.payload, found.server_count) == (b"0", 1)
    assert await reader.quiet()


async def test_a_consumer_name_of_one_s_own_takes_nothing_before_min_idle(room: Room) -> None:
    """What its earlier run left behind may be waiting, and may be what killed it."""
    source = claiming(consumer="me")
    await room.fill("refunds", 2)
    await room.ask("XGROUP", "CREATE", "refunds", "refunds", "0")
    await room.ask("XREADGROUP", "GROUP", "refunds", "me", "STREAMS", "refunds", ">")
    reader = await room.reader(source)

    assert (await reader.recover()).deliveries == []
    assert await reader.quiet()
    found = await reader.orphans(2)

    assert {delivery.server_count for delivery in found} == {2}


async def test_one_consumer_name_twice_is_refused(room: Room) -> None:
    transport = await room.transport()
    await room.reader(claiming(consumer="me"), transport)

    with pytest.raises(DeclarationError, match='consumer="me"'):
        await room.reader(claiming(consumer="me"), transport)


@pytest.mark.case("MG-02")
async def test_no_consumer_stays_behind(room: Room) -> None:
    reader, delivery = await one(room)
    await retry(reader, delivery)
    (again,) = await reader.orphans(1)
    await reader.ack(again)
    await asyncio.sleep(0.05)
    another = await room.reader(claiming())
    group = another.live._group  # pyright: ignore[reportPrivateUsage]
    group._silent_ms = 10  # pyright: ignore[reportPrivateUsage]

    await reader.close()
    await group.clean()

    assert await room.ask("XINFO", "CONSUMERS", "refunds", "refunds") == []


@pytest.mark.case("MG-02")
async def test_the_consumer_that_entries_wait_for_is_not_removed_with_them(room: Room) -> None:
    reader, delivery = await one(room, claiming(min_idle=60))
    await retry(reader, delivery)
    await asyncio.sleep(0.05)
    group = reader.live._group  # pyright: ignore[reportPrivateUsage]
    group._silent_ms = 10  # pyright: ignore[reportPrivateUsage]

    await group.clean()

    assert (await row(room))[:2] == (delivery.entry, WAITING)


@pytest.mark.case("SD-01")
@pytest.mark.rule("7.4")
async def test_what_was_not_started_is_handed_back_uncounted_and_at_once(room: Room) -> None:
    reader, delivery = await one(room, claiming(min_idle=60))

    await reader.live.give_back([delivery], spent=False)
    reader.settled(delivery)
    await reader.close()

    another = await room.reader(claiming(min_idle=60))
    (again,) = await another.orphans(1, within=1)
    assert (again.id, again.server_count) == (delivery.id, 1)


@pytest.mark.rule("3.6")
async def test_what_was_handed_back_is_the_first_to_be_taken_again(room: Room) -> None:
    await room.fill("refunds", 4)
    reader = await room.reader(claiming())
    await retry(reader, *await reader.take(4))
    first, second = await reader.orphans(2)

    await reader.live.give_back([second], spent=False)
    reader.settled(second)

    assert ids((await reader.recover(1)).deliveries) == [second.id]
    assert payloads([first]) == [b"0"]


# ── beside a plain subscription ─────────────────────────────────────────────


@pytest.mark.rule("6.4")
async def test_a_plain_subscription_takes_nothing_over_before_min_idle(room: Room) -> None:
    transport = await room.transport()
    plain = RedisStream("refunds", group="refunds", block=0.2, recover_after=0.2)
    await room.fill("refunds", 1)
    claims = await room.reader(claiming(min_idle=1), transport)
    takes = await room.reader(plain, transport)
    await retry(claims, *await claims.take(1))
    await asyncio.sleep(0.4)

    assert (await takes.recover()).deliveries == []
    found = await claims.orphans(1)

    assert found[0].server_count == 2


# ── delays ──────────────────────────────────────────────────────────────────

DELAYED = claiming(min_idle=0.3, delayed_retry=DurableZset("refunds.delayed"))


@pytest.mark.case("DU-01")
async def test_a_delay_beyond_min_idle_is_served_once_and_exactly(room: Room) -> None:
    """Three workers; the original was acknowledged when the delay was stored."""
    reader, delivery = await one(room, DELAYED)
    others = [await room.reader(DELAYED) for _ in range(2)]
    began = time.monotonic()

    headers = copy_of(delivery, 1).headers
    assert await reader.live.park(delivery, headers, 1.0) is Stored.STORED
    reader.settled(delivery)

    assert await room.pending("refunds", "refunds") == []
    came: list[Delivery] = []
    while time.monotonic() - began < 2:
        for each in (reader, *others):
            came += [*await each.pull(), *(await each.recover()).deliveries]
        if came:
            assert time.monotonic() - began >= 1
            break
    assert [again.header_count for again in came] == [1]
    assert (came[0].marked, came[0].server_count) == (True, 1)


@pytest.mark.rule("3.6")
async def test_a_last_chance_does_not_count_while_it_is_read_ahead(room: Room) -> None:
    """A neighbor that kills the process would bury it unrun (rule 3.5)."""
    reader = await capped(room, DELAYED, 3)
    await room.fill("refunds", 1)
    (first,) = await reader.take(1)
    await reader.live.park(first, copy_of(first, 2).headers, 0.01)
    reader.settled(first)
    (last,) = await reader.take(1)

    assert (last.server_count, last.header_count) == (1, 2)
    assert await room.pending("refunds", "refunds") == [(last.id.encode(), 0)]
    # Claimed from a process that died meanwhile, it is what it was.
    another = await capped(room, DELAYED, 3)
    (again,) = await another.orphans(1)
    assert (again.server_count, again.header_count) == (1, 2)
    assert again.marked


@pytest.mark.rule("5.4")
async def test_the_fence_holds_for_a_last_chance_too(room: Room) -> None:
    reader = await capped(room, DELAYED, 2)
    await room.fill("refunds", 2)
    for delivery in await reader.take(2):
        await reader.live.park(delivery, copy_of(delivery, 1).headers, 0.01)
        reader.settled(delivery)
    first, second = await reader.take(2)
    await reader.live.touch([first, second])
    await room.ask("XCLAIM", "refunds", "refunds", "another", 0, second.id)

    dead = [Successor(copy_of(each, 2, "refunds.dlq"), dead=True) for each in (first, second)]

    assert await reader.live.replace(first, dead[0]) is Stored.STORED
    assert await reader.live.replace(second, dead[1]) is Stored.OVERTAKEN
    assert len(await room.entries("refunds.dlq")) == 1


async def capped(room: Room, source: ClaimingStream, cap: int) -> Reader:
    """A reader of a mount with ``max_attempts``."""
    transport = await room.transport()
    subscribe = transport.subscribe

    async def with_cap(source: Any, terms: SubscriptionTerms, origin: Any) -> Any:
        capped = SubscriptionTerms(terms.name, terms.where, max_attempts=cap)
        return await subscribe(source, capped, origin)

    transport.subscribe = with_cap  # type: ignore[method-assign]
    return await room.reader(source, transport)


@pytest.mark.rule("5.4")
async def test_a_last_chance_that_was_trimmed_on_its_way_keeps_its_fence(room: Room) -> None:
    reader = await capped(room, DELAYED, 2)
    await room.fill("refunds", 1)
    (first,) = await reader.take(1)
    await reader.live.park(first, copy_of(first, 1).headers, 0.01)
    reader.settled(first)
    uncount = reader.live._arrivals._uncount  # pyright: ignore[reportPrivateUsage]

    async def late(deliveries: Any) -> None:
        await room.ask("XTRIM", "refunds", "MAXLEN", 0)
        await uncount(deliveries)

    reader.live._arrivals._uncount = late  # pyright: ignore[reportPrivateUsage]
    (last,) = await reader.take(1)

    dead = Successor(copy_of(last, 2, "refunds.dlq"), dead=True)
    assert await reader.live.replace(last, dead) is Stored.STORED
    assert len(await room.entries("refunds.dlq")) == 1


@pytest.mark.rule("6.6")
async def test_a_last_chance_in_hand_keeps_its_fence_when_the_group_is_lost(room: Room) -> None:
    reader = await capped(room, DELAYED, 2)
    await room.fill("refunds", 1)
    (first,) = await reader.take(1)
    await reader.live.park(first, copy_of(first, 1).headers, 0.01)
    reader.settled(first)
    (last,) = await reader.take(1)
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")

    await reader.quiet()
    dead = Successor(copy_of(last, 2, "refunds.dlq"), dead=True)

    assert await reader.live.replace(last, dead) is Stored.STORED
    await confirmed(reader.live)
    assert await room.pending("refunds", "refunds") == []
