"""What goes wrong is told, with the time line, and never hidden."""

from __future__ import annotations

import asyncio
import itertools
import threading
import traceback

import pytest

from surestream import NotRunning, Outcome, ServiceFailed, Subscriber, fail_fast
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.testing import NotSettled, TestApp
from tests.in_process.testing.service import (
    Processor,
    Refund,
    process_refund,
    review_refund,
    service,
    under_test,
)


class BrokenError(Exception):
    """What no service can go on with."""


def failing_service() -> TestApp:
    async def breaks(refund: Refund) -> None:
        raise BrokenError("cannot go on")

    app = service()
    broker = app.brokers[0]
    assert isinstance(broker, MemoryBroker)
    broker.include(Subscriber(MemoryTopic("breaks"), breaks), on_error={BrokenError: fail_fast()})
    return TestApp(app, state=Processor())


@pytest.mark.rule("2.3")
async def test_a_fault_that_stops_the_service_is_raised_where_it_happens() -> None:
    async with failing_service() as tb:
        with pytest.raises(ServiceFailed) as failed:
            await tb.publish("breaks", Refund(1))
        with pytest.raises(NotRunning, match="has stopped"):
            await tb.publish("refunds", Refund(2))

    assert isinstance(failed.value.__cause__, BrokenError)
    assert "breaks(Refund(id=1, card='good')) raised BrokenError" in str(failed.value)


async def test_a_fault_nobody_looked_for_is_raised_at_the_end() -> None:
    async def test() -> None:
        async with failing_service() as tb:
            await tb.run.publish(tb.run.app.brokers[0], "breaks", Refund(1))

    with pytest.raises(ServiceFailed) as failed:
        await test()

    assert isinstance(failed.value.__cause__, BrokenError)


async def test_a_fault_beside_an_error_of_the_test_is_told_in_a_note() -> None:
    async def test() -> None:
        async with failing_service() as tb:
            await tb.run.publish(tb.run.app.brokers[0], "breaks", Refund(1))
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test") as failed:
        await test()

    text = "".join(traceback.format_exception(failed.value))
    assert "the service failed too:" in text
    assert "BrokenError: cannot go on" in text


async def test_a_plain_assertion_is_shown_with_the_time_line() -> None:
    async def test() -> None:
        async with TestApp(service(), state=Processor()) as tb:
            await tb.publish("refunds", Refund(1, "busy"))
            await tb.advance(30)
            assert tb.calls(process_refund) == []

    with pytest.raises(AssertionError) as failed:
        await test()

    (note,) = failed.value.__notes__
    assert note == (
        "what happened, by virtual seconds:\n"
        '   +0.000 s  published to refunds: {"id":1,"card":"busy"}\n'
        "   +0.000 s  refunds/default 1 attempt 1/4: process(Refund(id=1, card='busy')) "
        "→ retry_after(30): given back, due at +30.000 s\n"
        "  +30.000 s  refunds/default 1 attempt 2/4: process(Refund(id=1, card='busy')) "
        "→ retry_after(30): given back, due at +60.000 s"
    )


async def test_our_own_assertions_say_what_was_found() -> None:
    async with TestApp(service(), state=Processor()) as tb:
        await tb.publish("refunds", Refund(1, "busy"))

        with pytest.raises(AssertionError, match="process was called 1 times, not 2"):
            tb.assert_called(process_refund, times=2)
        with pytest.raises(AssertionError, match=r"settled \['given back'\], not \['ack'\]"):
            tb.assert_settled(process_refund, "ack")
        with pytest.raises(AssertionError, match=r"0 messages were stored at refunds\.dlq, not 1"):
            tb.assert_published("refunds.dlq")
        with pytest.raises(AssertionError, match=r"1 messages wait, 0 handlers run") as failed:
            tb.assert_nothing_waits()
        tb.assert_called(review_refund, times=0)

    assert "<given back until +30 s: refunds/default 1>" in str(failed.value)
    assert "what happened, by virtual seconds:" in str(failed.value)
    assert not hasattr(failed.value, "__notes__")


