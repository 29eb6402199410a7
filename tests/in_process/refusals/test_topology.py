"""Addresses that feed themselves, and those that others catch (rules 4.2, 4.4, 4.6)."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import pytest

from surestream import App, Delivery, Subscriber
from surestream.testing import TestApp
from tests.in_process.core.sources import (
    CHANNEL,
    CLAIMING,
    CORE,
    PARKING,
    STREAM,
    BenchSource,
)
from tests.in_process.core.transports import BenchBroker
from tests.in_process.refusals.telling import line_of, refused_start, text

pytestmark = pytest.mark.rule("4.6")


async def handle(order: int) -> None:
    pass


async def review(order: int) -> None:
    pass


def app_of(*mounts: tuple[BenchSource, dict[str, Any]], strict: bool = False) -> App:
    """An app that includes ``review`` on each source but the first, which is for ``handle``."""
    app = App("shop", strict=strict)
    broker = app.add(BenchBroker())
    (source, options), *others = mounts
    broker.include(Subscriber(source, handle), **options)
    for source, options in others:
        broker.include(Subscriber(source, review), **options)
    return app


FIRST = f"handle at {line_of(app_of, 'handle)')}"
OTHER = f"review at {line_of(app_of, 'review)')}"


async def warnings(app: App, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is warned of at start; a strict app refuses the same."""
    caplog.clear()
    async with app.running():
        pass
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    app.strict = True
    if told:
        assert await refused_start(app) == (
            f"refused: {told[0]}\n  why:   App(strict=True) refuses what it would otherwise warn of"
        )
    return told


async def same_in_a_test(app: App, told: str) -> str:
    """TH-08: the test room refuses with the same words."""
    with pytest.raises(ValueError, match="refused") as error:
        async with TestApp(app):
            pass
    assert str(error.value) == told
    return told


ORDERS = BenchSource("orders")


@pytest.mark.case("HL-04", "TH-08")
@pytest.mark.parametrize(
    "source", [ORDERS, BenchSource("ord*", wild=True), BenchSource("orders", group="other")]
)
async def test_a_dead_letter_that_its_own_subscription_reads(source: BenchSource) -> None:
    app = app_of((source, {"dead_letter": "orders", "retry_to": "orders"}))

    assert await same_in_a_test(app, await refused_start(app)) == text(
        "dead_letter='orders'",
        where=FIRST,
        why=f"the subscription itself reads it ({source.label}), so dead letters would go round "
        "for ever (rule 4.6)",
        write=f'dead_letter="{source.name}.dlq", or any address it does not read',
    )


@pytest.mark.case("TH-08")
async def test_dead_letters_that_go_in_a_circle() -> None:
    app = app_of(
        (ORDERS, {"dead_letter": "a"}),
        (BenchSource("a"), {"dead_letter": "b"}),
        (BenchSource("b"), {"dead_letter": "orders"}),
    )

    assert await same_in_a_test(app, await refused_start(app)) == text(
        "dead_letter='orders'",
        where=OTHER,
        why="dead letters go in a circle: orders/g → a/g → b/g → orders/g (rule 4.6)",
        write="a last address that no subscription with a dead_letter reads",
    )


async def test_a_circle_through_a_wildcard() -> None:
    app = app_of(
        (ORDERS, {"dead_letter": "dead/orders"}),
        (BenchSource("dead/*", wild=True), {"dead_letter": "orders", "retry_to": "dead/again"}),
    )

    assert "dead letters go in a circle: orders/g → dead/*/g → orders/g" in (
        await refused_start(app)
    )


async def test_a_circle_of_others_is_found_too() -> None:
    app = app_of(
        (ORDERS, {}),
        (BenchSource("a"), {"dead_letter": "b"}),
        (BenchSource("b"), {"dead_letter": "a"}),
    )

    assert "a/g → b/g → a/g" in await refused_start(app)


@pytest.mark.rule("2.6")
async def test_a_quarantine_that_its_own_subscription_reads() -> None:
    app = app_of((ORDERS, {"quarantine": "orders"}))

    assert await refused_start(app) == text(
        "quarantine='orders'",
        where=FIRST,
        why="the subscription itself reads it (orders/g), so what cannot be decoded would go round "
        "for ever (rule 2.6)",
        write='quarantine="orders.undecodable"',
    )


@pytest.mark.case("CV-03", "TH-08")
@pytest.mark.rule("4.2")
@pytest.mark.parametrize("can", [STREAM, CORE, CHANNEL])
async def test_a_source_of_many_addresses_without_retry_to(can: Any) -> None:
    source = BenchSource("devices/*", can, wild=True)
    app = app_of((source, {}))

    assert await same_in_a_test(app, await refused_start(app)) == text(
        f"{source!r} without retry_to",
        where=FIRST,
        why="it reads many addresses and names none that a copy could go to (rule 4.2)",
        write='include(…, retry_to="an.address") or a function of the delivery',
    )


def to_itself(delivery: Delivery) -> str:
    return delivery.address


@pytest.mark.case("CV-03")
@pytest.mark.rule("4.2")
async def test_with_retry_to_it_starts(caplog: pytest.LogCaptureFixture) -> None:
    source = BenchSource("devices/*", wild=True)

    assert await warnings(app_of((source, {"retry_to": to_itself})), caplog) == []
    assert await warnings(app_of((source, {"retry_to": "devices/again"})), caplog) == []


