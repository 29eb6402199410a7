"""Orphans, lost replies, lost groups, dead consumers (rules 6.4 and 6.6)."""

from __future__ import annotations

import asyncio

import pytest

from surestream.contract import Stored, Successor
from surestream.delivery import Delivery
from surestream.message import Outgoing
from surestream.redis.sources import DurableZset, RedisStream, StreamSource
from surestream.redis.transport import RedisTransport
from tests.live.redis_stream.room import Reader, Room, confirmed, copy_of, ids, lines, payloads

SOURCE = RedisStream("refunds", group="refunds", block=0.2, recover_after=0.3)


async def vanish(reader: Reader, transport: RedisTransport) -> None:
    """The process is gone, as after kill -9: what it held stays pending."""
    reader.live._acks.close()  # pyright: ignore[reportPrivateUsage]
    await reader.live._reading.close()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.rule("6.4")
async def test_what_a_dead_worker_held_is_taken_over_after_its_lease(room: Room) -> None:
    entries = await room.fill("refunds", 3)
    transport = await room.transport()
    dead = await room.reader(SOURCE, transport)
    await dead.take(3)
    await vanish(dead, transport)
    reader = await room.reader(SOURCE)

    assert (await reader.recover()).deliveries == []
    found = await reader.orphans(3)

    assert ids(found) == [entry.decode() for entry in entries]
    assert {delivery.server_count for delivery in found} == {2}
    assert all(delivery.special for delivery in found)


@pytest.mark.rule("3.6")
async def test_no_more_is_taken_over_than_asked_for(room: Room) -> None:
    await room.fill("refunds", 5)
    transport = await room.transport()
    dead = await room.reader(SOURCE, transport)
    await dead.take(5)
    await vanish(dead, transport)
    reader = await room.reader(SOURCE)
    await asyncio.sleep(0.35)

    found = await reader.recover(2)

    assert len(found.deliveries) == 2
    assert found.more
    counts = [count for _, count in await room.pending("refunds", "refunds")]
    assert sorted(counts) == [1, 1, 1, 2, 2]


@pytest.mark.rule("6.4")
async def test_what_is_in_hand_here_is_not_taken_from_itself(room: Room) -> None:
    """A handler that runs longer than its claim is renewed."""
    await room.fill("refunds", 2)
    reader = await room.reader(SOURCE)
    held, acked = await reader.take(2)
    await asyncio.sleep(0.35)
    reader.settled(acked)
    reader.live.acknowledge([acked])

    assert (await reader.recover()).deliveries == []
    assert await room.pending("refunds", "refunds") == [(held.id.encode(), 1)]


@pytest.mark.rule("6.4")
async def test_a_touched_entry_is_not_taken_over(room: Room) -> None:
    await room.fill("refunds", 1)
    alive = await room.reader(SOURCE)
    held = await alive.take(1)
    reader = await room.reader(SOURCE)
    for _ in range(5):
        await asyncio.sleep(0.1)
        await alive.live.touch(held)
        assert (await reader.recover()).deliveries == []


@pytest.mark.rule("6.4")
async def test_the_largest_lease_declared_in_the_process_holds(room: Room) -> None:
    slow = RedisStream("refunds", group="refunds", block=0.2, recover_after=30)
    await room.fill("refunds", 1)
    transport = await room.transport()
    holder = await room.reader(slow, transport)
    await holder.take(1)
    reader = await room.reader(SOURCE, transport)
    await asyncio.sleep(0.4)

    assert (await reader.recover()).deliveries == []


async def test_without_recovery_nothing_is_taken_over(room: Room) -> None:
    source = RedisStream("refunds", group="refunds", block=0.2, recover_after=None)
    await room.fill("refunds", 1)
    transport = await room.transport()
    dead = await room.reader(source, transport)
    await dead.take(1)
    await vanish(dead, transport)
    reader = await room.reader(source)

    found = await reader.recover()

    assert not found.deliveries
    assert found.next_in is None


