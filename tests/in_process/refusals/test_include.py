"""Registrations that cannot work, refused with their file and line (rule 7.1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from surestream import Delivery, JsonCodec, Redelivery, Router, Subscriber, subscriber
from surestream.memory import MemoryBroker, MemoryTopic
from tests.in_process.core.service import Service
from tests.in_process.core.sources import BenchSource
from tests.in_process.core.transports import BenchBroker
from tests.in_process.refusals.telling import line_of, refused, text

pytestmark = pytest.mark.rule("7.1")


async def handle(order: int) -> None:
    pass


async def two_arguments(delivery: Delivery, more: int) -> str:
    return ""


ORDERS = BenchSource("orders")
HANDLE = Subscriber(ORDERS, handle)
HERE = "handle at HERE"


def test_a_handler_on_the_wrong_broker() -> None:
    memory = MemoryBroker()

    assert refused(lambda: memory.include(HANDLE), type_error=True) == text(
        f"{ORDERS!r} on MemoryBroker",
        where=HERE,
        why="this broker reads MemoryTopic, not BenchSource",
        write="include it on the broker it belongs to",
    )


def test_a_function_without_a_source(service: Service) -> None:
    include: Any = service.broker.include

    assert refused(lambda: include(handle), type_error=True) == text(
        "include(handle)",
        where="handle at HERE",
        why="it is no subscriber: nothing says what it reads",
        write="@subscriber(…) above handle, or include(Subscriber(source, handle))",
    )


def test_a_router_included_as_a_handler(service: Service) -> None:
    include: Any = service.broker.include

    assert refused(lambda: include(Router()), type_error=True) == text(
        "include(Router())",
        where="Router() at HERE",
        why="it is a group of handlers",
        write="include_router(…)",
    )


def test_a_prefix_for_a_source_that_takes_none() -> None:
    router: Router[BenchSource] = Router(prefix="eu.")

    assert refused(lambda: router.include(HANDLE), type_error=True) == text(
        "BenchSource in a Router with a prefix",
        where=HERE,
        why="this source does not say how its addresses take a prefix",
        write="Router() without prefix=",
    )


def test_a_setting_that_does_not_exist(service: Service) -> None:
    include: Any = service.broker.include

    assert refused(lambda: include(HANDLE, max_attempt=5), type_error=True) == text(
        "include(…, max_attempt=…)",
        where=HERE,
        why="there is no such setting",
        write="max_attempts=…",
    )


@pytest.mark.parametrize("policy", [{"max_attempts": 5}, 5, "five"])
def test_a_policy_that_is_none(service: Service, policy: Any) -> None:
    assert refused(lambda: service.broker.include(HANDLE, policy), type_error=True) == text(
        f"policy {policy!r}",
        where=HERE,
        why="a policy is a Redelivery; everything else is told by keyword",
        write="Redelivery(max_attempts=5, …)",
    )


@pytest.mark.parametrize(
    ("setting", "value", "other"),
    [
        ("max_attempts", 5, 5),
        ("dead_letter", "a", "b"),
        ("quarantine", None, "b"),
        ("hand_over", True, False),
    ],
)
def test_one_setting_in_two_places(service: Service, setting: str, value: Any, other: Any) -> None:
    policy = Redelivery(**{setting: value})

    told = refused(lambda: service.broker.include(HANDLE, policy, **{setting: other}))  # type: ignore[misc]

    assert told == text(
        f"{setting}={other!r} beside Redelivery({setting}={value!r})",
        where=HERE,
        why="one setting in two places; nobody could tell which one holds",
        write=f"{setting}= in one of them",
    )


@pytest.mark.parametrize("workers", [True, 1.0, "2", None])
def test_workers_of_another_type(service: Service, workers: Any) -> None:
    told = refused(lambda: service.broker.include(HANDLE, workers=workers), type_error=True)

    assert told == text(
        f"workers={workers!r}", where=HERE, why="it is a whole number", write="workers=8"
    )


@pytest.mark.parametrize("workers", [0, -1])
def test_nobody_who_works(service: Service, workers: int) -> None:
    told = refused(lambda: service.broker.include(HANDLE, workers=workers))

    assert told == text(
        f"workers={workers}", where=HERE, why="at least one is needed", write="workers=8"
    )


@pytest.mark.parametrize(
    ("timeout", "why", "type_error"),
    [
        (0, "timeout is a time span above zero", False),
        (timedelta(-1), f"timeout is {timedelta(-1)!r}: it must not be negative", False),
        ("5", "timeout is '5' (str): write seconds as a number, or a timedelta", True),
    ],
)
def test_a_timeout_that_is_none(service: Service, timeout: Any, why: str, type_error: bool) -> None:
    told = refused(lambda: service.broker.include(HANDLE, timeout=timeout), type_error=type_error)

    write = "timeout=30" if timeout == 0 else "timeout=30 or timedelta(seconds=30)"
    assert told == text(f"timeout={timeout!r}", where=HERE, why=why, write=write)


@pytest.mark.parametrize("by_key", ["", 5, b"customer", ["customer"]])
def test_a_key_that_is_none(service: Service, by_key: Any) -> None:
    told = refused(lambda: service.broker.include(HANDLE, by_key=by_key), type_error=True)

    assert told == text(
        f"by_key={by_key!r}",
        where=HERE,
        why="it is a header's name, or a function of the delivery",
        write='by_key="customer" or by_key=lambda delivery: …',
    )


def test_a_key_function_that_cannot_be_asked(service: Service) -> None:
    by_key: Any = two_arguments

    told = refused(lambda: service.broker.include(HANDLE, by_key=by_key), type_error=True)

    assert "by_key=two_arguments" in told
    assert "  where: handle at HERE\n" in told


@pytest.mark.parametrize("codec", [JsonCodec, "json", object()])
def test_a_codec_that_is_none(service: Service, codec: Any) -> None:
    told = refused(lambda: service.broker.include(HANDLE, codec=codec), type_error=True)
    at_broker = refused(lambda: MemoryBroker(codec=codec), type_error=True)

    assert told.splitlines()[1] == "  where: handle at HERE"
    assert at_broker == told.replace("handle at HERE", "MemoryBroker(…) at HERE")


def test_a_refused_registration_leaves_nothing_behind(service: Service) -> None:
    refused(lambda: service.broker.include(HANDLE, max_attempts=0))
    service.broker.include(HANDLE, max_attempts=1)

    assert len(service.broker.mounts) == 1


# -- subscribers --------------------------------------------------------------------------------


def test_a_name_instead_of_a_source() -> None:
    name: Any = "orders"

    assert refused(lambda: subscriber(name), type_error=True) == text(
        "source 'orders'",
        where="@subscriber at HERE",
        why="a name alone does not say which broker and structure it is",
        write='a source such as RedisStream("refunds", group="refunds")',
    )


def test_the_class_of_a_source() -> None:
    kind: Any = MemoryTopic

    assert refused(lambda: Subscriber(kind, handle), type_error=True) == text(
        f"source {MemoryTopic!r}",
        where=f"handle at {line_of(handle, 'def handle')}",
        why="this is the class of a source: call it",
        write='a source such as RedisStream("refunds", group="refunds")',
    )


def test_a_decorator_without_its_source() -> None:
    decorate: Any = subscriber

    assert refused(lambda: decorate(handle), type_error=True) == text(
        "@subscriber on handle",
        where=f"handle at {line_of(handle, 'def handle')}",
        why="it does not say what the handler reads",
        write='@subscriber(RedisStream("refunds", group="refunds"))',
    )


def test_a_second_decorator() -> None:
    decorate: Any = subscriber(MemoryTopic("refunds"))

    assert refused(lambda: decorate(HANDLE), type_error=True) == text(
        "a second @subscriber on handle",
        where=f"handle at {line_of(handle, 'def handle')}",
        why=f"it reads {ORDERS!r} already, and would read only one of them",
        write="Subscriber(MemoryTopic(topic='refunds', group='default'), handle), "
        "included beside it",
    )


def test_a_handler_that_cannot_be_called() -> None:
    number: Any = 5

    assert refused(lambda: Subscriber(ORDERS, number), type_error=True) == text(
        "handler 5",
        where="Subscriber(…) at HERE",
        why="a handler is called, and int cannot be",
        write="async def, def, or an object with async def __call__",
    )


def test_the_class_of_a_handler() -> None:
    assert refused(lambda: Subscriber(ORDERS, BenchBroker), type_error=True) == text(
        f"handler {BenchBroker!r}",
        where="Subscriber(…) at HERE",
        why="it is a class: a message would only build an object of it",
        write="Subscriber(source, BenchBroker())",
    )


# -- handlers (their places; the words are tested beside the code that reads signatures) --------


async def two_payloads(order: int, refund: dict[str, int]) -> None:
    pass


def yields(order: int) -> Any:
    yield order


async def gives_text(order: int) -> str:
    return ""


@pytest.mark.parametrize(
    ("handler", "what"),
    [
        (two_payloads, "parameter refund: dict[str, int] of two_payloads"),
        (yields, "handler yields"),
        (gives_text, "handler gives_text -> str"),
        (lambda *args: None, "parameter *args of <lambda>"),
    ],
)
def test_a_handler_is_refused_where_it_is_included(
    service: Service, handler: Any, what: str
) -> None:
    told = refused(
        lambda: service.broker.include(Subscriber(ORDERS, handler)), type_error=True
    ).splitlines()

    name = handler.__name__
    assert told[0] == f"refused: {what}"
    assert told[1] == f"  where: {name} at HERE"
    assert told[2].startswith("  why:   ")
    assert told[3].startswith("  write: ")
