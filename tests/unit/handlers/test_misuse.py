"""Outcomes that are built and thrown away are found when the handler is mounted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import surestream.outcome
import surestream.outcome as o
from surestream.errors import DeclarationError
from surestream.outcome import Outcome, Retry, ack, drop, fail_fast, retry, retry_after
from surestream.outcome import retry as again
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
