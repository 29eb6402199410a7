"""Delays in a sorted set on the server (rule 6.5)."""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest

from surestream.contract import Stored
from surestream.delivery import Delivery
from surestream.errors import BrokerRefused
from surestream.message import HeaderPairs
from surestream.redis.delays import Promoter
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.seat import mark_text
from surestream.redis.sources import DurableZset, RedisStream
from surestream.redis.wire import member, read_member
from tests.live.redis_stream.room import Reader, Room, confirmed, ids, lines, payloads, until

DELAYS = DurableZset("refunds.delayed")
SOURCE = RedisStream("refunds", group="refunds", block=0.2, delayed_retry=DELAYS)


def headers(delivery: Delivery, count: int = 1) -> HeaderPairs:
    """What the runtime would have the delay carry."""
    kept = tuple(pair for pair in delivery.headers.pairs if not pair[0].startswith("x-"))
    return (("x-ruststream-retry-count", b"%d" % count), *kept)


async def one(room: Room, source: RedisStream = SOURCE) -> tuple[Reader, Delivery]:
    """A reader that holds one delivery."""
    await room.add("refunds", "_payload", b"pay\x00\xff", "h:a", "1")
    reader = await room.reader(source)
    (delivery,) = await reader.take(1)
    return reader, delivery


async def server_ms(room: Room) -> float:
    """The server's clock in milliseconds."""
    seconds, micro = await room.ask("TIME")
    return int(seconds) * 1000 + int(micro) / 1000


async def test_a_delay_is_parked_and_comes_back_when_it_is_due(room: Room) -> None:
    reader, delivery = await one(room)
    before = await server_ms(room)

    assert await reader.live.park(delivery, headers(delivery), 0.5) is Stored.STORED

    after = await server_ms(room)
    reader.settled(delivery)
    ((raw, score),) = [await room.ask("ZRANGE", "refunds.delayed", 0, -1, "WITHSCORES")]
    assert before + 500 <= float(score) <= after + 501
    assert float(score) == int(score)
    parked = read_member(raw)
    assert parked is not None
    assert parked[1:] == (
        (
            ("x-ruststream-retry-count", b"1"),
            ("a", b"1"),
            ("x-surestream-for", mark_text("refunds", "refunds")),
        ),
        b"pay\x00\xff",
    )
    assert await room.pending("refunds", "refunds") == []
    (again,) = await reader.take(1)
    late = await server_ms(room) - float(score)
    assert 0 <= late < 100
    assert again.payload == b"pay\x00\xff"
    assert again.headers.raw("a") == b"1"
    assert again.header_count == 1
    assert again.marked
    assert await room.ask("EXISTS", "refunds.delayed") == 0
    await reader.ack(again)
    assert len(await room.entries("refunds")) == 1


async def test_delays_end_within_50_ms(room: Room) -> None:
    reader, delivery = await one(room)
    await room.fill("refunds", 9)
    deliveries = [delivery, *await reader.take(9)]
    for number, each in enumerate(deliveries):
        await reader.live.park(each, headers(each), 0.2 + number * 0.05)
    dues = sorted(
        float(text)
        for text in (await room.ask("ZRANGE", "refunds.delayed", 0, -1, "WITHSCORES"))[1::2]
    )

    lateness: list[float] = []
    for _ in range(10):
        await reader.take(1)
        lateness.append(time.time() * 1000 - dues[len(lateness)])

    assert min(lateness) >= 0
    assert sorted(lateness)[5] < 50, lateness


@pytest.mark.case("ML-06")
async def test_the_set_outlives_its_last_due_member(room: Room) -> None:
    source = RedisStream(
        "refunds", group="refunds", block=0.2, delayed_retry=DurableZset("refunds.delayed", ttl=5)
    )
    reader, delivery = await one(room, source)
    await room.fill("refunds", 1)
    (other,) = await reader.take(1)

    await reader.live.park(delivery, headers(delivery), 20)
    await reader.live.park(other, headers(other), 1)

    left = await room.ask("PTTL", "refunds.delayed")
    assert 24_000 < left <= 25_001


