"""What a real start refuses, a TestApp refuses, with the same words (TH-08)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from surestream import App, Subscriber
from surestream.contract import RunContext, Transport
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.testing import TestApp
from tests.in_process.testing.service import Processor, Refund, process, review, service

pytestmark = pytest.mark.case("TH-08")


def reads_its_own_dead_letters() -> App:
    app = App("loop")
    app.add(MemoryBroker()).include(
        Subscriber(MemoryTopic("refunds"), review), max_attempts=2, dead_letter="refunds"
    )
    return app


def circle_of_dead_letters() -> App:
    app = App("circle")
    broker = app.add(MemoryBroker())
    for here, there in (("a", "b"), ("b", "a")):
        broker.include(Subscriber(MemoryTopic(here), review), max_attempts=2, dead_letter=there)
    return app


class WarningBroker(MemoryBroker):
    """A broker whose transport finds something to warn of."""

    def transport(self, context: RunContext) -> Transport:
        context.warn("the server keeps nothing")
        return super().transport(context)


def strict_with_a_warning() -> App:
    app = App("strict", strict=True)
    app.add(WarningBroker()).include(Subscriber(MemoryTopic("refunds"), review))
    return app


def state_that_nobody_gives() -> App:
    return service()


def state_of_another_type() -> App:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[str]:
        yield "no processor"

    app = App("wrong state", lifespan=lifespan)
    app.add(MemoryBroker()).include(Subscriber(MemoryTopic("refunds"), process))
    return app


def lifespan_that_fails() -> App:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[Processor]:
        await asyncio.sleep(0)
        raise ConnectionRefusedError("the database is down")
        yield Processor()

    return service(lifespan=lifespan)


@pytest.mark.parametrize(
    "make",
    [
        reads_its_own_dead_letters,
        circle_of_dead_letters,
        strict_with_a_warning,
        state_that_nobody_gives,
        state_of_another_type,
        lifespan_that_fails,
    ],
)
async def test_the_same_refusal(make: Callable[[], App]) -> None:
    app = make()
    with pytest.raises(Exception) as real:  # noqa: PT011 - whatever it is, it has to be the same
        async with app.running():
            pass

    with pytest.raises(type(real.value)) as tested:
        async with TestApp(app):
            pass

    assert type(tested.value) is type(real.value)
    assert str(tested.value) == str(real.value)
    assert tested.value.args == real.value.args


async def test_the_same_app_runs_once_its_mistake_is_mended() -> None:
    async with TestApp(service(), state=Processor()) as tb:
        await tb.publish("refunds", Refund(1))

        tb.assert_called(process)
