"""Starting, in order, and unwinding what failed (rules 7.1, 7.2)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surestream import (
    App,
    ConnectFailed,
    DeclarationError,
    NotRunning,
    Phase,
    ServiceFailed,
    State,
    Subscriber,
)
from surestream.contract import RunContext, Transport
from tests.in_process.core.bench import Bench
from tests.in_process.core.service import Service
from tests.in_process.core.sources import BenchSource
from tests.in_process.core.transports import BenchBroker, BenchSubscription, BenchTransport

pytestmark = pytest.mark.rule("7.2")


async def handle(order: int) -> None:
    pass


def lifespan_of(events: list[str]) -> Any:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[str]:
        events.append("open lifespan")
        yield "state"
        events.append("close lifespan")

    return lifespan


def two_brokers(**options: Any) -> tuple[App, BenchBroker, BenchBroker, list[str]]:
    """An app with two brokers over one bench, which notes the order of things."""
    bench = Bench()
    app = App("shop", lifespan=lifespan_of(bench.events), **options)
    first = app.add(BenchBroker(bench, name="first"))
    second = app.add(BenchBroker(bench, name="second"))
    first.include(Subscriber(BenchSource("orders"), handle))
    second.include(Subscriber(BenchSource("refunds"), handle))
    return app, first, second, bench.events


async def test_start_and_stop_run_in_order_and_in_reverse() -> None:
    app, *_, events = two_brokers()

    async with app.running() as run:
        assert (run.health.phase, run.health.ready) == (Phase.RUNNING, True)

    assert run.health.phase is Phase.STOPPED
    assert events == [
        "open lifespan",
        "connect first",
        "connect second",
        "subscribe orders/g",
        "subscribe refunds/g",
        "close refunds/g",
        "close orders/g",
        "disconnect second",
        "disconnect first",
        "close lifespan",
    ]


@pytest.mark.rule("7.1")
async def test_nothing_happens_before_the_run() -> None:
    app, first, _, events = two_brokers()

    assert events == []
    with pytest.raises(NotRunning):
        await first.publish("orders", 1)
    assert "App('shop', version='0.1.0')" in repr(app)


@pytest.mark.rule("7.1")
async def test_a_mistake_is_refused_before_the_lifespan_opens() -> None:
    app, first, _, events = two_brokers()
    first.include(Subscriber(BenchSource("loop"), handle), dead_letter="loop")

    with pytest.raises(DeclarationError, match="dead_letter='loop'"):
        async with app.running():
            pass

    assert events == []


@pytest.mark.rule("7.1")
async def test_a_missing_state_is_refused_before_anything_connects() -> None:
    async def needs(order: int, numbers: State[list[int]]) -> None:
        pass

    app, first, _, events = two_brokers()
    first.include(Subscriber(BenchSource("more"), needs))

    with pytest.raises(DeclarationError, match="parameter numbers"):
        async with app.running():
            pass

    assert events == ["open lifespan", "close lifespan"]


async def test_a_broker_that_is_down_unwinds_what_was_opened() -> None:
    class Down(BenchTransport):
        async def connect(self, timeout: float) -> None:
            assert timeout == 7.5
            raise ConnectFailed("nobody answers at localhost:1")

    class DownBroker(BenchBroker):
        def transport(self, context: RunContext) -> Transport:
            return Down(self.bench, self.name)

    app, first, _, events = two_brokers(connect_timeout=7.5)
    app.add(DownBroker(first.bench, name="third"))
    run = app.new_run()

    with pytest.raises(ConnectFailed, match="nobody answers"):
        await run.start()

    assert events == [
        "open lifespan",
        "connect first",
        "connect second",
        "disconnect third",
        "disconnect second",
        "disconnect first",
        "close lifespan",
    ]
    assert run.health.phase is Phase.FAILED
    with pytest.raises(NotRunning):
        await run.publish(first, "orders", 1)
    with pytest.raises(NotRunning):
        await first.publish("orders", 1)


async def test_an_unwinding_that_fails_too_does_not_hide_why_the_start_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        yield
        raise LookupError("the pool was closed already")

    app = App("shop", lifespan=lifespan)
    broker = app.add(BenchBroker())
    broker.bench.down = True
    broker.include(Subscriber(BenchSource("orders"), handle))

    with pytest.raises(Exception, match="the bench is down"):
        async with app.running():
            pass

    assert "the pool was closed already" in caplog.text


async def test_a_lifespan_that_fails_connects_nothing() -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        raise ConnectionRefusedError("the database is down")
        yield

    app = App("shop", lifespan=lifespan)
    broker = app.add(BenchBroker())

    with pytest.raises(ConnectionRefusedError):
        async with app.running():
            pass

    assert broker.bench.events == []


async def test_a_subscription_that_is_refused_reads_nothing(service: Service) -> None:
    """All subscriptions exist before any message is read."""
    first = service.on(handle)
    service.bench.ready(first, b"1")

    class Refusing(BenchTransport):
        async def subscribe(self, source: Any, terms: Any, origin: Any) -> Any:
            assert terms.where.startswith("handle at tests/in_process/core/service.py:")
            if source.name == "refunds":
                raise DeclarationError("group refunds", why="it belongs to somebody else")
            return await super().subscribe(source, terms, origin)

    service.on(handle, topic="refunds")
    transport = Refusing(service.bench, "bench")
    service.broker.transport = lambda context: transport  # type: ignore[method-assign]

    with pytest.raises(DeclarationError):
        async with service.test():
            pass

    assert service.bench.asked == []
    assert service.bench.events == [
        "connect bench",
        "subscribe orders/g",
        "close orders/g",
        "disconnect bench",
    ]


async def test_a_run_starts_once(service: Service) -> None:
    service.on(handle)
    async with service.app.running() as run:
        with pytest.raises(NotRunning, match=r"started before.*app\.running\(\)"):
            await run.start()
    with pytest.raises(NotRunning, match="started before"):
        await run.start()


async def test_a_run_that_never_started_can_be_stopped(service: Service) -> None:
    run = service.app.new_run()

    with pytest.raises(NotRunning, match="the run was not started"):
        await run.until_asked()
    await run.stop()
    assert run.health.phase is Phase.STOPPED


@pytest.mark.rule("7.1")
@pytest.mark.case("TH-07")
async def test_one_app_runs_several_times_at_once_and_again(service: Service) -> None:
    service.on(handle)
    async with service.app.running() as one, service.app.running() as two:
        await one.publish(service.broker, "orders", 1)
        await two.publish(service.broker, "orders", 2)
        assert one.subscriptions[0] is not two.subscriptions[0]
    async with service.test() as tb:
        await tb.publish("orders", 3)
        tb.assert_settled(handle, "ack")


async def test_the_log_tells_of_start_and_stop(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "surestream")
    service.on(handle)
    async with service.app.running():
        pass

    told = [one.getMessage() for one in caplog.records if one.name == "surestream"]
    assert told == [
        "shop/1.2.0: running",
        "shop/1.2.0: stopping",
        "shop/1.2.0: stopped",
    ]


@pytest.mark.rule("7.5")
async def test_health_tells_of_a_connection_that_is_down(service: Service) -> None:
    service.on(handle)
    async with service.test() as tb:
        assert str(tb.run.health) == "running"
        service.bench.down = True
        assert str(tb.run.health) == "degraded: bench is down"
        service.bench.down = False
        assert tb.run.health.ready


@pytest.mark.rule("7.5")
@pytest.mark.parametrize("where", ["pull", "recover", "confirmed"])
async def test_a_subscription_that_dies_for_good_stops_the_service(
    service: Service, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(self: BenchSubscription, limit: int = 0) -> Any:
        raise ZeroDivisionError("a bug of the transport")

    monkeypatch.setattr(BenchSubscription, where, dies)
    source = service.on(handle)
    for _ in range(100):
        service.bench.ready(source, b"1")

    with pytest.raises(ServiceFailed, match="a bug of the transport"):
        async with service.test() as tb:
            await tb.advance(1)