@pytest.mark.case("ML-06")
async def test_an_expiry_of_an_earlier_declaration_is_lifted(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("ZADD", "refunds.delayed", 9e15, "other")
    await room.ask("PEXPIRE", "refunds.delayed", 100_000)

    await reader.live.park(delivery, headers(delivery), 200)

    assert await room.ask("PTTL", "refunds.delayed") == -1


@pytest.mark.case("ML-12")
async def test_a_set_of_another_type_leaves_the_original_pending(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    transport = await room.transport()
    await room.add("refunds", "_payload", "p")
    await room.ask("LPUSH", "refunds.delayed", "x")
    reader = await room.reader(SOURCE, transport)
    (delivery,) = await reader.take(1)

    with pytest.raises(BrokerRefused, match=r"'refunds\.delayed' holds a list, and a zset") as told:
        await reader.live.park(delivery, headers(delivery), 0.1)

    assert not told.value.permanent
    assert await room.pending("refunds", "refunds") == [(delivery.id.encode(), 1)]
    await asyncio.sleep(0.1)
    assert "'refunds.delayed' holds a list, and a zset" in str(transport.trouble)
    assert len(lines(caplog)) <= 3
    await room.ask("DEL", "refunds.delayed")
    assert await reader.live.park(delivery, headers(delivery), 0.1) is Stored.STORED
    (again,) = await reader.take(1)
    assert again.payload == b"p"
    assert await until(lambda: transport.trouble is None)


@pytest.mark.rule("5.4")
async def test_parking_twice_stores_once(room: Room) -> None:
    reader, delivery = await one(room)

    assert await reader.live.park(delivery, headers(delivery), 30) is Stored.STORED
    assert await reader.live.park(delivery, headers(delivery), 30) is Stored.OVERTAKEN

    assert await room.ask("ZCARD", "refunds.delayed") == 1


@pytest.mark.rule("5.4")
async def test_an_overtaken_delivery_parks_nothing(room: Room) -> None:
    reader, delivery = await one(room)
    await room.ask("XCLAIM", "refunds", "refunds", "another", 0, delivery.id)

    assert await reader.live.park(delivery, headers(delivery), 30) is Stored.OVERTAKEN

    assert await room.ask("EXISTS", "refunds.delayed") == 0


async def test_equal_messages_of_two_groups_do_not_collapse(room: Room) -> None:
    """Rule 6.5: a member is unique for its group and entry."""
    await room.fill("refunds", 1)
    transport = await room.transport()
    for group in ("a", "b"):
        source = RedisStream("refunds", group=group, block=0.2, delayed_retry=DELAYS)
        reader = await room.reader(source, transport)
        (delivery,) = await reader.take(1)
        await reader.live.park(delivery, headers(delivery), 30)

    assert await room.ask("ZCARD", "refunds.delayed") == 2


@pytest.mark.rule("4.7")
async def test_a_delay_comes_back_to_its_own_group_alone(room: Room) -> None:
    await room.fill("refunds", 1)
    one_source = RedisStream("refunds", group="a", block=0.2, delayed_retry=DELAYS)
    mine = await room.reader(one_source)
    other = await room.reader(RedisStream("refunds", group="b", block=0.2))
    await other.ack(*await other.take(1))
    (delivery,) = await mine.take(1)

    await mine.live.park(delivery, headers(delivery), 0.05)

    (again,) = await mine.take(1)
    assert again.marked
    assert await other.quiet()
    assert await other.quiet()
    await confirmed(other.live)
    assert await room.pending("refunds", "b") == []


@pytest.mark.case("OS-04")
async def test_overdue_delays_come_back_in_the_order_they_were_due(room: Room) -> None:
    now = round(await server_ms(room))
    for delay, name in ((-5000, b"5"), (-3000, b"3"), (-4000, b"4")):
        await room.ask("ZADD", "refunds.delayed", now + delay, member(name, (), name))

    reader = await room.reader(SOURCE)

    assert payloads(await reader.take(3)) == [b"5", b"4", b"3"]


@pytest.mark.case("OS-04")
async def test_equal_due_times_keep_the_order_of_the_entries(room: Room) -> None:
    await room.fill("refunds", 12)
    reader = await room.reader(SOURCE)
    deliveries = await reader.take(12)
    for delivery in reversed(deliveries):
        await reader.live.park(delivery, headers(delivery), 30)
    due = await server_ms(room) - 1
    for raw in await room.ask("ZRANGE", "refunds.delayed", 0, -1):
        await room.ask("ZADD", "refunds.delayed", "XX", round(due), raw)

    another = await room.reader(SOURCE)

    assert payloads(await another.take(12)) == payloads(deliveries)


@pytest.mark.case("CK-02")
async def test_only_what_is_due_is_moved(room: Room) -> None:
    now = round(await server_ms(room))
    for number in range(200):
        raw = member(b"due %d" % number, (), b"%d" % number)
        await room.ask("ZADD", "refunds.delayed", now - 1000 + number, raw)
    for number in range(50):
        await room.ask("ZADD", "refunds.delayed", now + 60_000, member(b"%d" % number, (), b""))

    reader = await room.reader(SOURCE)

    assert len(await reader.take(200)) == 200
    assert await reader.quiet()
    assert await room.ask("ZCARD", "refunds.delayed") == 50


@pytest.mark.case("DU-03")
async def test_eight_promoters_move_each_member_once(room: Room) -> None:
    now = round(await server_ms(room))
    for number in range(1000):
        raw = member(b"%d" % number, (), b"%d" % number)
        await room.ask("ZADD", "refunds.delayed", now - 1000, raw)

    readers = [await room.reader(SOURCE) for _ in range(8)]
    taken = await readers[0].take(1000)

    assert len(taken) == 1000
    bodies = [entry[b"_payload"] for entry in await room.entries("refunds")]
    assert sorted(bodies, key=int) == [b"%d" % number for number in range(1000)]


@pytest.mark.case("OS-05")
async def test_a_delay_whose_parker_died_is_promoted_by_any_reader(room: Room) -> None:
    source = RedisStream("refunds", group="refunds", block=0.3, delayed_retry=DELAYS)
    reader = await room.reader(source)
    await asyncio.sleep(0.05)
    now = round(await server_ms(room))
    await room.ask("ZADD", "refunds.delayed", now + 100, member(b"m", (), b"parked by another"))

    (delivery,) = await reader.take(1)

    assert delivery.payload == b"parked by another"
    assert 100 <= await server_ms(room) - now < 1000


@pytest.mark.case("CK-13")
async def test_waiting_delays_can_be_inspected_moved_and_cancelled(room: Room) -> None:
    await room.fill("refunds", 3)
    reader = await room.reader(SOURCE)
    for delivery in await reader.take(3):
        await reader.live.park(delivery, headers(delivery), 60)
    members = await room.ask("ZRANGE", "refunds.delayed", 0, -1)
    by_payload = {read_member(raw)[2]: raw for raw in members}  # pyright: ignore[reportOptionalSubscript]

    await room.ask("ZREM", "refunds.delayed", by_payload[b"0"])
    await room.ask("ZADD", "refunds.delayed", "XX", 1, by_payload[b"2"])

    (moved,) = await reader.take(1)
    assert moved.payload == b"2"
    assert await room.ask("ZRANGE", "refunds.delayed", 0, -1) == [by_payload[b"1"]]


@pytest.mark.case("CK-09")
@pytest.mark.case("CK-10")
async def test_fractions_of_milliseconds_are_rounded_up(room: Room) -> None:
    reader, delivery = await one(room)
    before = await server_ms(room)

    await reader.live.park(delivery, headers(delivery), 1.5004)

    score = float((await room.ask("ZRANGE", "refunds.delayed", 0, -1, "WITHSCORES"))[1])
    assert score >= before + 1500.4
    assert score == int(score)


async def test_a_delay_of_a_hundred_years_is_kept(room: Room) -> None:
    reader, delivery = await one(room)
    years = 100 * 366 * 86_400.0

    assert await reader.live.park(delivery, headers(delivery), years) is Stored.STORED

    score = float((await room.ask("ZRANGE", "refunds.delayed", 0, -1, "WITHSCORES"))[1])
    assert abs(score - years * 1000 - await server_ms(room)) < 10_000
    assert await reader.quiet()


def damaged() -> list[bytes]:
    """Members that nobody can read."""
    good = member(b"name", (("a", b"1"), ("b", b"2")), b"")
    return [
        b"",
        b"\x00",
        b"\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01n",
        b"\x00\x00\x00\x01n\xff\xff\xff\xff",
        b"\x00\x00\x00\x01n\x00\x00\x00\x01",
        b"\x00\x00\x00\x01n\x00\x00\x00\x01\x00\x00\x00\xffx",
        b"\x00\x00\x00\x01n\x00\x00\x00\x02" + b"\x00" * 12,
        good[:-1],
        good[:-5],
    ]


async def test_members_that_cannot_be_read_are_set_aside(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    for number, raw in enumerate(damaged()):
        await room.ask("ZADD", "refunds.delayed", number, raw)
    await room.ask("ZADD", "refunds.delayed", 999, member(b"good", (("a", b"1"),), b"good"))

    reader = await room.reader(SOURCE)

    assert payloads(await reader.take(1)) == [b"good"]
    aside = await room.ask("ZRANGE", "refunds.delayed.unreadable", 0, -1, "WITHSCORES")
    assert aside[::2] == damaged()
    assert [float(score) for score in aside[1::2]] == list(range(len(damaged())))
    assert len([line for line in lines(caplog) if "cannot be read" in line]) == 1


async def test_members_that_cannot_even_be_set_aside_hold_nothing_up(room: Room) -> None:
    await room.ask("SET", "refunds.delayed.unreadable", "x")
    for number in range(150):
        await room.ask("ZADD", "refunds.delayed", number, b"bad %d" % number)
    await room.ask("ZADD", "refunds.delayed", 999, member(b"good", (), b"good"))

    reader = await room.reader(SOURCE)

    assert payloads(await reader.take(1)) == [b"good"]
    assert await room.ask("ZCARD", "refunds.delayed") == 150


async def test_a_stream_of_another_type_keeps_its_delays(room: Room) -> None:
    reader, delivery = await one(room)
    await reader.live.park(delivery, headers(delivery), 0.2)
    await room.ask("SET", "refunds", "x")
    pull = asyncio.create_task(reader.take(1))
    await asyncio.sleep(0.5)

    assert await room.ask("ZCARD", "refunds.delayed") == 1
    await room.ask("DEL", "refunds")
    assert payloads(await pull) == [b"pay\x00\xff"]


@pytest.mark.case("CK-12")
async def test_the_clock_of_this_host_does_not_matter(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, delivery = await one(room)
    if room.control.__class__.__name__ == "InProcessRedis":
        return  # the host's clock is the server's there
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 120)

    await reader.live.park(delivery, headers(delivery), 0.3)

    assert await reader.quiet()
    assert ids(await reader.take(1)) != [delivery.id]


async def test_a_promoter_goes_on_after_a_restart(own_room: Room) -> None:
    """Rule 6.5: delays survive, and so do the timers."""
    reader, delivery = await one(own_room)
    await reader.live.park(delivery, headers(delivery), 1.0)
    await asyncio.to_thread(own_room.control.kill)
    await asyncio.to_thread(own_room.control.start)

    assert payloads(await reader.take(1, within=15)) == [b"pay\x00\xff"]


async def test_an_idle_promoter_asks_once_an_interval(own_room: Room) -> None:
    await own_room.reader(RedisStream("r", group="g", block=60, delayed_retry=DurableZset("d")))
    before = await own_room.ask("INFO", "commandstats")
    await asyncio.sleep(1.0)
    after = await own_room.ask("INFO", "commandstats")

    def calls(info: bytes) -> int:
        return sum(
            int(line.split("calls=")[1].split(",")[0])
            for line in info.decode().splitlines()
            if line.startswith(("cmdstat_eval", "cmdstat_evalsha"))
        )

    assert calls(after) - calls(before) <= 1


async def test_a_promoter_ends_with_its_transport(room: Room) -> None:
    link = ReconnectingLink(room.connect, name="p", display="redis", random=Random())
    await link.open()
    promoter = Promoter(link, "d", "s")
    promoter.serve(5)
    await asyncio.sleep(0.01)

    async with asyncio.timeout(1):
        await promoter.close()
    await link.close()


async def test_the_largest_number_of_headers_is_parked_and_promoted(room: Room) -> None:
    """Rule 6.5: what was stored comes back, whatever a script can carry."""
    fields = [text for number in range(3_897) for text in (f"h:{number}", "v")]
    await room.add("refunds", "_payload", "p", *fields)
    reader = await room.reader(SOURCE)
    (delivery,) = await reader.take(1)
    many = (("x-ruststream-retry-count", b"1"), *delivery.headers.pairs)

    with pytest.raises(BrokerRefused, match="headers") as told:
        await reader.live.park(delivery, (*many, ("a", b""), ("b", b"")), 0.05)
    assert await reader.live.park(delivery, many, 0.05) is Stored.STORED

    assert told.value.permanent
    (again,) = await reader.take(1)
    assert len(again.headers.pairs) == 3_899