@pytest.mark.rule("4.2")
async def test_retry_to_where_no_copies_are_made() -> None:
    source = BenchSource("orders", CLAIMING)

    assert await refused_start(app_of((source, {"retry_to": "orders"}))) == text(
        f"retry_to='orders' on {source!r}",
        where=FIRST,
        why="this source makes no copies: the broker hands the same message out again (rule 4.2)",
        write="include(…) without retry_to",
    )


@pytest.mark.rule("6.5")
async def test_retry_to_beside_a_delay_set() -> None:
    source = BenchSource("orders", PARKING)

    assert await refused_start(app_of((source, {"retry_to": "orders"}))) == text(
        f"retry_to='orders' on {source!r}",
        where=FIRST,
        why="a parked delay comes back to the source itself, so its retries would go two ways "
        "(rule 6.5)",
        write="include(…) without retry_to, or the source without its delay set",
    )


@pytest.mark.rule("4.4")
@pytest.mark.parametrize("setting", ["dead_letter", "quarantine", "retry_to"])
async def test_one_name_as_two_structures(setting: str) -> None:
    app = app_of((ORDERS, {setting: "aside"}), (BenchSource("aside", kind="list"), {}))

    assert await refused_start(app) == text(
        "'aside' is used as a stream and as a list",
        where=OTHER,
        why=f"one name is one structure (rule 4.4): {FIRST} declares it as {setting} as a stream, "
        "here it is a list",
        write="another name for one of the two",
    )


# -- warnings -----------------------------------------------------------------------------------


async def test_a_wildcard_that_catches_dead_letters(caplog: pytest.LogCaptureFixture) -> None:
    app = app_of(
        (BenchSource("updates/install"), {"dead_letter": "updates/dead"}),
        (BenchSource("updates/*", wild=True), {"retry_to": to_itself}),
    )

    assert await warnings(app, caplog) == [
        f"{FIRST}: dead letters to 'updates/dead' are caught by the wildcard of updates/*/g "
        f"({OTHER})"
    ]


async def test_copies_that_leave_their_subscription(caplog: pytest.LogCaptureFixture) -> None:
    app = app_of((ORDERS, {"retry_to": "again"}), (BenchSource("again"), {}))

    assert await warnings(app, caplog) == [
        f"{FIRST}: retry_to='again' is not read by orders/g itself: retries leave this "
        "subscription",
        f"{FIRST}: copies to 'again' are also read by {OTHER}",
    ]


@pytest.mark.parametrize("can", [CORE, CHANNEL])
@pytest.mark.parametrize("options", [{"max_attempts": 3}, {"max_attempts": 3, "dead_letter": "d"}])
async def test_copies_that_every_replica_gets(
    can: Any, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    alone = dataclasses.replace(can, competes=False)

    assert await warnings(app_of((BenchSource("orders", alone), options)), caplog) == [
        f"{FIRST}: every replica of the service gets what orders/g reads, its copies too: with "
        "several replicas retries multiply"
    ]


@pytest.mark.parametrize("options", [{"max_attempts": 1}, {"dead_letter": "dead"}])
async def test_no_copies_are_made_none_multiply(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    alone = dataclasses.replace(CORE, competes=False)

    assert await warnings(app_of((BenchSource("orders", alone), options)), caplog) == []


async def test_dead_letters_that_nothing_keeps(caplog: pytest.LogCaptureFixture) -> None:
    source = BenchSource("orders", CORE, keeps=False)
    options: dict[str, Any] = {"dead_letter": "dead"}

    assert await warnings(app_of((source, options)), caplog) == [
        f"{FIRST}: nobody reads dead_letter='dead', and nothing keeps it: it is gone"
    ]
    assert await warnings(app_of((source, options), (BenchSource("dead"), {})), caplog) == []


@pytest.mark.rule("5.7")
async def test_retries_that_lose_the_message(caplog: pytest.LogCaptureFixture) -> None:
    source = BenchSource("orders", CHANNEL)

    assert await warnings(app_of((source, {})), caplog) == [
        f"{FIRST}: orders/g cannot give a message again: without max_attempts a retry() loses it "
        "(rule 5.7)"
    ]
    assert await warnings(app_of((source, {"max_attempts": 3})), caplog) == []


@pytest.mark.rule("5.7")
async def test_delays_that_a_kill_loses(caplog: pytest.LogCaptureFixture) -> None:
    source = BenchSource("orders", dataclasses.replace(CORE, survives_kill=True))

    assert await warnings(app_of((source, {})), caplog) == [
        f"{FIRST}: a delay of orders/g waits in memory only; a kill loses it"
    ]


# -- fine ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([(BenchSource("dead"), {})], id="a reviewer that names it exactly"),
        pytest.param([(ORDERS, {"dead_letter": "dead"})], id="a rival"),
        pytest.param([(BenchSource("orders", group="audit"), {})], id="another group"),
        pytest.param([(BenchSource("dead"), {"dead_letter": "lost"})], id="a chain that ends"),
        pytest.param([(BenchSource("more"), {"dead_letter": "dead"})], id="a common grave"),
        pytest.param(
            [(BenchSource("dea*", kind="topic", wild=True), {"retry_to": to_itself})],
            id="a wildcard of another family",
        ),
    ],
)
async def test_what_is_fine_is_silent(others: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = app_of((ORDERS, {"max_attempts": 3, "dead_letter": "dead"}), *others)

    assert await warnings(app, caplog) == []
