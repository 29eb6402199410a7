"""What the guide *Errors* says is so."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from examples.guides.errors import AccountClosed, Bank, Busy, Payment, app, pay, send_statement
from surestream.testing import TestApp

PAYMENT = Payment("DE02", 500)


class FailingBank(Bank):
    """Raises what a test says, one after another; then all is well."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)

    async def pay(self, account: str, cents: int) -> None:
        if self.errors:
            raise self.errors.pop(0)

    async def send(self, account: str, pages: int) -> None:
        await self.pay(account, pages)


class SilentBank(Bank):
    """Never answers."""

    async def pay(self, account: str, cents: int) -> None:
        await asyncio.Event().wait()


async def tried_at(bank: Bank, seconds: float) -> tuple[list[float], TestApp]:
    """When one payment was tried, within ``seconds``."""
    async with TestApp(app, state=bank) as tb:
        await tb.publish("payments", PAYMENT)
        await tb.advance(seconds)
        return [call.at for call in tb.calls(pay)], tb


@pytest.mark.rule("2.3")
async def test_each_class_has_its_outcome() -> None:
    times, _ = await tried_at(FailingBank(Busy()), 100)
    assert times == [0, 30]

    _, tb = await tried_at(FailingBank(AccountClosed()), 100)
    tb.assert_settled(pay, "drop")


@pytest.mark.rule("2.3")
async def test_the_nearest_class_counts_also_in_a_group() -> None:
    times, _ = await tried_at(FailingBank(ConnectionRefusedError()), 2.3)
    assert len(times) == 2

    group = ExceptionGroup("both", [Busy(), Busy()])
    times, _ = await tried_at(FailingBank(group), 100)
    assert times == [0, 30]


async def test_a_backoff_grows_and_is_never_shorter_than_declared() -> None:
    times, _ = await tried_at(FailingBank(*[OSError()] * 3), 100)

    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    for wait, declared in zip(waits, [2, 6, 18], strict=True):
        assert declared <= wait <= declared * 1.1 + 0.001


@pytest.mark.rule("2.3")
async def test_what_is_not_listed_waits_by_the_default_backoff_under_the_cap() -> None:
    times, tb = await tried_at(FailingBank(*[KeyError()] * 9), 100)

    assert len(times) == 5
    assert times[1] >= 1
    tb.assert_settled(pay, *["copy"] * 4, "dead letter")
    (dead,) = tb.published("payments.dead")
    assert dead.headers["x-surestream-dead-error"] == "builtins.KeyError"


@pytest.mark.rule("2.3")
async def test_a_function_sees_the_attempt() -> None:
    async with TestApp(app, state=FailingBank(Busy(), Busy(), Busy())) as tb:
        await tb.publish("statements", {"account": "DE02", "pages": 1})
        await tb.advance(100)

        assert [call.at for call in tb.calls(send_statement)] == [0, 0, 0, 60]


@pytest.mark.rule("2.3")
async def test_an_outcome_can_be_raised() -> None:
    async with TestApp(app) as tb:
        await tb.publish("statements", {"account": "DE02", "pages": 0})
        tb.assert_settled(send_statement, "drop")

        await tb.publish("statements", {"account": "DE02", "pages": 2000})
        await tb.advance(1000)
        assert [call.at for call in tb.calls(send_statement)][1:] == [0, 300]


@pytest.mark.rule("2.5")
async def test_a_run_that_takes_too_long_is_an_exception() -> None:
    async with TestApp(app, state=SilentBank()) as tb:
        await tb.publish("payments", PAYMENT)
        await tb.advance(10.5)

        (call, *_) = tb.calls(pay)
        assert isinstance(call.error, TimeoutError)


@pytest.mark.rule("2.6")
async def test_what_cannot_be_decoded_is_kept_as_it_came() -> None:
    async with TestApp(app) as tb:
        await tb.publish("payments", b'{"account": 7}')
        await tb.publish("statements", b"?")

        tb.assert_called(pay, times=0)
        assert [kept.payload for kept in tb.published("payments.undecodable")] == [
            b'{"account": 7}'
        ]
        tb.assert_published("statements.broken", times=1)
        tb.assert_published("payments.dead", times=0)
