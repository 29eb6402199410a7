"""What handlers publish themselves, and that nothing of their message leaks into it (rule 4.10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import pytest

from surestream import (
    App,
    Delivery,
    EncodeError,
    Headers,
    NotRunning,
    Outcome,
    Outgoing,
    Publisher,
    Send,
    State,
    Subscriber,
    drop,
    outgoing,
    retry,
)
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.testing import TestApp
from tests.in_process.core.service import Service, headers
from tests.in_process.core.transports import BenchBroker

H = TypeVar("H", bound=Callable[..., Any])

OURS = (
    ("x-ruststream-retry-count", b"2"),
    ("X-SureStream-For", b"orders/g"),
    ("x-surestream-not-before", b"1"),
    ("x-surestream-msg-id", b"1"),
    ("x-surestream-dead-reason", b"attempts-spent"),
    ("x-surestream-dead-source", b"elsewhere"),
    ("x-surestream-dead-attempts", b"1"),
    ("tenant", b"acme"),
)


class Receipt(msgspec.Struct):
    order: int


# -- nothing leaks ------------------------------------------------------------------------


async def run(service: Service, handler: Callable[..., Any], **options: Any) -> list[Outgoing]:
    """Hand ``handler`` one message with every header of ours; what is then at "out"."""
    source = service.on(handler, **options)
    service.bench.ready(source, b"7", headers=OURS)
    async with service.test() as tb:
        await tb.settle()
        tb.assert_called(handler)
        assert tb.calls(handler)[0].error is None
    return service.bench.at("out")


pytestmark = pytest.mark.rule("4.10")


async def test_a_reply_has_no_headers(service: Service) -> None:
    async def process(order: int) -> Receipt:
        return Receipt(order)

    (message,) = await run(service, process, reply_to="out")

    assert message == Outgoing("out", b'{"order":7}')


async def test_the_headers_of_a_delivery_given_on_by_a_publisher(service: Service) -> None:
    async def process(order: int, delivery: Delivery, publisher: Publisher) -> None:
        await publisher.publish("out", order, headers=dict(delivery.headers))
        await publisher.publish("out", order, headers=delivery.headers)
        await publisher.publish("out", order)

    one, two, three = await run(service, process)

    assert one.headers == two.headers == (("tenant", b"acme"),)
    assert three.headers == ()


async def test_the_headers_of_a_delivery_given_on_by_its_broker(service: Service) -> None:
    async def process(order: int, own: Headers) -> None:
        await service.broker.publish("out", order, headers=dict(own))

    (message,) = await run(service, process)

    assert message.headers == (("tenant", b"acme"),)


async def test_from_the_thread_of_a_def_handler(service: Service) -> None:
    loop = asyncio.get_running_loop()

    def process(order: int, own: Headers) -> None:
        work = service.broker.publish("out", order, headers=dict(own))
        asyncio.run_coroutine_threadsafe(work, loop).result(10)

    (message,) = await run(service, process)

    assert message.headers == (("tenant", b"acme"),)


async def test_from_a_task_that_outlives_the_handler(service: Service) -> None:
    tasks: list[asyncio.Task[None]] = []

    async def process(order: int, own: Headers, publisher: Publisher) -> None:
        async def late() -> None:
            await asyncio.sleep(1)
            await publisher.publish("out", order, headers=dict(own))
            await service.broker.publish("out", order, headers=dict(own))

        tasks.append(asyncio.create_task(late()))

    source = service.on(process)
    service.bench.ready(source, b"7", headers=OURS)
    async with service.test() as tb:
        await tb.settle()
        tb.assert_settled(process, "ack")
        await tb.advance(1)
        await asyncio.gather(*tasks)

    one, two = service.bench.at("out")
    assert one.headers == two.headers == (("tenant", b"acme"),)


class Desk(asyncio.Queue[tuple[Publisher, dict[str, str]]]):
    """What handlers leave to others to publish."""


async def test_from_a_task_of_the_lifespan_that_was_handed_the_publisher() -> None:
    """It does not run in a handler; the publisher is a handler's all the same."""

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[Desk]:
        queue = Desk()

        async def background() -> None:
            while True:
                publisher, own = await queue.get()
                await publisher.publish("out", 1, headers=own)

        task = asyncio.create_task(background())
        yield queue
        task.cancel()

    async def process(order: int, own: Headers, publisher: Publisher, desk: State[Desk]) -> None:
        await desk.put((publisher, dict(own)))

    (message,) = await run(Service(lifespan=lifespan), process)

    assert message.headers == (("tenant", b"acme"),)


async def test_from_publish_middleware_that_knows_the_delivery() -> None:
    async def echoing(message: Outgoing, send: Send) -> None:
        await send(replace(message, headers=(*message.headers, *OURS)))

    async def process(order: int, publisher: Publisher) -> Receipt:
        await publisher.publish("out", order)
        return Receipt(order)

    own, reply = await run(Service(publish_middleware=[echoing]), process, reply_to="out")

    assert own.headers == reply.headers == (("tenant", b"acme"),)


