"""Whole services on the memory broker, under a paused clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import pytest

from surestream import (
    RETRY_COUNT_HEADER,
    App,
    Attempt,
    DeclarationError,
    Headers,
    Key,
    NotRunning,
    Outcome,
    Run,
    Subscriber,
    ack,
    drop,
    retry,
    retry_after,
    subscriber,
)
from surestream.memory import MemoryBroker, MemoryServer, MemoryTopic, TopicName
from surestream.testing import PausedClock, paused_clock

EntryId: Key[str] = Key("EntryId", str)


@pytest.fixture
async def clock() -> Iterator[PausedClock]:
    with paused_clock() as clock:
        yield clock


class Service:
    """An app with one memory broker, and the log of what its handlers saw."""

    def __init__(self) -> None:
        self.app = App("orders")
        self.broker = self.app.add(MemoryBroker())
        self.seen: list[object] = []

    def server(self, run: Run) -> MemoryServer:
        server = run.context.servers[self.broker]
        assert isinstance(server, MemoryServer)
        return server


@pytest.fixture
def service() -> Service:
    return Service()


async def test_a_handler_gets_what_is_published(service: Service, clock: PausedClock) -> None:
    @subscriber(MemoryTopic("orders"))
    async def handle(order: dict[str, int], topic: Annotated[str, TopicName]) -> None:
        service.seen.append((order, topic))

    service.broker.include(handle)
    async with service.app.running() as run:
        await service.broker.publish("orders", {"id": 1})
        await clock.settle()

    group = service.server(run).topics["orders"]["default"]
    assert service.seen == [({"id": 1}, "orders")]
    assert (len(group.ready), len(group.held), len(group.delayed)) == (0, 0, 0)


@pytest.mark.case("TH-01")
@pytest.mark.rule("3.3", "4.5")
async def test_a_capped_delay_ends_in_one_dead_letter_and_silence(
    service: Service, clock: PausedClock
) -> None:
    @subscriber(MemoryTopic("orders"))
    async def handle(order: int, attempt: Attempt) -> Outcome:
        service.seen.append((clock.seconds, attempt.number))
        return retry_after(30)

    @subscriber(MemoryTopic("orders.dlq"))
    async def review(order: int, headers: Headers, attempt: Attempt) -> None:
        service.seen.append((clock.seconds, headers[RETRY_COUNT_HEADER], attempt.number))

    service.broker.include(handle, max_attempts=4, dead_letter="orders.dlq")
    service.broker.include(review)
    async with service.app.running():
        await service.broker.publish("orders", 7)
        for _ in range(10):
            await clock.advance(30)

    assert service.seen == [(0, 1), (30, 2), (60, 3), (90, 4), (90, "4", 1)]


@pytest.mark.rule("3.4")
async def test_a_dead_letter_that_nobody_reads_can_be_looked_at(
    service: Service, clock: PausedClock
) -> None:
    @subscriber(MemoryTopic("orders"))
    async def handle(order: bytes) -> Outcome:
        return retry()

    service.broker.include(handle, max_attempts=2, dead_letter="orders.dlq")
    async with service.app.running() as run:
        await service.broker.publish("orders", b"raw")
        await clock.settle()

    (letter,) = service.server(run).unheard
    assert (letter.address, letter.payload) == ("orders.dlq", b"raw")
    assert dict(letter.headers)[RETRY_COUNT_HEADER] == b"2"


@pytest.mark.rule("6.1")
async def test_an_uncapped_retry_slows_down_and_lets_others_pass(
    service: Service, clock: PausedClock
) -> None:
    @subscriber(MemoryTopic("orders"))
    async def handle(order: str) -> Outcome:
        service.seen.append((round(clock.seconds, 3), order))
        return retry() if order == "bad" else ack()

    service.broker.include(handle)
    async with service.app.running():
        await service.broker.publish("orders", "bad")
        await service.broker.publish("orders", "good")
        await clock.advance(3)

    assert [at for at, order in service.seen if order == "bad"] == [
        0,
        0,
        0,
        0,
        0.1,
        0.3,
        0.7,
        1.5,
        2.5,
    ]
    assert (0, "good") in service.seen


@pytest.mark.case("TH-03")
async def test_readers_of_one_group_share_and_other_groups_get_everything(
    service: Service, clock: PausedClock
) -> None:
    async def shared(order: int) -> None:
        service.seen.append(("shared", order))

    async def other(order: int) -> None:
        service.seen.append(("other", order))

    service.broker.include(Subscriber(MemoryTopic("orders"), shared))
    service.broker.include(Subscriber(MemoryTopic("orders"), shared))
    service.broker.include(Subscriber(MemoryTopic("orders", group="other"), other))
    async with service.app.running():
        for number in range(10):
            await service.broker.publish("orders", number)
        await clock.settle()

    assert sorted(service.seen) == sorted(
        (who, number) for who in ("shared", "other") for number in range(10)
    )


@pytest.mark.rule("4.5")
async def test_a_dropped_message_is_gone(service: Service, clock: PausedClock) -> None:
    @subscriber(MemoryTopic("orders"))
    async def handle(order: int) -> Outcome:
        return drop()

    service.broker.include(handle, max_attempts=1, dead_letter="orders.dlq")
    async with service.app.running() as run:
        await service.broker.publish("orders", 1)
        await clock.settle()

    server = service.server(run)
    assert not server.unheard
    assert not server.topics["orders"]["default"].held


@pytest.mark.rule("2.6")
async def test_an_undecodable_message_is_dropped_or_kept_where_it_is_told(
    service: Service, clock: PausedClock
) -> None:
    @subscriber(MemoryTopic("dropped"))
    async def dropping(order: int) -> None: ...

    @subscriber(MemoryTopic("kept"))
    async def keeping(order: int) -> None: ...

    service.broker.include(dropping)
    service.broker.include(keeping, quarantine="bad")
    async with service.app.running() as run:
        await service.broker.publish("dropped", "no number")
        await service.broker.publish("kept", "no number", headers={"Tenant": "acme"})
        await clock.settle()

    (kept,) = service.server(run).unheard
    assert (kept.address, kept.payload) == ("bad", b"no number")
    assert kept.headers == (("Tenant", b"acme"),)


@pytest.mark.case("TH-07")
@pytest.mark.rule("7.1")
async def test_runs_of_one_app_do_not_see_each_other(service: Service, clock: PausedClock) -> None:
    @subscriber(MemoryTopic("orders"))
    async def handle(order: int) -> None:
        service.seen.append(order)

    service.broker.include(handle)
    async with service.app.running() as first, service.app.running() as second:
        await first.publish(service.broker, "elsewhere", 1)
        await second.publish(service.broker, "orders", 2)
        await clock.settle()

    assert service.server(first) is not service.server(second)
    assert len(service.server(first).unheard) == 1
    assert not service.server(second).unheard
    assert service.seen == [2]


async def test_nothing_can_be_published_when_nothing_runs(service: Service) -> None:
    async with service.app.running():
        pass

    with pytest.raises(NotRunning):
        await service.broker.publish("orders", 1)


@pytest.mark.rule("4.6")
async def test_a_dead_letter_that_comes_back_to_its_own_topic_is_refused(
    service: Service,
) -> None:
    @subscriber(MemoryTopic("orders"))
    async def handle(order: int) -> None: ...

    service.broker.include(handle, max_attempts=2, dead_letter="orders")

    with pytest.raises(DeclarationError, match="the subscription itself reads it"):
        async with service.app.running():
            pass


@pytest.mark.rule("4.2")
async def test_retry_to_is_refused_where_no_copies_are_made(service: Service) -> None:
    @subscriber(MemoryTopic("orders"))
    async def handle(order: int) -> None: ...

    service.broker.include(handle, max_attempts=2, retry_to="orders.again")

    with pytest.raises(DeclarationError, match="this source makes no copies"):
        async with service.app.running():
            pass


@pytest.mark.rule("7.1")
def test_a_context_key_of_another_broker_is_refused(service: Service) -> None:
    @subscriber(MemoryTopic("orders"))
    async def handle(order: int, entry: Annotated[str, EntryId]) -> None: ...

    with pytest.raises(DeclarationError, match="EntryId"):
        service.broker.include(handle)
