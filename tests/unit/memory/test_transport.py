"""The memory broker by the promises of the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest

from surestream.contract import Stored, Subscription, SubscriptionTerms, Successor
from surestream.delivery import Delivery, Key
from surestream.errors import ConnectionLost
from surestream.memory import MemoryServer, MemoryTopic, TopicName
from surestream.memory.transport import MemoryTransport
from surestream.message import RETRY_COUNT_HEADER, Outgoing
from surestream.testing import PausedClock, paused_clock

TERMS = SubscriptionTerms(name="orders/default", where="handle at service.py:1")


class Mount:
    """The subscription that the deliveries here come through."""

    subscription = "orders/default"
    max_attempts = None

    def attempt(self, delivery: Delivery) -> int:
        return delivery.server_count


class Bench:
    """A transport, its server, and short words for what the runtime does with them."""

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.transport = MemoryTransport(self.server)

    async def read(self, topic: str = "orders", group: str = "default") -> Subscription:
        source = MemoryTopic(topic, group=group)
        return await self.transport.subscribe(source, TERMS, Mount())

    async def send(self, *payloads: bytes, topic: str = "orders") -> list[Stored]:
        return [await self.transport.publish(Outgoing(topic, payload)) for payload in payloads]


@pytest.fixture
async def bench() -> Bench:
    bench = Bench()
    await bench.transport.connect(30.0)
    return bench


@pytest.fixture
async def clock() -> Iterator[PausedClock]:
    with paused_clock() as clock:
        yield clock


def payloads(deliveries: Sequence[Delivery]) -> list[bytes]:
    return [delivery.payload for delivery in deliveries]


async def waiting(reader: Subscription, limit: int = 10) -> asyncio.Task[Sequence[Delivery]]:
    """A pull that has begun and found nothing."""
    task = asyncio.ensure_future(reader.pull(limit))
    await asyncio.sleep(0)
    assert not task.done()
    return task


# ── handing out ──────────────────────────────────────────────────────────────


async def test_messages_come_in_the_order_they_were_published(bench: Bench) -> None:
    reader = await bench.read()
    await bench.send(b"1", b"2", b"3")

    first = await reader.pull(2)
    rest = await reader.pull(10)

    assert payloads(first) == [b"1", b"2"]
    assert payloads(rest) == [b"3"]


async def test_a_delivery_tells_what_the_broker_knows_of_it(bench: Bench) -> None:
    reader = await bench.read()
    await bench.transport.publish(Outgoing("orders", b"x", (("Tenant", b"acme"),)))

    (delivery,) = await reader.pull(1)

    assert (delivery.id, delivery.address, delivery[TopicName]) == ("1", "orders", "orders")
    assert delivery.headers["tenant"] == "acme"
    assert (delivery.server_count, delivery.special) == (1, False)
    with pytest.raises(KeyError):
        delivery[Key("EntryId", str)]


async def test_a_delivery_with_a_header_of_the_runtime_is_special(bench: Bench) -> None:
    reader = await bench.read()
    await bench.transport.publish(Outgoing("orders", b"x", ((RETRY_COUNT_HEADER.upper(), b"3"),)))

    (delivery,) = await reader.pull(1)

    assert delivery.special
    assert delivery.header_count == 3


@pytest.mark.case("TH-03")
async def test_readers_of_one_group_share_and_groups_each_get_everything(bench: Bench) -> None:
    left, right = await bench.read(), await bench.read()
    other = await bench.read(group="billing")
    await bench.send(b"1", b"2", b"3", b"4")

    shared = [payloads(await left.pull(1)), payloads(await right.pull(3))]

    assert shared == [[b"1"], [b"2", b"3", b"4"]]
    assert payloads(await other.pull(9)) == [b"1", b"2", b"3", b"4"]


async def test_what_nobody_reads_is_answered_so_and_kept_to_look_at(bench: Bench) -> None:
    await bench.read()

    assert await bench.send(b"lost", topic="elsewhere") == [Stored.UNHEARD]
    assert await bench.send(b"read") == [Stored.STORED]
    assert list(bench.server.unheard) == [Outgoing("elsewhere", b"lost")]


async def test_the_log_of_what_nobody_reads_is_bounded(bench: Bench) -> None:
    for number in range(1_100):
        await bench.send(b"%d" % number, topic="elsewhere")

    assert len(bench.server.unheard) == 1_000
    assert bench.server.unheard[-1].payload == b"1099"


async def test_a_loop_that_publishes_lets_others_have_their_turn(bench: Bench) -> None:
    reader = await bench.read()
    pull = await waiting(reader)

    await bench.send(*[b"x"] * 64)

    assert pull.done()


# ── waiting ──────────────────────────────────────────────────────────────────


async def test_a_waiting_pull_returns_what_is_published(bench: Bench) -> None:
    reader = await bench.read()
    pull = await waiting(reader)

    await bench.send(b"1")

    assert payloads(await pull) == [b"1"]


async def test_a_pull_that_is_cancelled_with_a_message_before_it_loses_nothing(
    bench: Bench,
) -> None:
    reader, rival = await bench.read(), await bench.read()
    pull, other = await waiting(reader), await waiting(rival)

    await bench.send(b"1")
    pull.cancel()

    assert payloads(await other) == [b"1"]
    with pytest.raises(asyncio.CancelledError):
        await pull
    assert not bench.server.topics["orders"]["default"].waiters


async def test_stop_pulling_ends_a_wait_and_leaves_messages_to_others(bench: Bench) -> None:
    reader, rival = await bench.read(), await bench.read()
    pull = await waiting(reader)

    await reader.stop_pulling()
    await bench.send(b"1")

    assert await pull == ()
    assert await reader.pull(5) == ()
    assert payloads(await rival.pull(5)) == [b"1"]


# ── giving back ──────────────────────────────────────────────────────────────


async def test_what_was_tried_queues_behind_the_others_with_its_count_raised(
    bench: Bench,
) -> None:
    reader = await bench.read()
    await bench.send(b"bad", b"good")
    (bad,) = await reader.pull(1)

    await reader.give_back([bad])

    good, again = await reader.pull(5)
    assert payloads([good, again]) == [b"good", b"bad"]
    assert (again.id, again.server_count, again.special) == (bad.id, 2, True)


@pytest.mark.rule("7.4")
async def test_what_was_not_tried_goes_back_to_its_place_with_its_count_restored(
    bench: Bench,
) -> None:
    reader = await bench.read()
    await bench.send(b"1", b"2", b"3")
    taken = await reader.pull(2)

    await reader.give_back(taken, spent=False)

    again = await reader.pull(5)
    assert payloads(again) == [b"1", b"2", b"3"]
    assert [delivery.server_count for delivery in again] == [1, 1, 1]


async def test_what_is_given_back_for_later_comes_when_it_is_due_and_not_before(
    bench: Bench, clock: PausedClock
) -> None:
    reader = await bench.read()
    await bench.send(b"1")
    (delivery,) = await reader.pull(1)
    now = asyncio.get_running_loop().time()

    await reader.give_back([delivery], after=30)
    pull = asyncio.ensure_future(reader.pull(1))

    (handle,) = bench.server.topics["orders"]["default"].delayed.values()
    assert handle.when() == pytest.approx(now + 30)
    await clock.advance(29.999)
    assert not pull.done()
    await clock.advance(0.001)
    (again,) = pull.result()
    assert again.server_count == 2
    assert not bench.server.topics["orders"]["default"].delayed


async def test_many_delays_are_all_kept_and_leave_nothing_behind(
    bench: Bench, clock: PausedClock
) -> None:
    reader = await bench.read()
    await bench.send(*[b"x"] * 5_000)
    await reader.give_back(await reader.pull(5_000), after=3600)

    await clock.advance(3600)

    group = bench.server.topics["orders"]["default"]
    assert (len(group.ready), len(group.delayed), len(group.held)) == (5_000, 0, 0)


# ── settling, and the fence ──────────────────────────────────────────────────


async def test_what_is_acknowledged_is_gone(bench: Bench) -> None:
    reader = await bench.read()
    await bench.send(b"1", b"2")

    reader.acknowledge(await reader.pull(2))
    await reader.confirmed()

    group = bench.server.topics["orders"]["default"]
    assert (len(group.ready), len(group.held)) == (0, 0)


@pytest.mark.rule("5.1")
async def test_a_successor_is_stored_and_the_original_settled(bench: Bench) -> None:
    reader, reviewer = await bench.read(), await bench.read("orders.dlq")
    await bench.send(b"1")
    (delivery,) = await reader.pull(1)
    letter = Outgoing("orders.dlq", b"1", ((RETRY_COUNT_HEADER, b"5"),))

    stored = await reader.replace(delivery, Successor(letter, dead=True))

    assert stored is Stored.STORED
    (dead,) = await reviewer.pull(1)
    assert (dead.payload, dead.header_count, dead.server_count) == (b"1", 5, 1)
    assert not bench.server.topics["orders"]["default"].held


async def test_a_successor_that_nobody_reads_is_reported_and_the_original_settled(
    bench: Bench,
) -> None:
    reader = await bench.read()
    await bench.send(b"1")
    (delivery,) = await reader.pull(1)

    stored = await reader.replace(delivery, Successor(Outgoing("orders.dlq", b"1")))

    assert stored is Stored.UNHEARD
    assert not bench.server.topics["orders"]["default"].held


def settled(reader: Subscription, delivery: Delivery) -> None:
    reader.acknowledge([delivery])


async def overtaken(reader: Subscription, delivery: Delivery) -> None:
    await reader.give_back([delivery])
    await reader.pull(1)


@pytest.mark.rule("5.4")
@pytest.mark.parametrize("before", [settled, overtaken])
async def test_a_worker_that_no_longer_holds_a_message_can_neither_replace_nor_return_it(
    bench: Bench, before: Callable[[Subscription, Delivery], object]
) -> None:
    reader = await bench.read()
    await bench.send(b"1")
    (delivery,) = await reader.pull(1)
    done = before(reader, delivery)
    if asyncio.iscoroutine(done):
        await done

    stored = await reader.replace(delivery, Successor(Outgoing("orders.dlq", b"1")))
    await reader.give_back([delivery])
    await reader.give_back([delivery], after=5, spent=False)

    group = bench.server.topics["orders"]["default"]
    assert stored is Stored.OVERTAKEN
    assert not bench.server.unheard
    assert (len(group.ready), len(group.delayed)) == (0, 0)


@pytest.mark.rule("5.4")
async def test_an_overtaken_worker_may_still_acknowledge(bench: Bench) -> None:
    reader = await bench.read()
    await bench.send(b"1", b"2")
    (first,) = await reader.pull(1)
    await reader.give_back([first])

    reader.acknowledge([first])

    assert payloads(await reader.pull(5)) == [b"2"]


async def test_settling_twice_changes_nothing(bench: Bench) -> None:
    reader = await bench.read()
    await bench.send(b"1")
    taken = await reader.pull(1)

    reader.acknowledge(taken)
    reader.acknowledge(taken)

    assert await bench.send(b"2") == [Stored.STORED]
    assert payloads(await reader.pull(5)) == [b"2"]


# ── before and after ─────────────────────────────────────────────────────────


async def test_nothing_works_before_connecting(bench: Bench) -> None:
    closed = MemoryTransport(MemoryServer())

    assert closed.trouble == "not connected"
    with pytest.raises(ConnectionLost, match="the memory broker is not connected"):
        await closed.publish(Outgoing("orders", b""))
    with pytest.raises(ConnectionLost):
        await closed.subscribe(MemoryTopic("orders"), TERMS, Mount())
    assert bench.transport.trouble is None


async def test_late_calls_raise_and_late_acknowledgements_do_not(bench: Bench) -> None:
    reader = await bench.read()
    await bench.send(b"1", b"2")
    one, two = await reader.pull(2)
    await reader.close()

    await bench.transport.close()

    reader.acknowledge([one])
    with pytest.raises(ConnectionLost):
        await reader.pull(1)
    with pytest.raises(ConnectionLost):
        await reader.replace(two, Successor(Outgoing("orders.dlq", b"2")))
    with pytest.raises(ConnectionLost):
        await reader.give_back([two])
    with pytest.raises(ConnectionLost):
        await bench.send(b"3")
    assert len(bench.server.topics["orders"]["default"].held) == 1


async def test_closing_ends_waits_and_timers(bench: Bench, clock: PausedClock) -> None:
    reader = await bench.read()
    await bench.send(b"1")
    await reader.give_back(await reader.pull(1), after=5)
    pull = asyncio.ensure_future(reader.pull(1))
    await clock.settle()

    await bench.transport.close()
    await clock.advance(60)

    with pytest.raises(ConnectionLost):
        await pull
    group = bench.server.topics["orders"]["default"]
    assert (len(group.delayed), len(group.ready)) == (1, 0)