@pytest.mark.rule("6.4")
@pytest.mark.parametrize("recover_after", [60.0, None])
async def test_a_consumer_name_of_one_s_own_takes_its_entries_back_at_once(
    room: Room, recover_after: float | None
) -> None:
    source = RedisStream(
        "refunds", group="refunds", consumer="me", block=0.2, recover_after=recover_after
    )
    await room.fill("refunds", 3)
    transport = await room.transport()
    dead = await room.reader(source, transport)
    first = await dead.take(3)
    await dead.ack(first[1])
    await vanish(dead, transport)
    reader = await room.reader(source)

    found = [*(await reader.recover(1)).deliveries, *(await reader.recover(5)).deliveries]

    assert payloads(found) == [b"0", b"2"]
    assert {delivery.server_count for delivery in found} == {2}
    assert not (await reader.recover()).deliveries


@pytest.mark.case("DE-01")
async def test_entries_that_are_gone_are_cleared_with_one_line(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    entries = await room.fill("refunds", 5)
    transport = await room.transport()
    dead = await room.reader(SOURCE, transport)
    await dead.take(5)
    await vanish(dead, transport)
    await room.ask("XDEL", "refunds", entries[1], entries[3])
    await room.ask("XTRIM", "refunds", "MAXLEN", "=", 2)
    reader = await room.reader(SOURCE)

    found = await reader.orphans(2)
    await reader.recover()

    assert payloads(found) == [b"2", b"4"]
    assert len(await room.pending("refunds", "refunds")) == 2
    assert len([line for line in lines(caplog) if "no longer in the stream" in line]) == 1


@pytest.mark.rule("3.6")
async def test_what_a_cancelled_look_took_over_is_handed_out_by_the_next(room: Room) -> None:
    await room.fill("refunds", 1)
    transport = await room.transport()
    dead = await room.reader(SOURCE, transport)
    await dead.take(1)
    await vanish(dead, transport)
    reader = await room.reader(SOURCE)
    await asyncio.sleep(0.35)
    found: list[Delivery] = []
    for _ in range(20):
        look = asyncio.create_task(reader.live.recover(1))
        for _ in range(6):
            await asyncio.sleep(0)
        look.cancel()
        await asyncio.wait([look])
        if not look.cancelled():
            found += look.result().deliveries

    found += await reader.orphans(1 - len(found))

    assert [delivery.server_count for delivery in found] == [2]


@pytest.mark.rule("6.4")
async def test_a_lost_reply_is_read_again_with_its_count(own_room: Room) -> None:
    """The connection ends while the reply is on its way."""
    await own_room.fill("refunds", 3)
    reader = await own_room.reader(SOURCE)
    held = await reader.take(1)
    consumer = reader.live.seat.consumer
    # Delivered to this consumer by a connection that is lost.
    await own_room.ask(
        *("XREADGROUP", "GROUP", "refunds", consumer, "COUNT", 2, "STREAMS", "refunds", ">")
    )
    await own_room.ask("CLIENT", "KILL", "ID", reader.live._reading.client_id)  # pyright: ignore[reportPrivateUsage]

    found = await reader.take(2)

    assert payloads(held) == [b"0"]
    assert payloads(found) == [b"1", b"2"]
    assert {delivery.server_count for delivery in found} == {1}


@pytest.mark.rule("6.4")
async def test_unconfirmed_acknowledgements_are_not_read_again(own_room: Room) -> None:
    await own_room.fill("refunds", 2)
    reader = await own_room.reader(SOURCE)
    taken = await reader.take(2)
    reader.settled(*taken)
    await own_room.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    reader.live.acknowledge(taken)

    assert await reader.quiet()
    await confirmed(reader.live)
    assert await own_room.pending("refunds", "refunds") == []


@pytest.mark.case("RC-06")
async def test_restarts_during_blocking_reads(own_room: Room) -> None:
    reader = await own_room.reader(RedisStream("refunds", group="refunds", block=5))
    taking = asyncio.create_task(reader.take(20, within=20))
    for _ in range(3):
        await asyncio.sleep(0.2)
        await asyncio.to_thread(own_room.control.kill)
        await asyncio.to_thread(own_room.control.start)
    transport = await own_room.transport()
    for number in range(20):
        await transport.publish(Outgoing("refunds", b"%d" % number))

    assert sorted(payloads(await taking), key=int) == [b"%d" % number for number in range(20)]


@pytest.mark.case("RC-01")
@pytest.mark.rule("6.6")
async def test_a_group_that_is_gone_with_its_stream_is_created_again(room: Room) -> None:
    await room.fill("refunds", 2)
    reader = await room.reader(SOURCE)
    await reader.ack(*await reader.take(2))
    pull = asyncio.create_task(reader.take(10))
    await asyncio.sleep(0.05)
    await room.ask("FLUSHALL")
    await room.fill("refunds", 10)

    assert payloads(await pull) == [b"%d" % number for number in range(10)]


@pytest.mark.rule("6.6")
async def test_a_destroyed_group_goes_on_at_the_last_entry_it_saw(room: Room) -> None:
    await room.fill("refunds", 3)
    reader = await room.reader(SOURCE)
    await reader.ack(*await reader.take(3))
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")
    await room.add("refunds", "_payload", "new")

    assert payloads(await reader.take(1)) == [b"new"]
    assert await reader.quiet()


@pytest.mark.rule("6.6")
async def test_what_is_in_hand_when_the_group_is_lost_is_joined_and_keeps_its_fence(
    room: Room,
) -> None:
    await room.fill("refunds", 4)
    reader = await room.reader(SOURCE)
    first, second, third, fourth = await reader.take(4)
    await reader.ack(first, third)
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")
    await room.add("refunds", "_payload", "new")

    # The new group begins below the second one: the third comes again, and is known to be done
    # or not; the second and fourth are in hand.
    fresh = await reader.take(2)

    assert payloads(fresh) == [b"2", b"new"]
    assert {second.server_count, fourth.server_count} == {1}
    assert [entry for entry, _ in await room.pending("refunds", "refunds")] == [
        delivery.id.encode() for delivery in (second, third, fourth, fresh[1])
    ]
    successor = Successor(copy_of(second, 5, "dlq"), dead=True)
    assert await reader.live.replace(second, successor) is Stored.STORED
    await reader.ack(fourth, *fresh)
    assert await room.pending("refunds", "refunds") == []


@pytest.mark.rule("6.6")
async def test_what_was_settled_between_the_loss_and_the_new_group_is_not_run_again(
    room: Room,
) -> None:
    await room.fill("refunds", 2)
    reader = await room.reader(SOURCE)
    first, second = await reader.take(2)
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")
    await reader.live._group.mend()  # pyright: ignore[reportPrivateUsage]
    await reader.ack(second)

    assert await reader.quiet()
    await confirmed(reader.live)
    assert await room.pending("refunds", "refunds") == [(first.id.encode(), 1)]


@pytest.mark.rule("6.6")
async def test_a_successor_does_not_wait_for_the_new_group(room: Room) -> None:
    """It is stored at once, and what the new group delivers of it is known to be settled."""
    await room.fill("refunds", 1)
    reader = await room.reader(SOURCE)
    (held,) = await reader.take(1)
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")

    stored = await reader.live.replace(held, Successor(copy_of(held, 5, "dlq"), dead=True))
    reader.settled(held)

    assert stored is Stored.STORED
    assert await reader.quiet()
    await confirmed(reader.live)
    assert await room.pending("refunds", "refunds") == []
    assert len(await room.entries("dlq")) == 1


@pytest.mark.rule("6.6")
async def test_entries_in_hand_are_adopted_by_a_group_that_another_created(room: Room) -> None:
    """The other began beyond them."""
    await room.fill("refunds", 3)
    reader = await room.reader(SOURCE)
    first, second, third = await reader.take(3)
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")
    await room.ask("XGROUP", "CREATE", "refunds", "refunds", second.id)

    await reader.live._group.mend()  # pyright: ignore[reportPrivateUsage]

    everything = [(delivery.id.encode(), 1) for delivery in (first, second, third)]
    assert await room.pending("refunds", "refunds") == everything
    assert await reader.quiet()
    assert await room.pending("refunds", "refunds") == everything
    for delivery in (first, second, third):
        successor = Successor(copy_of(delivery, 5, "dlq"), dead=True)
        assert await reader.live.replace(delivery, successor) is Stored.STORED
    assert await room.pending("refunds", "refunds") == []


@pytest.mark.rule("6.6")
async def test_two_processes_that_lose_their_group_lose_no_message(room: Room) -> None:
    await room.fill("refunds", 6)
    one, other = await room.reader(SOURCE), await room.reader(SOURCE)
    held = [await one.take(2), await other.take(2), await one.take(2)]
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")

    rest = [*await one.pull(), *await other.pull()]

    for reader, deliveries in zip((one, other, one), held, strict=True):
        for delivery in deliveries:
            await reader.live.replace(delivery, Successor(copy_of(delivery, 5, "dlq"), dead=True))
            reader.settled(delivery)
    done = [entry[b"_payload"] for entry in await room.entries("dlq")] + payloads(rest)
    assert {b"%d" % number for number in range(6)} <= set(done)


async def unnoticed(room: Room, source: StreamSource, count: int = 1) -> tuple[Reader, Reader]:
    """A reader that holds entries, and one that has created their lost group again above them,
    while the first had no read under way."""
    await room.fill("refunds", count)
    busy = await room.reader(source)
    await busy.take(count)
    other = await room.reader(source)
    await room.fill("refunds", 1)
    await other.ack(*await other.take(1))
    await room.ask("XGROUP", "DESTROY", "refunds", "refunds")
    await room.fill("refunds", 1)
    await other.ack(*await other.take(1))
    assert await room.pending("refunds", "refunds") == []
    return busy, other


@pytest.mark.rule("6.6")
async def test_a_successor_is_stored_where_a_sibling_created_the_group_again(room: Room) -> None:
    """The new group begins above it: nobody would ever get it again."""
    busy, _ = await unnoticed(room, SOURCE)
    (held,) = busy.origin.hand

    stored = await busy.live.replace(held, Successor(copy_of(held, 5, "dlq"), dead=True))

    assert stored is Stored.STORED
    assert len(await room.entries("dlq")) == 1
    assert await room.pending("refunds", "refunds") == []
    assert await busy.live.replace(held, Successor(copy_of(held, 5, "dlq"), dead=True)) is (
        Stored.OVERTAKEN
    )


@pytest.mark.rule("6.6")
async def test_a_touch_notices_it_too(room: Room) -> None:
    busy, _ = await unnoticed(room, SOURCE, 3)

    await busy.live.touch(list(busy.origin.hand))

    assert [entry for entry, _ in await room.pending("refunds", "refunds")] == [
        held.id.encode() for held in busy.origin.hand
    ]


@pytest.mark.rule("6.6")
async def test_a_delay_and_a_retry_notice_it_too(room: Room) -> None:
    delayed = RedisStream.claiming(
        "refunds", group="refunds", block=0.2, min_idle=60, delayed_retry=DurableZset("delayed")
    )
    busy, _ = await unnoticed(room, delayed, 2)
    first, second = busy.origin.hand

    assert await busy.live.park(first, copy_of(first).headers, 60) is Stored.STORED
    await busy.live.give_back([second], after=60)

    assert await room.ask("ZCARD", "delayed") == 1
    assert await room.pending("refunds", "refunds") == [(second.id.encode(), 1)]


@pytest.mark.rule("5.4")
async def test_what_a_sibling_settled_is_overtaken_and_not_forgotten(room: Room) -> None:
    """Pending for nobody, as after a lost group; but the group is the one it came from."""
    await room.fill("refunds", 1)
    busy = await room.reader(SOURCE)
    (held,) = await busy.take(1)
    await room.ask("XACK", "refunds", "refunds", held.id)

    await busy.live.touch([held])

    assert await busy.live.replace(held, Successor(copy_of(held, 5, "dlq"), dead=True)) is (
        Stored.OVERTAKEN
    )
    assert await room.entries("dlq") == []


@pytest.mark.case("MG-02")
async def test_the_trace_of_a_group_created_again_goes_away(room: Room) -> None:
    _, other = await unnoticed(room, SOURCE)
    await asyncio.sleep(0.05)
    group = other.live._group  # pyright: ignore[reportPrivateUsage]
    group._silent_ms = 10  # pyright: ignore[reportPrivateUsage]

    await group.clean()

    rows = await room.ask("XINFO", "CONSUMERS", "refunds", "refunds")
    assert [row[1].decode() for row in rows] == [other.live.seat.consumer]


@pytest.mark.rule("7.4")
@pytest.mark.case("SD-01")
async def test_closing_hands_back_what_was_not_handed_out(room: Room) -> None:
    reader = await room.reader(RedisStream("refunds", group="refunds", block=5))
    pull = asyncio.create_task(reader.live.pull(5))
    await asyncio.sleep(0.05)
    pull.cancel()
    await asyncio.wait([pull])
    await room.fill("refunds", 1)
    await asyncio.sleep(0.05)

    await reader.close()

    assert [count for _, count in await room.pending("refunds", "refunds")] == [0]
    another = await room.reader(SOURCE)
    (found,) = await another.orphans(1, within=1)
    assert found.server_count == 1


@pytest.mark.case("MG-02")
async def test_a_consumer_leaves_with_its_process(room: Room) -> None:
    reader = await room.reader(SOURCE)
    await room.fill("refunds", 1)
    await reader.ack(*await reader.take(1))

    await reader.close()

    assert await room.ask("XINFO", "CONSUMERS", "refunds", "refunds") == []


@pytest.mark.case("MG-02")
async def test_a_consumer_that_holds_something_stays(room: Room) -> None:
    reader = await room.reader(SOURCE)
    await room.fill("refunds", 1)
    await reader.take(1)

    await reader.close()

    assert len(await room.ask("XINFO", "CONSUMERS", "refunds", "refunds")) == 1
    assert len(await room.pending("refunds", "refunds")) == 1


@pytest.mark.case("MG-02")
async def test_dead_consumers_are_removed_only_when_they_hold_nothing(room: Room) -> None:
    reader = await room.reader(SOURCE)
    await room.fill("refunds", 1)
    await reader.ack(*await reader.take(1))
    await room.fill("refunds", 1)
    for name in ("surestream-host-1", "surestream-host-2", "other"):
        await room.ask("XGROUP", "CREATECONSUMER", "refunds", "refunds", name)
    await room.ask(
        *("XREADGROUP", "GROUP", "refunds", "surestream-host-2", "COUNT", 1),
        *("STREAMS", "refunds", ">"),
    )
    await asyncio.sleep(0.05)
    group = reader.live._group  # pyright: ignore[reportPrivateUsage]
    group._silent_ms = 10  # pyright: ignore[reportPrivateUsage]

    await group.clean()

    rows = await room.ask("XINFO", "CONSUMERS", "refunds", "refunds")
    names = sorted(row[1].decode() for row in rows)
    assert names == ["other", "surestream-host-2", reader.live.seat.consumer]


async def test_a_reply_after_a_cancelled_pull_and_a_lost_connection(own_room: Room) -> None:
    reader = await own_room.reader(RedisStream("refunds", group="refunds", block=5))
    pull = asyncio.create_task(reader.pull())
    await asyncio.sleep(0.05)
    pull.cancel()
    await own_room.ask("CLIENT", "KILL", "ID", reader.live._reading.client_id)  # pyright: ignore[reportPrivateUsage]
    await own_room.fill("refunds", 2)

    assert payloads(await reader.take(2)) == [b"0", b"1"]


async def test_stopping_while_the_server_is_down_does_not_hang(own_room: Room) -> None:
    reader = await own_room.reader(SOURCE)
    held = await reader.live.pull(1)
    await asyncio.to_thread(own_room.control.kill)
    pull = asyncio.create_task(reader.live.pull(1))
    await asyncio.sleep(0.05)

    async with asyncio.timeout(8):
        await reader.live.stop_pulling()
        await pull
        await reader.close()

    assert not held
