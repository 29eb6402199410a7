"""Redelivery settings that cannot work, refused where they are written (rules 3.3, 7.1)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from surestream import Redelivery, Subscriber, ack, drop, retry_after
from tests.in_process.core.service import Service
from tests.in_process.core.sources import BenchSource
from tests.in_process.refusals.telling import refused, text

pytestmark = pytest.mark.rule("7.1")


async def handle(order: int) -> None:
    pass


class BusyError(Exception):
    pass


HANDLE = Subscriber(BenchSource("orders"), handle)
HERE = "handle at HERE"


def both(service: Service, *, type_error: bool, **setting: Any) -> str:
    """The refusal of a setting, which is the same at ``include`` and in a ``Redelivery``."""
    at_include = refused(lambda: service.broker.include(HANDLE, **setting), type_error=type_error)
    in_policy = refused(lambda: Redelivery(**setting), type_error=type_error)
    assert service.broker.mounts == ()
    assert in_policy == at_include.replace(HERE, "Redelivery(…) at HERE")
    return at_include


@pytest.mark.case("CV-01")
@pytest.mark.rule("3.3")
@pytest.mark.parametrize("value", [True, 1.0, "5", None, float("nan"), Decimal(5)])
def test_a_cap_of_another_type(service: Service, value: Any) -> None:
    assert both(service, type_error=True, max_attempts=value) == text(
        f"max_attempts={value!r}",
        where=HERE,
        why=f"a cap is a whole number of deliveries, not {type(value).__name__} (rule 3.3)",
        write="max_attempts=5, or leave it out for no cap",
    )


@pytest.mark.case("CV-01")
@pytest.mark.rule("3.3")
@pytest.mark.parametrize("value", [0, -1, 2**31 + 1, 2**70])
def test_a_cap_out_of_range(service: Service, value: int) -> None:
    assert both(service, type_error=False, max_attempts=value) == text(
        f"max_attempts={value}",
        where=HERE,
        why="the cap counts all deliveries, the first included: 1 to 2**31 (rule 3.3)",
        write="max_attempts=5, or leave it out for no cap",
    )


@pytest.mark.rule("3.3")
@pytest.mark.parametrize("value", [1, 2, 2**31])
def test_a_cap_in_range_is_taken(service: Service, value: int) -> None:
    service.broker.include(HANDLE, max_attempts=value)

    assert service.broker.mounts[0].terms.max_attempts == value


WHITE = "an address has no white space or control characters"
WRITE = {
    "dead_letter": 'dead_letter="refunds.dlq"',
    "quarantine": 'quarantine="refunds.undecodable"',
    "retry_to": 'retry_to="refunds"',
}
WILD = "nothing can be published to a wildcard (rule 4.6)"


@pytest.mark.case("CV-01")
@pytest.mark.rule("4.6")
@pytest.mark.parametrize("setting", ["dead_letter", "quarantine", "retry_to"])
@pytest.mark.parametrize(
    ("value", "shown", "why"),
    [
        ("", "''", "an address needs a name"),
        (" ", "' '", "an address needs a name"),
        ("a b", "'a b'", WHITE),
        ("a\nb", "'a\\nb'", WHITE),
        ("a\0", "'a\\x00'", WHITE),
        ("a\x7f", "'a\\x7f'", WHITE),
        ("a\u00a0b", "'a\\xa0b'", WHITE),
        ("\ud800", "'\\ud800'", "an address is text that can be written as UTF-8"),
        ("dead.*", "'dead.*'", WILD),
        ("dead.>", "'dead.>'", WILD),
        ("updates/+/dead", "'updates/+/dead'", WILD),
        ("updates/#", "'updates/#'", WILD),
        ("#", "'#'", WILD),
        (
            "x" * 70_000,
            "'" + "x" * 59 + "… (70,002 characters)",
            "an address has at most 65,535 bytes",
        ),
        (
            "ä" * 33_000,
            "'" + "ä" * 59 + "… (33,002 characters)",
            "an address has at most 65,535 bytes",
        ),
    ],
)
def test_an_address_nothing_can_be_published_to(
    service: Service, setting: str, value: str, shown: str, why: str
) -> None:
    assert both(service, type_error=False, **{setting: value}) == text(
        f"{setting}={shown}", where=HERE, why=why, write=WRITE[setting]
    )


@pytest.mark.case("CV-01")
@pytest.mark.parametrize("setting", ["dead_letter", "retry_to"])
def test_no_address_is_not_told_by_none(service: Service, setting: str) -> None:
    assert both(service, type_error=True, **{setting: None}) == text(
        f"{setting}=None",
        where=HERE,
        why="None is no address; leave the setting out where you want none",
        write=WRITE[setting],
    )


@pytest.mark.case("CV-01")
@pytest.mark.parametrize("setting", ["dead_letter", "quarantine", "retry_to"])
@pytest.mark.parametrize("value", [b"dead", 7, ["dead"]])
def test_an_address_of_another_type(service: Service, setting: str, value: Any) -> None:
    assert both(service, type_error=True, **{setting: value}) == text(
        f"{setting}={value!r}",
        where=HERE,
        why="an address is text",
        write=WRITE[setting],
    )


async def later(delivery: object) -> str:
    return "orders"


def without() -> str:
    return "orders"


@pytest.mark.rule("4.2")
@pytest.mark.parametrize(
    ("value", "name", "why"),
    [
        (later, "later", "it is an async function: nothing would await it"),
        (without, "without", "it is called with (delivery), and with nothing else"),
    ],
)
@pytest.mark.parametrize("setting", ["retry_to"])
def test_a_function_that_cannot_say_where_copies_go(
    service: Service, setting: str, value: Any, name: str, why: str
) -> None:
    assert both(service, type_error=True, **{setting: value}) == text(
        f"{setting}={name}", where=HERE, why=why, write=f"{setting}=lambda delivery: …"
    )


# -- on_error, on_decode_error ------------------------------------------------------------------


@pytest.mark.rule("2.3")
@pytest.mark.parametrize("value", [None, 5, [BusyError], BusyError])
def test_rules_for_exceptions_that_are_none(service: Service, value: Any) -> None:
    assert both(service, type_error=True, on_error=value) == text(
        f"on_error={value!r}",
        where=HERE,
        why="it maps exception classes to outcomes, or is a callable (rule 2.3)",
        write="on_error={Busy: retry_after(30), Declined: drop()}",
    )


async def rules(error: BaseException, attempt: int) -> Any:
    return ack()


@pytest.mark.rule("2.3")
@pytest.mark.parametrize(
    ("value", "name", "why"),
    [
        (rules, "rules", "it is an async function: nothing would await it"),
        (later, "later", "it is called with (error, attempt), and with nothing else"),
    ],
)
def test_a_function_for_exceptions_that_cannot_be_asked(
    service: Service, value: Any, name: str, why: str
) -> None:
    told = both(service, type_error=True, on_error=value)

    if value is later:
        why = "it is an async function: nothing would await it"
    assert told == text(
        f"on_error={name}", where=HERE, why=why, write="on_error=lambda error, attempt: …"
    )


@pytest.mark.rule("2.3")
@pytest.mark.parametrize("key", ["BusyError", BusyError(), int, None])
def test_rules_for_what_is_no_exception_class(service: Service, key: Any) -> None:
    assert both(service, type_error=True, on_error={key: drop()}) == text(
        f"on_error key {key!r}",
        where=HERE,
        why="rules are told by exception class (rule 2.3)",
        write="on_error={Busy: retry_after(30)}",
    )


@pytest.mark.rule("2.3")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (retry_after, "on_error[BusyError] is the function itself: call it"),
        ("drop", "no outcome"),
        (None, "no outcome"),
    ],
)
def test_rules_that_are_no_outcome(service: Service, value: Any, why: str) -> None:
    assert both(service, type_error=True, on_error={BusyError: value}) == text(
        f"on_error[BusyError]={value!r}",
        where=HERE,
        why=why,
        write="retry_after(30), retry(), drop() or ack()",
    )


@pytest.mark.rule("2.6")
@pytest.mark.parametrize(
    ("value", "why"),
    [(drop, "on_decode_error is the function itself: call it"), (None, "no outcome")],
)
def test_an_undecodable_message_without_outcome(service: Service, value: Any, why: str) -> None:
    assert both(service, type_error=True, on_decode_error=value) == text(
        f"on_decode_error={value!r}",
        where=HERE,
        why=why,
        write="retry_after(30), retry(), drop() or ack()",
    )


@pytest.mark.rule("2.6")
def test_two_destinies_of_an_undecodable_message(service: Service) -> None:
    wanted = text(
        "quarantine= together with on_decode_error=",
        where=HERE,
        why="an undecodable message has one destiny (rule 2.6)",
        write="one of the two",
    )
    policy = Redelivery(quarantine="aside")

    assert both(service, type_error=False, quarantine="a", on_decode_error=drop()) == wanted
    assert wanted == refused(lambda: service.broker.include(HANDLE, policy, on_decode_error=drop()))


# -- the others ---------------------------------------------------------------------------------


@pytest.mark.rule("4.3")
@pytest.mark.parametrize("value", ["long", None, [], 1])
def test_a_level_of_details_that_does_not_exist(service: Service, value: Any) -> None:
    assert both(service, type_error=False, dead_letter_details=value) == text(
        f"dead_letter_details={value!r}",
        where=HERE,
        why="there are three levels of detail (rule 4.3)",
        write='dead_letter_details="short", "full" or "none"',
    )


@pytest.mark.parametrize("value", [0, 1, None, "no"])
def test_a_hand_over_that_is_neither_yes_nor_no(service: Service, value: Any) -> None:
    assert both(service, type_error=True, hand_over=value) == text(
        f"hand_over={value!r}", where=HERE, why="it is a yes or no", write="hand_over=False"
    )


@pytest.mark.parametrize("value", [True, 10.0, "10", None])
def test_a_bound_of_another_type(service: Service, value: Any) -> None:
    assert both(service, type_error=True, max_unsettled=value) == text(
        f"max_unsettled={value!r}",
        where=HERE,
        why="it is a whole number",
        write="max_unsettled=1000",
    )


def test_a_bound_that_holds_nothing(service: Service) -> None:
    assert both(service, type_error=False, max_unsettled=0) == text(
        "max_unsettled=0", where=HERE, why="it is 1 or more", write="max_unsettled=1000"
    )


TIME = "=30 or timedelta(seconds=30)"


@pytest.mark.case("CK-07", "CK-08")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "hold_limit is nan: it must be a finite number of seconds"),
        (float("inf"), "hold_limit is inf: it must be a finite number of seconds"),
        (-1, "hold_limit is -1: it must not be negative"),
        (10**400, "hold_limit is too large a number of seconds"),
    ],
)
def test_a_time_limit_that_is_none(service: Service, value: Any, why: str) -> None:
    assert both(service, type_error=False, hold_limit=value) == text(
        f"hold_limit={value!r}", where=HERE, why=why, write=f"hold_limit{TIME}"
    )


@pytest.mark.parametrize("value", [0, timedelta(0)])
def test_a_time_limit_of_nothing(service: Service, value: Any) -> None:
    assert both(service, type_error=False, hold_limit=value) == text(
        f"hold_limit={value!r}",
        where=HERE,
        why="hold_limit is a time span above zero",
        write="hold_limit=30",
    )


@pytest.mark.case("CK-07")
@pytest.mark.parametrize("value", ["30", None, True, Decimal("1.5"), 1j])
def test_a_time_limit_of_another_type(service: Service, value: Any) -> None:
    assert both(service, type_error=True, hold_limit=value) == text(
        f"hold_limit={value!r}",
        where=HERE,
        why=f"hold_limit is {value!r} ({type(value).__name__}): write seconds as a number, "
        "or a timedelta",
        write=f"hold_limit{TIME}",
    )
