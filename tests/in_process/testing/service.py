"""A small service on the memory broker, made anew for each test."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from surestream import App, Headers, Outcome, Redelivery, State, Subscriber, ack, drop, retry_after
from surestream import retry as retry_now
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.testing import TestApp

BACKOFF = timedelta(seconds=30)


class Refund(msgspec.Struct):
    """What the handlers get; ``card`` decides what becomes of it."""

    id: int
    card: str = "good"


@dataclass
class Processor:
    """The state of the service."""

    seen: list[int] = field(default_factory=list)


async def process(refund: Refund, processor: State[Processor]) -> Outcome:
    """Decide by the card."""
    processor.seen.append(refund.id)
    match refund.card:
        case "busy":
            return retry_after(BACKOFF)
        case "down":
            return retry_now()
        case "closed":
            return drop()
        case "broken":
            raise KeyError(refund.id)
        case "slow":
            await asyncio.sleep(5)
    return ack()


async def review(refund: Refund, headers: Headers) -> None:
    """Read the dead letters."""


process_refund = Subscriber(MemoryTopic("refunds"), process)
review_refund = Subscriber(MemoryTopic("refunds.dlq"), review)

POLICY = Redelivery(max_attempts=4, dead_letter="refunds.dlq")


def under_test(*more: Subscriber[MemoryTopic, ..., Any], **options: Any) -> TestApp:
    """A test of the service, with its state given; ``options`` are TestApp's."""
    return TestApp(service(*more), state=Processor(), **options)


def service(*more: Subscriber[MemoryTopic, ..., Any], **options: Any) -> App:
    """The refunds service, with ``more`` subscribers."""
    app = App("refunds", **options)
    broker = app.add(MemoryBroker())
    broker.include(process_refund, POLICY)
    broker.include(review_refund)
    for subscriber in more:
        broker.include(subscriber, max_attempts=4)
    return app
