"""What a mount site may say, and how every mistake in it is told (rule 7.1)."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from surestream import (
    DeclarationError,
    DeclarationTypeError,
    Delivery,
    Outcome,
    Redelivery,
    Subscriber,
    retry_after,
    subscriber,
)
from surestream.codec import MsgpackCodec
from surestream.declaration import UNSET
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.mounting import MountOptions, check_defaults, with_policy
from surestream.redis import RedisStream

pytestmark = pytest.mark.rule("7.1")


class Receipt(msgspec.Struct):
    order: int


@subscriber(MemoryTopic("orders"))
async def process(order: int) -> Receipt | None:
    return Receipt(order)


def refusal(**options: Any) -> DeclarationError:
    """How including the handler with ``options`` is refused."""
    with pytest.raises(DeclarationError) as error:
        MemoryBroker().include(process, **({"reply_to": "receipts"} | options))
    return error.value


# -- settings by name ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("max_atempts", "max_attempts"),
        ("max_retries", "max_attempts"),
        ("dead_leter", "dead_letter"),
        ("deadletter", "dead_letter"),
        ("retryto", "retry_to"),
        ("onerror", "on_error"),
        ("on_decode_errors", "on_decode_error"),
        ("quarantaine", "quarantine"),
        ("dead_letter_detail", "dead_letter_details"),
        ("handover", "hand_over"),
        ("holdlimit", "hold_limit"),
        ("max_unsetled", "max_unsettled"),
        ("worker", "workers"),
        ("bykey", "by_key"),
        ("time_out", "timeout"),
        ("replyto", "reply_to"),
        ("middlewares", "middleware"),
        ("codecs", "codec"),
    ],
)
def test_a_mistyped_setting_is_told_with_the_one_that_is_meant(written: str, meant: str) -> None:
    error = refusal(**{written: 1})

    assert isinstance(error, TypeError)
    assert error.what == f"include(…, {written}=…)"
    assert error.write == f"{meant}=…"


def test_a_setting_like_no_other_is_told_with_all_there_are() -> None:
    error = refusal(zebra=1)

    assert error.write is not None
    assert error.write.split(", ") == sorted(MountOptions.__annotations__)


def test_every_setting_of_a_policy_is_one_of_include() -> None:
    fields = set(inspect.signature(Redelivery).parameters)

    assert fields < set(MountOptions.__annotations__)


def test_the_refusal_names_handler_file_and_line() -> None:
    frame = inspect.currentframe()
    assert frame is not None
    with pytest.raises(DeclarationError) as error:
        MemoryBroker().include(process, workers=0)
    line = frame.f_lineno - 1

    assert str(error.value) == (
        "refused: workers=0\n"
        f"  where: process at tests/unit/test_mounting.py:{line}\n"
        "  why:   at least one is needed\n"
        "  write: workers=8"
    )


# -- policies -----------------------------------------------------------------------------


def test_policy_and_keywords_are_joined() -> None:
    settings = with_policy(
        Redelivery(max_attempts=5, hand_over=False), {"dead_letter": "dlq", "workers": 3}
    )

    assert settings == Redelivery(max_attempts=5, hand_over=False, dead_letter="dlq")
    assert with_policy(None, {}) == Redelivery()


@pytest.mark.parametrize(
    "setting",
    [
        {"max_attempts": 3},
        {"dead_letter": "dlq"},
        {"retry_to": "orders"},
        {"on_error": {KeyError: retry_after(3)}},
        {"on_decode_error": retry_after(3)},
        {"quarantine": None},
        {"dead_letter_details": "full"},
        {"hand_over": True},
        {"hold_limit": 30},
        {"max_unsettled": 10},
    ],
    ids=lambda one: next(iter(one)),
)
def test_one_thing_in_two_places_is_refused(setting: dict[str, Any]) -> None:
    (name,) = setting
    error = refusal(policy=Redelivery(**setting), **setting)

    assert error.why.startswith("one setting in two places")
    assert error.write == f"{name}= in one of them"


@pytest.mark.parametrize("policy", [{"max_attempts": 3}, 5, "dlq", Redelivery, False])
def test_a_policy_is_a_redelivery(policy: object) -> None:
    error = refusal(policy=policy)

    assert error.why == "a policy is a Redelivery; everything else is told by keyword"


def test_unset_is_nothing_declared() -> None:
    broker = MemoryBroker()
    broker.include(process, Redelivery(), reply_to="receipts")

    (mounted,) = broker.mounts
    assert mounted.terms.max_attempts is None
    assert mounted.quarantine is None
    assert (mounted.details, mounted.hand_over) == ("short", True)
    assert (mounted.hold_limit, mounted.max_unsettled) == (3600.0, 1000)
    assert (mounted.workers, mounted.by_key, mounted.timeout) == (1, None, None)
    assert mounted.middleware == ()
    assert Redelivery().max_attempts is UNSET


# -- values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "what", "kind"),
    [
        ({"workers": 0}, "workers=0", ValueError),
        ({"workers": True}, "workers=True", TypeError),
        ({"workers": 2.0}, "workers=2.0", TypeError),
        ({"workers": "8"}, "workers='8'", TypeError),
        ({"workers": None}, "workers=None", TypeError),
        ({"timeout": 0}, "timeout=0", ValueError),
        ({"timeout": -1}, "timeout=-1", ValueError),
        ({"timeout": math.inf}, "timeout=inf", ValueError),
        ({"timeout": math.nan}, "timeout=nan", ValueError),
        ({"timeout": "5"}, "timeout='5'", TypeError),
        ({"timeout": False}, "timeout=False", TypeError),
        ({"by_key": 3}, "by_key=3", TypeError),
        ({"by_key": ""}, "by_key=''", TypeError),
        ({"reply_to": 3}, "reply_to=3", TypeError),
        ({"reply_to": ""}, "reply_to=''", ValueError),
        ({"reply_to": "a b"}, "reply_to='a b'", ValueError),
        ({"reply_to": "receipts.*"}, "reply_to='receipts.*'", ValueError),
        ({"codec": MsgpackCodec}, "codec=<class", TypeError),
    ],
    ids=repr,
)
def test_a_value_that_cannot_be_is_refused(
    options: dict[str, Any], what: str, kind: type[Exception]
) -> None:
    error = refusal(**options)

    assert error.what.startswith(what)
    assert isinstance(error, kind)
    assert error.write is not None


def test_workers_and_timeout_as_they_are_kept() -> None:
    assert check_defaults({"workers": 8, "timeout": timedelta(minutes=1)}) == (8, 60.0)
    assert check_defaults({}) == (1, None)
    assert check_defaults({"timeout": None}) == (1, None)


def nothing() -> str:
    return "receipts"


def two(delivery: Delivery, more: str) -> str:
    return "receipts"


async def awaited(delivery: Delivery) -> str:
    return "receipts"


class Desk:
    def __call__(self, delivery: Delivery) -> str:
        return "receipts"

    def method(self, delivery: Delivery) -> str:
        return "receipts"

    async def awaited(self, delivery: Delivery) -> str:
        return "receipts"


class AwaitedDesk:
    async def __call__(self, delivery: Delivery) -> str:
        return "receipts"


@pytest.mark.parametrize("setting", ["reply_to", "by_key", "retry_to"])
@pytest.mark.parametrize(
    ("function", "why"),
    [
        (nothing, "it is called with (delivery), and with nothing else"),
        (two, "it is called with (delivery), and with nothing else"),
        (awaited, "it is an async function: nothing would await it"),
        (Desk().awaited, "it is an async function: nothing would await it"),
        (AwaitedDesk(), "it is an async function: nothing would await it"),
    ],
    ids=range(5),
)
def test_a_function_of_the_delivery_that_could_never_answer_is_refused(
    setting: str, function: object, why: str
) -> None:
    error = refusal(**{setting: function})

    assert error.why == why
    assert error.write == f"{setting}=lambda delivery: …"


@pytest.mark.parametrize(
    "function",
    [
        Desk(),
        Desk().method,
        functools.partial(two, more=""),
        lambda delivery: "a",
        operator.attrgetter("address"),
    ],
    ids=range(5),
)
def test_everything_that_can_be_asked_with_a_delivery_is_one(function: Any) -> None:
    broker = MemoryBroker()
    broker.include(process, reply_to=function, by_key=function)

    assert broker.mounts[0].reply_to is function


# -- replies and results ------------------------------------------------------------------


async def nothing_to_reply(order: int) -> None: ...
async def outcome_only(order: int) -> Outcome: ...
async def maybe_outcome(order: int) -> Outcome | None: ...


@pytest.mark.parametrize("handler", [nothing_to_reply, outcome_only, maybe_outcome])
def test_a_reply_to_for_a_handler_that_never_replies_is_refused(handler: Any) -> None:
    with pytest.raises(DeclarationTypeError) as error:
        MemoryBroker().include(Subscriber(MemoryTopic("orders"), handler), reply_to="receipts")

    assert error.value.why == "it has a reply_to, and returns nothing that could be published there"


async def unannotated(order: int): ...  # type: ignore[no-untyped-def]
async def anything(order: int) -> Any: ...
async def some_object(order: int) -> object: ...
async def receipt(order: int) -> Receipt: ...
async def receipt_or_none(order: int) -> Receipt | None: ...
async def receipt_or_outcome(order: int) -> Receipt | Outcome: ...
def threaded(order: int) -> list[Receipt]: ...


@pytest.mark.parametrize(
    ("handler", "none_acks"),
    [
        (unannotated, True),
        (anything, True),
        (some_object, True),
        (receipt, False),
        (receipt_or_none, True),
        (receipt_or_outcome, False),
        (threaded, False),
    ],
)
def test_what_none_means_beside_a_reply(handler: Any, none_acks: bool) -> None:
    broker = MemoryBroker()
    broker.include(Subscriber(MemoryTopic("orders"), handler), reply_to="receipts")

    assert broker.mounts[0].call.none_acks is none_acks


@pytest.mark.rule("2.2")
def test_a_value_without_a_reply_to_is_refused_with_what_to_write() -> None:
    with pytest.raises(DeclarationTypeError) as error:
        MemoryBroker().include(process)

    assert 'include(…, reply_to="an.address")' in str(error.value.write)


# -- handlers and sources -----------------------------------------------------------------


def test_a_handler_of_another_broker_is_refused() -> None:
    async def handler(order: int) -> None: ...

    stream: Any = Subscriber(RedisStream("orders", group="g"), handler)
    with pytest.raises(DeclarationTypeError) as error:
        MemoryBroker().include(stream)

    assert error.value.why == "this broker reads MemoryTopic, not RedisStream"


def test_a_plain_function_is_refused() -> None:
    handler: Any = nothing_to_reply
    with pytest.raises(DeclarationTypeError) as error:
        MemoryBroker().include(handler)

    assert error.value.what == "include(nothing_to_reply)"
    assert error.value.write == (
        "@subscriber(…) above nothing_to_reply, or include(Subscriber(source, nothing_to_reply))"
    )
