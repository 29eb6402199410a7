"""Outcomes that are built and thrown away are found when the handler is mounted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import surestream.outcome
import surestream.outcome as o
from surestream.context import Publisher
from surestream.errors import DeclarationError
from surestream.outcome import Outcome, Retry, ack, drop, fail_fast, retry, retry_after
from surestream.outcome import retry as again
from surestream.runtime.publishing import BoundPublisher, Publishing
from surestream.subscriber import site_of
from tests.unit.handlers.stand_ins import mount

pytestmark = pytest.mark.rule("2.2")

THROWN_AWAY = "its result is thrown away, so it decides nothing (rule 2.2)"
AWAITED = "an outcome is a value: there is nothing to await (rule 2.2)"
RAISED = "an outcome is a value, and only exceptions rise (rule 2.2)"


async def forgets_return(number: int) -> Outcome:
    if number:
        retry()
    return ack()


async def forgets_return_of_delay(number: int) -> Outcome:
    try:
        return ack()
    except ValueError:
        retry_after(30 * number)
    return ack()


async def awaits(number: int) -> None:
    await retry()  # type: ignore[misc]


async def returns_awaited(number: int) -> Outcome:
    return await drop()  # type: ignore[misc]


async def raises(number: int) -> Outcome:
    raise retry()  # type: ignore[misc]


async def by_module(number: int) -> None:
    surestream.outcome.drop()


async def by_module_alias(number: int) -> None:
    o.ack()


async def by_alias(number: int) -> None:
    again()


async def by_local_import(number: int) -> None:
    from surestream.outcome import retry as later

    later()


async def of_a_condition(number: int) -> None:
    retry() if number else None


async def of_an_or(number: int) -> None:
    number or fail_fast()


async def not_called(number: int) -> None:
    retry  # noqa: B018


async def returns_function(number: int) -> Outcome:
    return retry  # type: ignore[return-value]


def in_a_def(number: int) -> None:
    with open("/dev/null"):  # noqa: PTH123
        retry()


class Refunds:
    async def __call__(self, number: int) -> None:
        """Text that
        is less indented than the code."""
        retry()

    async def method(self, number: int) -> None:
        retry()


MISUSED: list[tuple[Callable[..., Any], int, str, str]] = [
    (forgets_return, 2, "retry()", THROWN_AWAY),
    (forgets_return_of_delay, 4, "retry_after(30 * number)", THROWN_AWAY),
    (awaits, 1, "retry()", AWAITED),
    (returns_awaited, 1, "drop()", AWAITED),
    (raises, 1, "retry()", RAISED),
    (by_module, 1, "surestream.outcome.drop()", THROWN_AWAY),
    (by_module_alias, 1, "o.ack()", THROWN_AWAY),
    (by_alias, 1, "again()", THROWN_AWAY),
    (by_local_import, 3, "later()", THROWN_AWAY),
    (of_a_condition, 1, "retry()", THROWN_AWAY),
    (of_an_or, 1, "fail_fast()", THROWN_AWAY),
    (not_called, 1, "retry()", "it is not called, and nothing is returned"),
    (returns_function, 1, "retry()", "the function is returned, not the outcome that it gives"),
    (in_a_def, 2, "retry()", THROWN_AWAY),
    (Refunds(), 3, "retry()", THROWN_AWAY),
    (Refunds().method, 1, "retry()", THROWN_AWAY),
    (functools.partial(Refunds.method, Refunds()), 1, "retry()", THROWN_AWAY),
]


@pytest.mark.parametrize(("handler", "below", "call", "why"), MISUSED)
def test_the_refusal_names_the_line_and_what_to_write(
    handler: Callable[..., Any], below: int, call: str, why: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        mount(handler)
    site = site_of(handler)
    assert str(caught.value).splitlines() == [
        f"refused: {call}",
        f"  where: {site.handler} at {site.file}:{site.line + below}",
        f"  why:   {why}",
        f"  write: return {call}",
    ]


def test_the_line_is_right_below_a_decorator() -> None:
    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    @decorator
    @decorator
    async def handler(number: int) -> None:
        retry()

    with pytest.raises(DeclarationError) as caught:
        mount(handler)
    site = site_of(handler)
    assert f":{site.line + 3}\n" in str(caught.value)


async def returns(number: int) -> Outcome:
    if number > 1:
        return retry_after(1)
    outcome = retry() if number else drop()
    return outcome or ack()


async def raises_retry(number: int) -> Outcome:
    raise Retry(after=3)


async def nested(number: int) -> Outcome:
    def other() -> None:
        retry()

    class Inner:
        retry()

    run = lambda: retry()  # noqa: E731
    other()
    run()
    return ack()


async def shadowed(number: int) -> None:
    def retry() -> None: ...

    retry()


async def shadowed_and_captured(number: int) -> None:
    retry = print
    retry("again")
    (lambda: retry)()


class Client:
    def retry(self) -> None: ...


CLIENT = Client()


async def methods_of_others(number: int) -> None:
    CLIENT.retry()


async def unknown_names(number: int) -> None:
    undefined.retry()  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    "handler",
    [
        returns,
        raises_retry,
        nested,
        shadowed,
        shadowed_and_captured,
        methods_of_others,
        unknown_names,
    ],
)
def test_what_is_right_or_not_ours_passes(handler: Callable[..., Any]) -> None:
    mount(handler)


def test_a_function_captured_from_outside_is_known() -> None:
    postpone = retry

    async def handler(number: int) -> None:
        postpone()

    with pytest.raises(DeclarationError, match=r"write: return postpone\(\)"):
        mount(handler)


def test_a_variable_that_is_not_set_yet_is_not_known() -> None:
    async def handler(number: int) -> None:
        later()

    mount(handler)
    later = retry
    with pytest.raises(DeclarationError, match=r"write: return later\(\)"):
        mount(handler)


def test_a_handler_without_source_passes() -> None:
    names: dict[str, Any] = {"retry": retry}
    exec("async def handler(number: int) -> None:\n    retry()", names)
    mount(names["handler"])


class Shop(Publishing):
    """A broker, as far as publishing goes."""

    def _publish(self, *args: object) -> Any: ...
    def check(self) -> None: ...


SHOP = Shop()
UNSENT = "its result is thrown away, so nothing is sent"


async def forgets_await(number: int, publisher: Publisher) -> None:
    publisher.publish("receipts", number)  # type: ignore[unused-coroutine]


async def forgets_await_on_broker(number: int) -> None:
    if number:
        SHOP.publish("receipts", number)  # type: ignore[unused-coroutine]


async def forgets_await_in_a_condition(number: int) -> None:
    SHOP.publish(number) if number else None  # type: ignore[unused-coroutine]


async def returns_publish(number: int, publisher: Publisher) -> None:
    return publisher.publish("receipts", number)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("handler", "below", "call", "why"),
    [
        (forgets_await, 1, "publisher.publish(…)", UNSENT),
        (forgets_await_on_broker, 2, "SHOP.publish(…)", UNSENT),
        (forgets_await_in_a_condition, 1, "SHOP.publish(…)", UNSENT),
        (
            returns_publish,
            1,
            "publisher.publish(…)",
            "it is returned and not awaited, so nothing is sent",
        ),
    ],
)
def test_a_publish_that_is_not_awaited_is_refused(
    handler: Callable[..., Any], below: int, call: str, why: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        mount(handler)
    site = site_of(handler)
    assert str(caught.value).splitlines() == [
        f"refused: {call} in {site.handler}",
        f"  where: {site.handler} at {site.file}:{site.line + below}",
        f"  why:   {why}",
        f"  write: await {call}",
    ]


def publishes_in_a_def(number: int) -> None:
    SHOP.publish("receipts", number)  # type: ignore[unused-coroutine]


def test_a_def_handler_that_publishes_is_refused() -> None:
    with pytest.raises(DeclarationError) as caught:
        mount(publishes_in_a_def)
    assert str(caught.value).splitlines()[2:] == [
        "  why:   publishing is awaited, and a def handler cannot await: nothing is sent",
        "  write: async def publishes_in_a_def, and await SHOP.publish(…); "
        "or return the value, with include(…, reply_to=…)",
    ]


def test_a_broker_captured_from_outside_is_known() -> None:
    shop = Shop()

    async def handler(number: int) -> None:
        shop.publish(number)  # type: ignore[unused-coroutine]

    with pytest.raises(DeclarationError, match=r"write: await shop\.publish\(…\)"):
        mount(handler)


def test_a_publisher_of_a_kind_of_its_own_is_known() -> None:
    async def handler(number: int, publisher: BoundPublisher) -> None:
        publisher.publish(number)  # type: ignore[unused-coroutine]

    with pytest.raises(DeclarationError, match=r"write: await publisher\.publish\(…\)"):
        mount(handler)


async def awaits_publishes(number: int, publisher: Publisher) -> None:
    await publisher.publish("receipts", number)
    await SHOP.publish(number)
    later = SHOP.publish(number)
    await later
    SHOP.check()


async def hands_on(number: int, publisher: Publisher) -> None:
    print(publisher.publish("receipts", number), SHOP.publish(number))


async def another_publisher(number: int, publisher: Publisher) -> None:
    publisher = Client()  # type: ignore[assignment]
    publisher.publish(number)  # type: ignore[unused-coroutine]


@pytest.mark.parametrize("handler", [awaits_publishes, hands_on, another_publisher])
def test_publishes_that_are_awaited_or_handed_on_pass(handler: Callable[..., Any]) -> None:
    mount(handler)