async def test_a_program_outside_of_handlers_may_send_them(service: Service) -> None:
    """As tools do that put a dead letter back."""
    async with service.test() as tb:
        await tb.run.publish(service.broker, "out", 1, {"x-ruststream-retry-count": "3"})

    (message,) = service.bench.at("out")
    assert headers(message) == {"x-ruststream-retry-count": "3"}


# -- several destinations -----------------------------------------------------------------


@outgoing("shipments")
@dataclass
class Shipment:
    order: int


@outgoing("invoices")
class Invoice(msgspec.Struct):
    order: int


async def test_each_type_goes_where_it_says(service: Service) -> None:
    async def process(order: int, publisher: Publisher) -> Receipt:
        await asyncio.gather(publisher.publish(Shipment(order)), publisher.publish(Invoice(order)))
        await publisher.publish("copies", Invoice(order), headers={"tenant": "acme"})
        return Receipt(order)

    service.on(process, reply_to="receipts")
    async with service.test() as tb:
        await tb.publish("orders", 7)

        sent = {message.address: message.payload for message in service.bench.stored[1:]}
        assert sent == dict.fromkeys(
            ("shipments", "invoices", "copies", "receipts"), b'{"order":7}'
        )
        tb.assert_published("shipments", kind="publish")
        tb.assert_published("receipts", kind="reply")


async def test_what_cannot_be_published_is_an_exception_in_the_handler(service: Service) -> None:
    errors: list[Exception] = []

    async def process(order: int, publisher: Publisher) -> None:
        for work in (
            publisher.publish("out", object()),
            publisher.publish("out.*", 1),
            publisher.publish(Receipt(1)),
            publisher.publish("out", 1, headers={"a": "1", "A": "2"}),
        ):
            try:
                await work
            except Exception as error:
                errors.append(error)

    service.on(process)
    async with service.test() as tb:
        await tb.publish("orders", 7)

        tb.assert_settled(process, "ack")
    assert [type(error).__name__ for error in errors] == [
        "EncodeError",
        "DeclarationError",
        "DeclarationError",
        "ValueError",
    ]
    assert service.bench.at("out") == []


async def test_what_was_published_before_a_failure_stays_published(service: Service) -> None:
    async def process(order: int, publisher: Publisher) -> Outcome:
        await publisher.publish(Invoice(order))
        return retry()

    service.on(process, max_attempts=3, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", 7)

        assert len(service.bench.at("invoices")) == 3


async def test_a_task_that_goes_on_after_the_stop_is_told_that_nothing_runs(
    service: Service,
) -> None:
    goes_on = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def process(order: int, publisher: Publisher) -> None:
        async def late() -> None:
            await goes_on.wait()
            await publisher.publish("out", order)

        tasks.append(asyncio.create_task(late()))

    service.on(process)
    async with service.test() as tb:
        await tb.publish("orders", 7)
    goes_on.set()

    with pytest.raises(NotRunning, match="not connected in this run"):
        await tasks[0]


# -- several brokers, several runs --------------------------------------------------------


async def test_a_handler_publishes_on_another_broker_of_its_app(service: Service) -> None:
    other = service.app.add(BenchBroker(name="other"))
    memory = service.app.add(MemoryBroker())
    got: list[int] = []

    async def process(order: int, own: Headers, publisher: Publisher) -> Receipt:
        await publisher.publish("out", order)
        await other.publish("out", order + 1, headers=dict(own))
        await memory.publish("inside", order + 2)
        return Receipt(order)

    async def inside(order: int) -> None:
        got.append(order)

    memory.include(Subscriber(MemoryTopic("inside"), inside))
    source = service.on(process, reply_to="receipts")
    service.bench.ready(source, b"7", headers=OURS)
    async with service.test() as tb:
        await tb.settle()
        tb.assert_settled(process, "ack")

    assert [message.payload for message in service.bench.at("out")] == [b"7"]
    (there,) = other.bench.stored
    assert there == Outgoing("out", b"8", (("tenant", b"acme"),))
    assert got == [9]
    assert len(service.bench.at("receipts")) == 1


async def test_a_broker_of_no_app_is_not_running(service: Service) -> None:
    stranger = MemoryBroker()

    async def process(order: int) -> None:
        await stranger.publish("out", order)

    service.on(process, on_error={NotRunning: drop(), EncodeError: retry()})
    async with service.test() as tb:
        await tb.publish("orders", 7)

        tb.assert_settled(process, "drop")


async def test_runs_of_one_app_at_the_same_time_keep_what_they_publish_apart() -> None:
    app = App("twice")
    broker = app.add(MemoryBroker())

    async def process(order: int, publisher: Publisher) -> Receipt:
        await broker.publish("by.broker", order)
        await publisher.publish("by.publisher", order)
        return Receipt(order)

    broker.include(Subscriber(MemoryTopic("orders"), process), reply_to="by.reply")
    async with TestApp(app) as one, TestApp(app) as two:
        await one.publish("orders", 1)
        await two.publish("orders", 2)

        for run, value in ((one, 1), (two, 2)):
            assert [message.value for message in run.published("by.broker")] == [value]
            assert [message.value for message in run.published("by.publisher")] == [value]
            assert [message.value for message in run.published("by.reply")] == [{"order": value}]
