"""Apps, lifespans, destinations and publishes that cannot work (rule 7.1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, TypedDict

import msgspec
import pytest

from surestream import App, DeclarationError, NotRunning, State, Subscriber, outgoing
from surestream.testing import TestApp
from tests.in_process.core.service import Service
from tests.in_process.core.sources import BenchSource
from tests.in_process.core.transports import BenchBroker
from tests.in_process.refusals.telling import line_of, refused, refused_start, text

pytestmark = pytest.mark.rule("7.1")

APP = "App(…) at HERE"


@pytest.mark.parametrize("title", ["", "  ", None, 5, b"shop"])
def test_an_app_without_a_name(title: Any) -> None:
    assert refused(lambda: App(title), type_error=True) == text(
        f"App title={title!r}",
        where=APP,
        why="title is text",
        write='App("refunds", version="0.1.0")',
    )


def test_a_version_that_is_a_number() -> None:
    version: Any = 1.0

    assert refused(lambda: App("shop", version=version), type_error=True) == text(
        "App version=1.0",
        where=APP,
        why="version is text",
        write='App("refunds", version="0.1.0")',
    )


@pytest.mark.parametrize("strict", ["no", 1, None])
def test_a_strictness_that_is_neither_yes_nor_no(strict: Any) -> None:
    assert refused(lambda: App("shop", strict=strict), type_error=True) == text(
        f"strict={strict!r}", where=APP, why="it is a yes or no", write="strict=True"
    )


@pytest.mark.parametrize("setting", ["connect_timeout", "shutdown_timeout"])
def test_a_time_limit_of_the_app(setting: str) -> None:
    assert refused(lambda: App("shop", **{setting: 0})) == text(  # type: ignore[arg-type]
        f"{setting}=0", where=APP, why=f"{setting} is a time span above zero", write=f"{setting}=30"
    )


async def undecorated(app: App) -> AsyncIterator[str]:
    yield "state"


async def opens(app: App) -> str:
    return "state"


@asynccontextmanager
async def takes_nothing() -> AsyncIterator[str]:
    yield "state"


MISSING = "calling it gives no async context manager: its decorator is missing"


@pytest.mark.parametrize(
    ("lifespan", "name", "why"),
    [
        (undecorated, "undecorated", MISSING),
        (opens, "opens", MISSING),
        (takes_nothing, "takes_nothing", "it is called with the app, and with nothing else"),
        (5, "5", "it is no function that opens an async context manager"),
    ],
)
def test_a_lifespan_that_opens_nothing(lifespan: Any, name: str, why: str) -> None:
    assert refused(lambda: App("shop", lifespan=lifespan), type_error=True) == text(
        f"lifespan={name}",
        where=APP,
        why=why,
        write="@asynccontextmanager above async def clients(app): … yield Clients(…)",
    )


@pytest.mark.parametrize(
    ("broker", "why"),
    [
        (BenchBroker, "it is the class of a broker: call it"),
        ("redis://localhost", "no broker"),
        (None, "no broker"),
    ],
)
def test_something_added_that_is_no_broker(broker: Any, why: str) -> None:
    app = App("shop")

    assert refused(lambda: app.add(broker), type_error=True) == text(
        f"add({broker!r})",
        where="add(…) at HERE",
        why=why,
        write='app.add(RedisBroker("redis://localhost:6379"))',
    )


def test_a_broker_added_twice(service: Service) -> None:
    assert refused(lambda: service.app.add(service.broker)) == text(
        "add(BenchBroker()) twice",
        where="add(…) at HERE",
        why="it is part of this app already",
        write="one add() for each broker",
    )


# -- state --------------------------------------------------------------------------------------


class Till:
    def open(self) -> None: ...


async def needs_till(order: int, till: State[Till]) -> None:
    pass


def app_with(state: object) -> App:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[object]:
        yield state

    app = App("shop", lifespan=None if state is ... else lifespan)
    broker = app.add(BenchBroker())
    broker.include(Subscriber(BenchSource("orders"), needs_till))
    return app


@pytest.mark.parametrize(
    ("state", "why", "write"),
    [
        (
            ...,
            "the app has no lifespan, so there is no state to pass",
            'App("…", lifespan=clients), an async context manager that yields it',
        ),
        (
            None,
            "the lifespan yielded nothing",
            "yield a Till in the lifespan, or an object with the field till",
        ),
        (
            "text",
            "the lifespan yielded str, and none of it is a Till",
            "yield a Till in the lifespan, or an object with the field till",
        ),
        (
            {"first": Till(), "second": Till()},
            "the state has several: first, second",
            "first: State[Till], called like the field that is meant",
        ),
    ],
)
@pytest.mark.rule("7.2")
async def test_a_state_that_is_missing_names_the_registration(
    state: object, why: str, write: str
) -> None:
    app = app_with(state)
    here = line_of(app_with, "broker.include")

    assert await refused_start(app) == text(
        "parameter till: State[Till]", where=f"needs_till at {here}", why=why, write=write
    )


# -- destinations, publishing -------------------------------------------------------------------


class Payment(msgspec.Struct):
    id: int


class Typed(TypedDict):
    id: int


OUTGOING = '@outgoing("payments") above the class'


@pytest.mark.parametrize(
    ("declare", "what", "why", "type_error"),
    [
        (lambda: outgoing(Payment), "@outgoing on Payment", "the destination is missing", True),  # type: ignore[arg-type]
        (lambda: outgoing(5), "destination=5", "an address is text", True),  # type: ignore[arg-type]
        (
            lambda: outgoing("dead.*"),
            "destination='dead.*'",
            "nothing can be published to a wildcard (rule 4.6)",
            False,
        ),
        (
            lambda: outgoing("payments")(Typed),
            "@outgoing on Typed",
            "values of a TypedDict are plain dicts: they do not know their type",
            True,
        ),
        (
            lambda: outgoing("payments")("Payment"),  # type: ignore[type-var]
            "@outgoing on 'Payment'",
            "a destination belongs to a class",
            True,
        ),
        (
            lambda: outgoing("a")(outgoing("b")(type("Twice", (), {}))),
            "@outgoing('a') on Twice",
            "its destination is 'b' already",
            False,
        ),
    ],
)
def test_a_destination_that_cannot_be(
    declare: Callable[[], Any], what: str, why: str, type_error: bool
) -> None:
    write = OUTGOING
    if "Typed" in what:
        write = "publish(name, value), or a msgspec.Struct or dataclass"
    if "Twice" in what:
        write = "one destination, or publish(name, value) where it differs"
    assert refused(declare, type_error=type_error) == text(
        what, where="@outgoing at HERE", why=why, write=write
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            (Payment(1),),
            "refused: publish(Payment(…)) without an address\n"
            "  why:   the type declares no destination\n"
            '  write: publish("an.address", value), or @outgoing("an.address") on Payment',
        ),
        (
            (b"orders", 1),
            "refused: publish(b'orders', …)\n"
            "  why:   an address is text\n"
            '  write: publish("refunds", …)',
        ),
        (
            ("orders.*", 1),
            "refused: publish address='orders.*'\n"
            "  why:   nothing can be published to a wildcard (rule 4.6)\n"
            '  write: publish("refunds", …)',
        ),
    ],
)
async def test_a_publish_to_nowhere(service: Service, arguments: Any, told: str) -> None:
    async with service.app.running():
        with pytest.raises(DeclarationError) as error:
            await service.broker.publish(*arguments)

    assert str(error.value) == told


async def test_publishing_while_nothing_runs(service: Service) -> None:
    with pytest.raises(NotRunning) as error:
        await service.broker.publish("orders", 1)

    assert str(error.value) == (
        "BenchBroker() is not running: publish inside `async with app.running():` "
        "or `async with broker.connected():`"
    )


@pytest.mark.case("TH-07")
async def test_publishing_where_it_is_not_clear_through_which_run(service: Service) -> None:
    one, two = service.app.new_run(), service.app.new_run()
    for run in (one, two):
        await asyncio.get_running_loop().create_task(run.start(), context=Context())

    with pytest.raises(NotRunning) as error:
        await service.broker.publish("orders", 1)
    await one.stop()
    await service.broker.publish("orders", 1)
    await two.stop()

    assert str(error.value) == (
        "BenchBroker() runs 2 times in this process: publish through the run, "
        "`await run.publish(broker, …)`"
    )


@pytest.mark.case("TH-07", "TH-08")
def test_a_test_of_what_is_no_app() -> None:
    wrong: Any = BenchBroker()

    assert "TestApp(BenchBroker())" in refused(lambda: TestApp(wrong), type_error=True)