async def test_a_long_story_is_cut_at_its_begin() -> None:
    async with TestApp(service(), state=Processor()) as tb:
        for n in range(100):
            await tb.publish("refunds", Refund(n))

        with pytest.raises(AssertionError) as failed:
            tb.assert_called(process_refund)

    lines = str(failed.value).splitlines()
    assert "  (140 earlier lines)" in lines
    assert "Refund(id=99" in lines[-1]
    assert len(tb.timeline().splitlines()) == 201


async def test_nothing_happened_is_told_too() -> None:
    async with TestApp(service(), state=Processor()) as tb:
        assert tb.timeline() == "what happened, by virtual seconds:\n  nothing"


async def test_a_handler_that_never_rests_is_named_with_the_time_line() -> None:
    stop = False

    async def spins(refund: Refund) -> None:
        for _ in itertools.count():
            if stop:
                return
            await asyncio.sleep(0)

    async with under_test(Subscriber(MemoryTopic("spins"), spins), patience=0.1) as tb:
        with pytest.raises(NotSettled) as error:
            await tb.publish("spins", Refund(1))
        stop = True

    assert "never comes to rest at +0:00:00" in str(error.value)
    assert "spins(Refund(id=1, card='good')), still running" in str(error.value)


async def test_messages_that_go_round_and_round_at_one_instant_are_told() -> None:
    """Two handlers that publish to each other never come to rest."""
    app = service()
    broker = app.brokers[0]
    assert isinstance(broker, MemoryBroker)

    async def ping(refund: Refund) -> None:
        await broker.publish("pong", refund)

    async def pong(refund: Refund) -> None:
        if not stop:
            await broker.publish("ping", refund)

    stop = False
    broker.include(Subscriber(MemoryTopic("ping"), ping))
    broker.include(Subscriber(MemoryTopic("pong"), pong))

    async with TestApp(app, state=Processor(), patience=0.1) as tb:
        with pytest.raises(NotSettled) as error:
            await tb.publish("ping", Refund(1))
        stop = True

    assert "earlier lines)" in str(error.value)
    assert "pong(Refund(id=1, card='good'))" in str(error.value)


async def test_a_thread_that_does_not_end_is_named() -> None:
    release = threading.Event()

    def stuck(refund: Refund) -> Outcome | None:
        release.wait(5)
        return None

    async with under_test(Subscriber(MemoryTopic("stuck"), stuck), patience=0.1) as tb:
        with pytest.raises(NotSettled) as error:
            await tb.publish("stuck", Refund(1))
        release.set()
        await tb.settle()

    tb.assert_settled(stuck, "ack")
    assert "under way at +0:00:00: stuck (stuck/default 1 attempt 1). A thread" in str(error.value)
    assert "stuck(Refund(id=1, card='good')), still running" in str(error.value)


async def test_a_stop_that_does_not_end_is_told_and_leaves_the_loop_clean() -> None:
    release = threading.Event()

    def stuck(refund: Refund) -> None:
        release.wait(5)

    async def test() -> None:
        async with under_test(Subscriber(MemoryTopic("stuck"), stuck), patience=0.1) as tb:
            with pytest.raises(NotSettled):
                await tb.publish("stuck", Refund(1))

    loop_time = asyncio.get_running_loop().time
    with pytest.raises(NotSettled, match="stuck"):
        await test()
    release.set()

    assert asyncio.get_running_loop().time == loop_time


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
@pytest.mark.rule("2.4")
async def test_an_order_to_stop_from_a_handler_reaches_the_test(
    signal: type[BaseException],
) -> None:
    async def quits(refund: Refund) -> None:
        raise signal

    async with under_test(Subscriber(MemoryTopic("quits"), quits)) as tb:
        with pytest.raises(signal):
            await tb.publish("quits", Refund(1))
