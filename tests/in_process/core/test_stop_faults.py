"""Stopping, and what fails on the way (rule 7.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from surestream import App, BrokerRefused, ConnectionLost, Phase, ServiceFailed, Subscriber
from surestream.contract import RunContext, Transport
from surestream.testing import paused_clock
from tests.in_process.core.bench import Bench
from tests.in_process.core.service import Service
from tests.in_process.core.sources import BenchSource
from tests.in_process.core.transports import BenchBroker, BenchSubscription, BenchTransport

pytestmark = pytest.mark.rule("7.3")


async def sleeps(order: float) -> None:
    await asyncio.sleep(order)


async def test_a_broker_that_fails_to_close_does_not_keep_the_others_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(BenchTransport):
        async def close(self) -> None:
            await super().close()
            raise OSError("the socket is broken")

    class FailingBroker(BenchBroker):
        def transport(self, context: RunContext) -> Transport:
            return Failing(self.bench, self.name)

    closed: list[str] = []

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        yield
        closed.append("lifespan")

    bench = Bench()
    app = App("shop", lifespan=lifespan)
    for name in ("first", "second", "third"):
        kind = FailingBroker if name == "second" else BenchBroker
        broker = app.add(kind(bench, name=name))
        broker.include(Subscriber(BenchSource(name), sleeps))

    async with app.running() as run:
        pass

    disconnected = [event for event in bench.events if event.startswith("disconnect")]
    assert disconnected == ["disconnect third", "disconnect second", "disconnect first"]
    assert closed == ["lifespan"]
    assert run.health.phase is Phase.STOPPED
    assert "closing a broker failed" in caplog.text
    assert "OSError: the socket is broken" in caplog.text


async def test_a_lifespan_that_fails_to_close_is_raised_and_the_run_is_over(
    service: Service,
) -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        yield
        raise LookupError("of the lifespan")

    app = App("shop", lifespan=lifespan)
    app.add(service.broker)
    run = app.new_run()
    await run.start()

    with pytest.raises(LookupError, match="of the lifespan"):
        await run.stop()
    assert run.health.phase is Phase.FAILED
    with pytest.raises(ServiceFailed, match="of the lifespan"):
        await run.stop()


async def test_a_failed_service_says_so_although_its_lifespan_fails_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        yield
        raise LookupError("of the lifespan")

    service = Service(lifespan=lifespan)
    async with service.app.running() as run:
        run.fail(ZeroDivisionError("first"))
        with pytest.raises(ServiceFailed, match="first"):
            await run.stop()
        run.failure = None
    assert "of the lifespan" in caplog.text


@pytest.mark.parametrize("error", [ConnectionLost("gone"), BrokerRefused("no")])
async def test_a_reader_that_cannot_be_told_to_stop_does_not_cut_handlers_off(
    service: Service, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fails(self: BenchSubscription) -> None:
        if not self.closed:
            self.closed = True
            raise error

    monkeypatch.setattr(BenchSubscription, "stop_pulling", fails)
    source = service.on(sleeps)
    service.bench.ready(source, b"3")
    async with service.test() as tb:
        await tb.advance(1)
        # It comes while the service stops: nobody may take it any more.
        asyncio.get_running_loop().call_later(1, service.bench.ready, source, b"4")

    tb.assert_settled(sleeps, "ack")
    assert [ids for _, ids in service.bench.written] == [["1"]]
    assert [entry.count for entry in service.bench.group(source).ready] == [0]


async def test_a_reader_that_does_not_stop_is_ended(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ignores(self: BenchSubscription) -> None:
        pass

    monkeypatch.setattr(BenchSubscription, "stop_pulling", ignores)
    source = service.on(sleeps)
    with paused_clock() as clock:
        async with service.test():
            pass
        assert clock.seconds < 6
    assert service.bench.group(source).readers == 1


@pytest.mark.rule("7.4")
async def test_what_cannot_be_given_back_is_told(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    source = service.on(sleeps)
    for order in (b"3", b"1", b"1"):
        service.bench.ready(source, order)
    async with service.test() as tb:
        await tb.advance(1)
        service.bench.down = True

    assert (
        "orders/g: 2 messages could not be given back (the bench is down); they are taken over"
    ) in caplog.text


async def test_stopping_twice_stops_once_and_both_wait(service: Service) -> None:
    source = service.on(sleeps)
    service.bench.ready(source, b"5")
    with paused_clock() as clock:
        run = service.app.new_run()
        await run.start()
        await clock.settle()
        first, second = asyncio.create_task(run.stop()), asyncio.create_task(run.stop())
        await clock.advance(4)
        assert not first.done()
        assert not second.done()
        await clock.advance(1)
        assert first.done()
        assert second.done()
        await run.stop()

    assert [ids for _, ids in service.bench.written] == [["1"]]
    assert service.bench.events.count("disconnect bench") == 1


async def test_a_stop_that_is_cancelled_still_closes_everything(service: Service) -> None:
    source = service.on(sleeps)
    service.bench.ready(source, b"1e9")
    run = service.app.new_run()
    before = asyncio.all_tasks()
    with paused_clock() as clock:
        await run.start()
        await clock.settle()
        stopping = asyncio.create_task(run.stop())
        await clock.advance(1)
        stopping.cancel()
        await clock.advance(3)
        assert stopping.cancelled()

    assert service.bench.events[-2:] == ["close orders/g", "disconnect bench"]
    assert asyncio.all_tasks() == before
    assert service.bench.returned == [("1", 0.0, False)]


async def test_nothing_of_a_run_is_left_on_the_loop(service: Service) -> None:
    def threaded(order: float) -> None:
        pass

    service.on(sleeps, workers=3, by_key="k")
    service.on(threaded, topic="threads")
    before = asyncio.all_tasks()
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.publish("threads", 1)
        await tb.advance(100)

    assert asyncio.all_tasks() == before


async def test_a_block_that_fails_stops_the_service_and_keeps_its_error(
    service: Service,
) -> None:
    service.on(sleeps)

    with pytest.raises(ZeroDivisionError):
        async with service.app.running():
            raise ZeroDivisionError

    assert service.bench.events[-1] == "disconnect bench"
