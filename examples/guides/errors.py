"""Exceptions as outcomes: payments through a bank that fails in several ways."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from surestream import (
    App,
    Attempt,
    Backoff,
    Drop,
    Outcome,
    Redelivery,
    Retry,
    State,
    drop,
    retry,
    retry_after,
    subscriber,
)
from surestream.redis import RedisBroker, RedisStream

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")


class Busy(Exception):  # noqa: N818 - named for what the bank says
    """The rate limit is used up."""


class AccountClosed(Exception):  # noqa: N818
    """No payment will ever arrive there."""


class Payment(msgspec.Struct):
    """Money for an account."""

    account: str
    cents: int


class Statement(msgspec.Struct):
    """A list of payments, as a document."""

    account: str
    pages: int


class Bank:
    """Stands for a client of the bank's."""

    async def pay(self, account: str, cents: int) -> None:
        """Pay ``cents`` to ``account``."""

    async def send(self, account: str, pages: int) -> None:
        """Send a statement of so many pages."""


@subscriber(RedisStream("payments", group="payments"))
async def pay(payment: Payment, bank: State[Bank]) -> None:
    """Pay; what the bank raises is decided below."""
    await bank.pay(payment.account, payment.cents)


POLICY = Redelivery(
    max_attempts=5,
    dead_letter="payments.dead",
    on_error={
        Busy: retry_after(30),
        OSError: retry_after(Backoff(first=2, factor=3, limit=600)),
        AccountClosed: drop(),
    },
)


def by_attempt(error: BaseException, attempt: int) -> Outcome:
    """Twice again at once, then every minute; the attempt is the one that just failed."""
    return retry() if attempt <= 2 else retry_after(60)


@subscriber(RedisStream("statements", group="statements"))
async def send_statement(statement: Statement, bank: State[Bank], attempt: Attempt) -> None:
    """Send a statement, a long one not before it had five minutes to be written."""
    if statement.pages == 0:
        raise Drop
    if statement.pages > 1000 and attempt.number == 1:
        raise Retry(after=300)
    await bank.send(statement.account, statement.pages)


@asynccontextmanager
async def clients(app: App) -> AsyncGenerator[Bank]:
    """Open the bank's client."""
    yield Bank()


app = App("payments", lifespan=clients)
redis = app.add(RedisBroker(REDIS_URL))
redis.include(pay, POLICY, timeout=10)
redis.include(send_statement, max_attempts=5, on_error=by_attempt, quarantine="statements.broken")
