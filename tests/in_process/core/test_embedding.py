"""A service inside another program: ``app.running()``, ``broker.connected()`` (section 7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from surestream import App, NotRunning, Publisher, Subscriber, outgoing
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.message import RETRY_COUNT_HEADER
from surestream.testing import TestApp, paused_clock
from tests.in_process.core.bench import Bench
from tests.in_process.core.service import Service, headers
from tests.in_process.core.sources import BenchSource
from tests.in_process.core.transports import BenchBroker

pytestmark = pytest.mark.rule("7.1")


@outgoing("orders")
class Order(msgspec.Struct):
    id: int


async def handle(order: Order) -> None:
    pass


async def test_a_broker_connects_to_publish_only(service: Service) -> None:
    source = service.on(handle)
    service.bench.group(source)
    async with service.broker.connected():
        await service.broker.publish(Order(1), headers={RETRY_COUNT_HEADER: "3"})

    (message,) = service.bench.stored
    assert (message.address, message.payload) == ("orders", b'{"id":1}')
    assert headers(message) == {RETRY_COUNT_HEADER: "3"}
    assert service.bench.events == ["connect bench", "disconnect bench"]
    assert len(service.bench.group(source).ready) == 1
    with pytest.raises(NotRunning):
        await service.broker.publish(Order(2))


async def test_a_publisher_needs_neither_lifespan_nor_topology() -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        raise AssertionError("opened")
        yield

    app = App("shop", lifespan=lifespan)
    broker = app.add(BenchBroker())
    broker.include(Subscriber(BenchSource("orders"), handle), dead_letter="orders")

    async with broker.connected():
        await broker.publish("orders", b"1")

    assert len(broker.bench.stored) == 1


async def test_a_program_runs_a_service_beside_its_own_work(service: Service) -> None:
    service.on(handle)
    with paused_clock() as clock:
        async with service.app.running() as run:
            await service.broker.publish(Order(1))
            await clock.settle()
            assert run.health.ready
        with pytest.raises(NotRunning, match="is not running"):
            await service.broker.publish(Order(2))

    assert [ids for _, ids in service.bench.written] == [["1"]]


async def test_every_task_of_the_program_may_publish(service: Service) -> None:
    service.on(handle)

    async def elsewhere() -> None:
        await service.broker.publish(Order(1))

    task = asyncio.create_task(asyncio.sleep(0))
    async with service.app.running():
        await asyncio.gather(task, *(asyncio.create_task(elsewhere()) for _ in range(5)))

    assert len(service.bench.at("orders")) == 5


async def test_many_publishes_at_once_are_all_confirmed(service: Service) -> None:
    async with service.app.running():
        await asyncio.gather(*(service.broker.publish("orders", n) for n in range(1000)))

    assert sorted(int(one.payload) for one in service.bench.stored) == list(range(1000))


async def test_one_app_bridges_two_brokers() -> None:
    app = App("bridge")
    bench = app.add(BenchBroker(Bench()))
    memory = app.add(MemoryBroker())
    arrived: list[int] = []

    async def from_bench(order: Order) -> None:
        await memory.publish("orders", order)

    async def from_memory(order: Order, publisher: Publisher) -> None:
        arrived.append(order.id)
        await publisher.publish("done", order)

    async def done(order: Order) -> None:
        arrived.append(-order.id)

    bench.include(Subscriber(BenchSource("orders"), from_bench))
    memory.include(Subscriber(MemoryTopic("orders"), from_memory))
    memory.include(Subscriber(MemoryTopic("done"), done))
    async with TestApp(app) as tb:
        await tb.publish("orders", Order(7), broker=bench)

        tb.assert_settled(from_bench, "ack")
        tb.assert_settled(from_memory, "ack")
    assert arrived == [7, -7]
    assert [one.address for one in bench.bench.stored] == ["orders"]


async def test_a_fault_on_one_broker_stops_the_whole_service() -> None:
    app = App("bridge")
    bench = app.add(BenchBroker(Bench()))
    memory = app.add(MemoryBroker())
    seen: list[int] = []

    async def quits(order: Order) -> None:
        raise SystemExit(3)

    async def goes_on(order: Order) -> None:
        seen.append(order.id)
        await asyncio.sleep(1)

    bench.include(Subscriber(BenchSource("orders"), quits))
    memory.include(Subscriber(MemoryTopic("orders"), goes_on))

    with paused_clock() as clock:
        run = app.new_run()
        await run.start()
        for number in range(3):
            await run.publish(memory, "orders", Order(number))
        await clock.settle()
        await run.publish(bench, "orders", Order(9))
        await clock.advance(5)
        await run.until_asked()
        # What ran has ended; nothing new was started after the fault.
        assert seen == [0]
        with pytest.raises(SystemExit):
            await run.stop()
