"""TestApp: the production app in process, its time standing still."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from surestream import (
    App,
    Backoff,
    DeclarationError,
    DeclarationTypeError,
    DecodeError,
    Delivery,
    EncodeError,
    Headers,
    NotRunning,
    Outcome,
    Publisher,
    State,
    Subscriber,
    outgoing,
    retry_after,
)
from surestream.memory import MemoryBroker, MemoryServer, MemoryTopic
from surestream.testing import Call, Ended, Message, Settlement, TestApp, Trouble
from tests.in_process.testing.service import (
    BACKOFF,
    Processor,
    Refund,
    process,
    process_refund,
    review,
    review_refund,
    service,
    under_test,
)

MILLISECOND = timedelta(milliseconds=1)


@pytest.fixture
async def tb() -> AsyncIterator[TestApp]:
    async with TestApp(service(), state=Processor()) as tb:
        yield tb


@pytest.mark.rule("8.1")
async def test_publish_returns_when_everything_is_handled(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1), headers={"trace": "abc"})

    (call,) = tb.calls(process_refund)
    assert call.value == Refund(1)
    assert (call.attempt, call.at, call.ended_at) == (1, 0.0, 0.0)
    assert (repr(call.outcome), call.error) == ("ack()", None)
    assert call.headers["trace"] == "abc"
    assert call.payload == b'{"id":1,"card":"good"}'
    assert (call.subscription, call.id) == ("refunds/default", "1")
    tb.assert_settled(process_refund, "ack")


@pytest.mark.rule("8.1")
@pytest.mark.case("TH-01")
async def test_the_cap_holds_on_the_delayed_path(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1, "busy"))

    for _ in range(10):
        await tb.advance(BACKOFF)

    assert [(call.attempt, call.at) for call in tb.calls(process_refund)] == [
        (1, 0.0),
        (2, 30.0),
        (3, 60.0),
        (4, 90.0),
    ]
    tb.assert_settled(process_refund, "given back", "given back", "given back", "dead letter")
    tb.assert_published("refunds.dlq", kind="dead letter")
    tb.assert_called(review_refund)
    tb.assert_nothing_waits()


async def test_one_long_advance_is_many_short_ones(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1, "busy"))

    await tb.advance(10 * BACKOFF)

    assert [call.at for call in tb.calls(process_refund)] == [0.0, 30.0, 60.0, 90.0]
    assert tb.now == 300.0


@pytest.mark.case("TH-09")
async def test_the_boundary_of_a_delay(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1, "busy"))

    await tb.advance(BACKOFF - MILLISECOND)
    before = len(tb.calls(process_refund))
    await tb.advance(MILLISECOND)

    assert (before, len(tb.calls(process_refund))) == (1, 2)


@pytest.mark.case("CK-05")
@pytest.mark.parametrize(
    "delay", [timedelta(days=25), timedelta(days=300 * 366), timedelta.max, 1e18]
)
async def test_a_delay_of_many_years_waits(delay: Any) -> None:
    async def later(refund: Refund) -> Outcome:
        return retry_after(delay)

    async with under_test(Subscriber(MemoryTopic("later"), later)) as tb:
        await tb.publish("later", Refund(1))
        await tb.advance(timedelta(days=24))

        tb.assert_called(later)
        (waiting,) = tb.parked()
        assert waiting.due > timedelta(days=24).total_seconds()


@pytest.mark.case("CK-10")
async def test_delays_below_a_millisecond() -> None:
    async def soon(refund: Refund, delivery: Delivery) -> Outcome | None:
        return retry_after(0.0004 if refund.id == 1 else 0.0007) if delivery.attempt == 1 else None

    async with under_test(Subscriber(MemoryTopic("soon"), soon)) as tb:
        await tb.publish("soon", Refund(1))
        await tb.publish("soon", Refund(2))

        await tb.advance(0.0003)
        at_300 = len(tb.calls(soon))
        await tb.advance(0.0002)
        at_500 = len(tb.calls(soon))
        await tb.advance(0.0006)

        assert (at_300, at_500, len(tb.calls(soon))) == (2, 3, 4)


async def test_what_is_parked_and_when_it_is_due(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1, "busy"))
    await tb.advance(10)
    await tb.publish("refunds", Refund(2, "busy"))

    first, second = tb.parked()

    assert (first.due, second.due) == (30.0, 40.0)
    assert (first.how, first.payload) == ("given back", b'{"id":1,"card":"busy"}')
    assert first.subscription == "refunds/default"
    await tb.advance(20)
    assert [waiting.due for waiting in tb.parked()] == [40.0, 60.0]


async def test_how_deliveries_were_settled(tb: TestApp) -> None:
    for number, card in enumerate(["good", "closed", "down"]):
        await tb.publish("refunds", Refund(number, card))
    await tb.publish("refunds", b"no JSON")

    settlements = tb.settlements(process_refund)

    assert [(one.how, one.attempt, repr(one.outcome)) for one in settlements] == [
        ("ack", 1, "ack()"),
        ("drop", 1, "drop()"),
        ("given back", 1, "retry()"),
        ("given back", 2, "retry()"),
        ("given back", 3, "retry()"),
        ("dead letter", 4, "retry()"),
        ("drop", 1, "None"),
    ]


async def test_what_was_published_where(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1, "down"), headers={"trace": "abc"})

    (sent,) = tb.published("refunds")
    (dead,) = tb.published("refunds.dlq")

    assert (sent.kind, sent.value) == ("publish", {"id": 1, "card": "down"})
    assert (dead.kind, dead.payload) == ("dead letter", sent.payload)
    assert dead.headers["trace"] == "abc"
    assert dead.headers["x-ruststream-retry-count"] == "4"
    assert tb.published() == [sent, dead]
    assert tb.published(kind="copy") == []


async def test_what_a_handler_publishes_is_among_it() -> None:
    async def forward(refund: Refund, out: Publisher) -> None:
        await out.publish("refunds", refund)

    async with under_test(Subscriber(MemoryTopic("in"), forward)) as tb:
        await tb.publish("in", Refund(7))

        tb.assert_published("refunds")
        assert [call.value for call in tb.calls(process_refund)] == [Refund(7)]


async def test_an_exception_is_told_with_its_outcome(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1, "broken"))

    (call,) = tb.calls(process_refund)

    assert isinstance(call.error, KeyError)
    assert call.outcome is not None
    assert isinstance(call.outcome.backoff, Backoff)
    (waiting,) = tb.parked()
    assert 1.0 <= waiting.due <= 1.1


async def test_chance_is_the_same_in_every_run() -> None:
    due: list[float] = []
    for _ in range(2):
        async with TestApp(service(), state=Processor()) as tb:
            await tb.publish("refunds", Refund(1, "broken"))
            due.append(tb.parked()[0].due)

    assert due[0] == due[1]


@pytest.mark.rule("8.1")
async def test_a_handlers_own_sleep_follows(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1, "slow"))
    (call,) = tb.calls(process_refund)
    running = call.ended_at
    await tb.advance(5)

    assert running is None
    assert call.ended_at == 5.0
    tb.assert_settled(process_refund, "ack")


@pytest.mark.rule("8.1")
async def test_handlers_in_threads_are_waited_for() -> None:
    def blocking(refund: Refund) -> Outcome | None:
        threading.Event().wait(0.02)
        return retry_after(10) if refund.card == "busy" else None

    async with under_test(Subscriber(MemoryTopic("blocking"), blocking)) as tb:
        await tb.publish("blocking", Refund(1))
        tb.assert_settled(blocking, "ack")
        await tb.publish("blocking", Refund(2, "busy"))
        await tb.advance(20)

        assert [call.at for call in tb.calls(blocking)] == [0.0, 0.0, 10.0, 20.0]


async def test_a_handler_that_publishes_from_its_thread_is_waited_for() -> None:
    def forward(refund: Refund) -> None:
        publishing = tb.run.app.brokers[0].publish("refunds", refund)  # type: ignore[attr-defined]
        asyncio.run_coroutine_threadsafe(publishing, loop).result(5)

    loop = asyncio.get_running_loop()
    async with under_test(Subscriber(MemoryTopic("in"), forward)) as tb:
        await tb.publish("in", Refund(7))

        tb.assert_called(process_refund)


async def test_a_destination_that_the_type_declares() -> None:
    @outgoing("refunds")
    class Declared(Refund): ...

    async with TestApp(service(), state=Processor()) as tb:
        await tb.publish(Declared(3))

        assert [call.value for call in tb.calls(process_refund)] == [Refund(3)]


async def test_the_broker_is_found_by_the_address_and_can_be_named() -> None:
    async def other(refund: Refund) -> None: ...

    app = service()
    second = app.add(MemoryBroker())
    second.include(Subscriber(MemoryTopic("other"), other))
    async with TestApp(app, state=Processor()) as tb:
        await tb.publish("refunds", Refund(1))
        await tb.publish_many("other", [Refund(2)])
        await tb.publish("nobody", Refund(3), broker=second)
        with pytest.raises(DeclarationError, match=r"0 of the app's 2 brokers.*\n.*broker="):
            await tb.publish("nobody", Refund(4))

        tb.assert_called(process_refund)
        tb.assert_called(other)
        server = tb.run.context.servers[second]
        assert isinstance(server, MemoryServer)
        assert [message.payload for message in server.unheard] == [b'{"id":3,"card":"good"}']


async def test_a_publish_that_cannot_be_is_refused_as_in_production(tb: TestApp) -> None:
    with pytest.raises(DeclarationError, match="declares no destination"):
        await tb.publish(Refund(1))

    assert tb.published() == []


async def test_a_handler_is_asked_for_by_subscriber_or_by_function() -> None:
    class Audit:
        async def note(self, refund: Refund) -> None: ...

    audit = Audit()
    async with TestApp(
        service(
            Subscriber(MemoryTopic("audit"), audit.note), Subscriber(MemoryTopic("again"), process)
        ),
        state=Processor(),
    ) as tb:
        await tb.publish("refunds", Refund(1))
        await tb.publish("again", Refund(2))
        await tb.publish("audit", Refund(3))

        assert [call.value for call in tb.calls(process)] == [Refund(1), Refund(2)]
        assert [call.value for call in tb.calls(process_refund)] == [Refund(1)]
        assert [call.value for call in tb.calls(audit.note)] == [Refund(3)]


async def test_asking_for_a_handler_that_is_not_included_is_refused(tb: TestApp) -> None:
    async def stranger(refund: Refund) -> None: ...

    with pytest.raises(DeclarationError) as refused:
        tb.calls(stranger)

    assert "calls(stranger)" in str(refused.value)
    assert "does not include it" in str(refused.value)
    assert "one of: process, review" in str(refused.value)
    assert tb.calls(review) == []


def test_what_is_no_app_is_refused() -> None:
    with pytest.raises(DeclarationTypeError, match="it tests an App"):
        TestApp(service)  # type: ignore[arg-type]


async def test_it_has_to_be_entered_and_only_once() -> None:
    tb = TestApp(service(), state=Processor())
    with pytest.raises(NotRunning, match="async with TestApp"):
        await tb.publish("refunds", Refund(1))

    async with tb:
        await tb.publish("refunds", Refund(1))

    with pytest.raises(NotRunning, match="has stopped"):
        await tb.advance(1)
    with pytest.raises(NotRunning, match=r"make a new TestApp"):
        await tb.__aenter__()
    tb.assert_called(process_refund)


async def test_state_replaces_the_lifespan() -> None:
    opened: list[str] = []

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[Processor]:
        opened.append("opened")
        yield Processor()
        opened.append("closed")

    given = Processor()
    async with TestApp(service(lifespan=lifespan), state=given) as tb:
        await tb.publish("refunds", Refund(9))
    without_state = TestApp(service(lifespan=lifespan))

    assert (given.seen, opened) == ([9], [])
    async with without_state as tb:
        await tb.publish("refunds", Refund(9))
        assert opened == ["opened"]
    assert opened == ["opened", "closed"]


async def test_a_lifespan_may_take_its_time() -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[Processor]:
        await asyncio.sleep(2)
        yield Processor()
        await asyncio.sleep(3)

    async with TestApp(service(lifespan=lifespan)) as tb:
        assert tb.now == 2.0
        await tb.publish("refunds", Refund(1))
        assert tb.calls(process_refund)[0].at == 2.0


@pytest.fixture
async def with_task_group() -> AsyncIterator[TestApp]:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[Processor]:
        async with asyncio.TaskGroup() as group, asyncio.timeout(3600):
            task = group.create_task(asyncio.sleep(7200))
            yield Processor()
            task.cancel()

    async with TestApp(service(lifespan=lifespan)) as tb:
        yield tb


async def test_a_fixture_may_enter_and_leave_in_other_tasks(with_task_group: TestApp) -> None:
    await with_task_group.publish("refunds", Refund(1))

    with_task_group.assert_called(process_refund)


async def test_leaving_ends_what_still_runs_as_a_stop_does() -> None:
    async with TestApp(service(), state=Processor()) as tb:
        await tb.publish("refunds", Refund(1, "slow"))

    (call,) = tb.calls(process_refund)
    assert (call.ended_at, repr(call.outcome)) == (5.0, "ack()")


async def test_leaving_cuts_off_what_does_not_end() -> None:
    async def endless(refund: Refund) -> None:
        await asyncio.sleep(1e9)

    async with under_test(Subscriber(MemoryTopic("endless"), endless)) as tb:
        await tb.publish("endless", Refund(1))

    (call,) = tb.calls(endless)
    assert call.ended_at == 30.0
    assert isinstance(call.error, asyncio.CancelledError)


async def test_headers_that_a_handler_sees(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1, "down"))

    (call,) = tb.calls(review_refund)

    assert isinstance(call.headers, Headers)
    assert call.headers["x-surestream-dead-time"] == "2025-01-01T00:00:00.000+00:00"


async def test_a_publish_may_be_one_of_several_at_once(tb: TestApp) -> None:
    await asyncio.gather(*(tb.publish("refunds", Refund(n)) for n in range(50)))

    tb.assert_called(process_refund, times=50)


async def test_several_are_published_before_the_first_is_handled() -> None:
    seen: list[tuple[int, int]] = []

    async def counts(refund: Refund) -> None:
        seen.append((refund.id, len(tb.published("counted"))))

    async with under_test(Subscriber(MemoryTopic("counted"), counts)) as tb:
        await tb.publish_many("counted", (Refund(n) for n in range(6)), headers={"trace": "abc"})

        assert seen == [(n, 6) for n in range(6)]
        assert {call.headers["trace"] for call in tb.calls(counts)} == {"abc"}


async def test_the_others_are_published_where_one_cannot_be(tb: TestApp) -> None:
    with pytest.raises(EncodeError):
        await tb.publish_many("refunds", [Refund(1), object(), Refund(2)])

    assert [call.value for call in tb.calls(process_refund)] == [Refund(1), Refund(2)]


async def test_many_may_be_none(tb: TestApp) -> None:
    await tb.publish_many("refunds", [])

    assert tb.events() == []


async def test_events_are_everything_in_order(tb: TestApp) -> None:
    await tb.publish("refunds", b"no JSON")
    await tb.publish("refunds", Refund(1, "slow"))
    await tb.advance(5)

    told = [(type(event), event.at) for event in tb.events()]
    trouble = tb.events()[1]

    assert told == [
        (Message, 0.0),
        (Trouble, 0.0),
        (Settlement, 0.0),
        (Message, 0.0),
        (Call, 0.0),
        (Ended, 5.0),
        (Settlement, 5.0),
    ]
    assert isinstance(trouble, Trouble)
    assert (trouble.what, trouble.handler, trouble.payload) == (
        "undecodable",
        "process",
        b"no JSON",
    )
    assert isinstance(trouble.error, DecodeError)
    assert str(trouble.error) in tb.timeline()
    assert str(trouble.error) in repr(trouble)


async def test_what_was_told_is_a_list_of_ones_own(tb: TestApp) -> None:
    await tb.publish("refunds", Refund(1))

    tb.events().clear()

    assert len(tb.events()) == 3


async def test_state_is_typed(tb: TestApp) -> None:
    """The alias stays what it is in handlers' signatures."""
    assert State[Processor] is not None
    assert process_refund.handler is process
