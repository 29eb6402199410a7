"""The refunds service: what fails is tried again, at once or later, and in the end set aside.

``surestream run examples.refunds.service:app`` starts it. From the environment: ``REDIS_URL``
(redis://localhost:6379) and ``BACKOFF`` (seconds a busy processor is left alone; 30).
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from examples.refunds.processor import Busy, Declined, Processor, Unavailable
from surestream import (
    RETRY_COUNT_HEADER,
    App,
    Headers,
    Outcome,
    State,
    ack,
    drop,
    retry,
    retry_after,
    subscriber,
)
from surestream.redis import DurableZset, RedisBroker, RedisStream

log = logging.getLogger("refunds")

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")
# How long a busy processor asks its callers to wait.
BACKOFF = timedelta(seconds=float(os.environ.get("BACKOFF", "30")))


class Refund(msgspec.Struct):
    """Money that goes back to a card."""

    id: int
    card: str
    amount_cents: int


@dataclass(frozen=True)
class Clients:
    """What the handlers work with, opened once for the whole service."""

    processor: Processor


@asynccontextmanager
async def clients(app: App) -> AsyncGenerator[Clients]:
    """Open the clients at start; what follows the ``yield`` closes them at the stop."""
    yield Clients(processor=Processor())


@subscriber(
    RedisStream("refunds", group="refunds", delayed_retry=DurableZset("refunds.delayed")),
)
async def process_refund(refund: Refund, processor: State[Processor]) -> Outcome:
    """Pay one refund back."""
    return await settle(processor, refund)


@subscriber(RedisStream.claiming("refunds.priority", min_idle=BACKOFF, group="refunds"))
async def process_priority_refund(refund: Refund, processor: State[Processor]) -> Outcome:
    """Pay back a refund that is in a hurry."""
    # What failed, or was on a worker that died, stays pending; whoever is free claims it again.
    return await settle(processor, refund)


async def settle(processor: Processor, refund: Refund) -> Outcome:
    """Three refusals, three outcomes."""
    try:
        await processor.refund(refund.id, refund.card, refund.amount_cents)
    except Busy:
        # Past the rate limit: a delivery right now would be refused again.
        return retry_after(BACKOFF)
    except Unavailable:
        # No answer: try again at once, up to the cap.
        return retry()
    except Declined:
        log.warning("card declined, refund %s dropped", refund.id)
        return drop()
    return ack()


@subscriber(RedisStream("refunds.dlq", group="refunds-review"))
async def review(refund: Refund, headers: Headers) -> None:
    """Call a person: this refund ran out of attempts."""
    tries = headers.get(RETRY_COUNT_HEADER, "0")
    log.error("refund %s needs a person to look at it, tried %s times", refund.id, tries)


app = App("refunds", version="0.1.0", lifespan=clients)
redis = app.add(RedisBroker(REDIS_URL))
# Five deliveries of one refund, the first included; then the dead-letter stream.
redis.include(process_refund, max_attempts=5, dead_letter="refunds.dlq")
redis.include(process_priority_refund, max_attempts=5, dead_letter="refunds.dlq")
redis.include(review)
