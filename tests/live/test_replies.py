"""Replies on a real server: stored before their message is acknowledged, once (rule 5.1)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from surestream import App, Publisher, Subscriber
from surestream.redis import RedisBroker
from tests.live.crash.points import CUT, CUTS, KILLED, KILLS, How
from tests.live.reply_child import GROUP, ORDERS, RECEIPTS, Receipt, settled, source
from tests.live.support import Look, Nursery, StartChild, children_of, eventually, lines, plain
from tests.servers import RedisServer


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """What starts the children of these tests."""
    nursery = Nursery(tmp_path_factory.mktemp("children"), "tests.live.reply_child")
    yield nursery
    nursery.close()


@pytest.fixture
def start(nursery: Nursery) -> Iterator[StartChild]:
    """Start a child, killed with the test."""
    yield from children_of(nursery)


@pytest.fixture
def look(redis_url: str) -> Iterator[Look]:
    """The shared server, emptied."""
    look = Look(redis_url)
    yield look
    look.close()


def service(url: str, answer: Callable[..., Any], **options: Any) -> App:
    app = App("replies", shutdown_timeout=5)
    broker = app.add(RedisBroker(url))
    broker.include(Subscriber(source(60), answer), reply_to=RECEIPTS, **options)
    return app


async def answer(order: int) -> Receipt:
    return Receipt(order)


def receipts(look: Look) -> list[int]:
    """The orders that were answered."""
    return [json.loads(payload)["order"] for payload in look.payloads(RECEIPTS)]


# -- one step -----------------------------------------------------------------------------


@pytest.mark.rule("5.1")
async def test_the_server_stores_first_and_acknowledges_after(look: Look) -> None:
    look.add(ORDERS, 7, tenant="acme")
    watching = plain(look.url)
    with watching.monitor() as monitor:
        async with service(look.url, answer).running():
            await eventually(lambda: look.length(RECEIPTS) and settled(look))
        watching.connection_pool.reset()
        look.redis.echo("the end")
        seen: list[str] = []
        for line in monitor.listen():
            if "the end" in line["command"]:
                break
            if line["client_type"] == "lua":
                seen.append(line["command"].split()[0].upper())

    assert look.entries(RECEIPTS) == [{b"_payload": b'{"order":7}'}]
    assert seen.count("XADD") == seen.count("XACK") == 1
    assert seen.index("XADD") < seen.index("XACK")


@pytest.mark.rule("5.1", "5.3")
@pytest.mark.parametrize("how", KILLS + CUTS)
def test_struck_at_any_call_each_order_is_answered_once(
    start: StartChild, look: Look, how: How
) -> None:
    """A reply without its acknowledgement, or the other way round, cannot be found: it is one
    script. The handler may run again, and so may what it publishes by itself."""
    orders = [1, 2, 3]
    struck = 0
    for number in range(1, 40):
        look.redis.flushall()
        for order in orders:
            look.add(ORDERS, order)
        child = start("tests.live.reply_child:serve", url=look.url, how=how, number=number)
        if child.wait() == 0:
            break
        assert child.status == (KILLED if how in KILLS else CUT), child.log
        struck += 1
        held = len(look.pending(ORDERS, GROUP)) + look.unread(ORDERS)
        assert len(receipts(look)) + held == len(orders), child.log

        if how in KILLS:
            again = start("tests.live.reply_child:serve", url=look.url)
            assert again.wait() == 0, again.log
        assert sorted(receipts(look)) == orders, child.log
        runs = Counter(look.redis.lrange("runs", 0, -1))
        assert max(runs.values()) <= 2, runs
        assert len(orders) <= look.length("log") <= runs.total()
    assert struck >= 4


# -- what cannot be stored ----------------------------------------------------------------


@pytest.mark.case("DL-01")
@pytest.mark.rule("5.2")
async def test_a_key_of_another_type_holds_the_original(
    look: Look, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[int] = []

    async def counted(order: int) -> Receipt:
        runs.append(order)
        return Receipt(order)

    look.redis.set(RECEIPTS, "text")
    look.add(ORDERS, 7)
    app = service(look.url, counted, max_attempts=2, dead_letter="dead")
    async with app.running() as run:
        await eventually(lambda: len(lines(caplog, logging.ERROR)) > 1)
        assert runs == [7]
        assert len(look.pending(ORDERS, GROUP)) == 1
        look.redis.delete(RECEIPTS)
        await eventually(lambda: look.redis.exists(RECEIPTS) and settled(look))
        assert run.health.ready

    assert runs == [7]
    assert receipts(look) == [7]
    assert look.redis.exists("dead") == 0
    assert "key 'receipts' holds a string, and a stream is needed there" in caplog.text


@pytest.mark.rule("5.2", "7.5")
async def test_a_server_that_is_down_when_the_handler_ends(own_redis: RedisServer) -> None:
    """What it had answered stays; the reply is stored once it is back, by the same run."""
    runs: list[int] = []
    down = asyncio.Event()
    goes_on = asyncio.Event()

    async def slow(order: int) -> Receipt:
        runs.append(order)
        down.set()
        await goes_on.wait()
        return Receipt(order)

    look = Look(own_redis.url)
    look.add(ORDERS, 7)
    async with service(own_redis.url, slow).running():
        await down.wait()
        own_redis.kill()
        goes_on.set()
        await asyncio.sleep(0.5)
        own_redis.start()
        await eventually(lambda: look.redis.exists(RECEIPTS) and settled(look))

    assert runs == [7]
    assert receipts(look) == [7]
    look.close()


@pytest.mark.rule("5.3", "5.4")
async def test_cut_connections_double_no_reply(look: Look) -> None:
    """A script whose reply was lost is sent again, and does nothing a second time."""
    chance = Random(11)
    orders = 400
    runs: Counter[int] = Counter()

    async def counted(order: int) -> Receipt:
        runs[order] += 1
        await asyncio.sleep(0.001)
        return Receipt(order)

    for order in range(orders):
        look.add(ORDERS, order)

    async def cut() -> None:
        for _ in range(15):
            for line in look.redis.client_list():
                if line["name"].startswith("surestream") and chance.random() < 0.5:
                    look.redis.client_kill_filter(_id=line["id"])
            await asyncio.sleep(0.03)

    async with service(look.url, counted, workers=4).running():
        await cut()
        await eventually(lambda: settled(look))

    assert sorted(receipts(look)) == list(range(orders))
    assert set(runs.values()) == {1}


# -- the fence ----------------------------------------------------------------------------


@pytest.mark.rule("5.4")
async def test_who_was_overtaken_replies_nothing(look: Look) -> None:
    begun = asyncio.Event()
    goes_on = asyncio.Event()

    async def slow(order: int, publisher: Publisher) -> Receipt:
        begun.set()
        await goes_on.wait()
        return Receipt(order)

    entry = look.add(ORDERS, 7)
    async with service(look.url, slow).running():
        await begun.wait()
        look.redis.xclaim(ORDERS, GROUP, "another", 0, [entry])
        goes_on.set()
        await asyncio.sleep(0.3)
        assert look.redis.exists(RECEIPTS) == 0
        assert look.pending(ORDERS, GROUP) == [(entry, "another", 2)]
        look.redis.xack(ORDERS, GROUP, entry)

    assert look.redis.exists(RECEIPTS) == 0


@pytest.mark.rule("5.4")
async def test_who_finds_its_message_settled_replies_nothing(look: Look) -> None:
    begun = asyncio.Event()
    goes_on = asyncio.Event()

    async def slow(order: int) -> Receipt:
        begun.set()
        await goes_on.wait()
        return Receipt(order)

    entry = look.add(ORDERS, 7)
    async with service(look.url, slow).running():
        await begun.wait()
        look.redis.xack(ORDERS, GROUP, entry)
        goes_on.set()

    assert look.redis.exists(RECEIPTS) == 0
