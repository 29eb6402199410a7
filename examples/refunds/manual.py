"""The same service without decorators: a handler is any object that can be called.

``surestream run examples.refunds.manual:app`` starts it. Worth its extra lines where one handler
reads several sources, or a source is only known when the program runs.
"""

from __future__ import annotations

import logging

from examples.refunds.processor import Processor
from examples.refunds.service import BACKOFF, REDIS_URL, Refund, clients, settle
from surestream import RETRY_COUNT_HEADER, App, Headers, Outcome, State, Subscriber
from surestream.redis import ClaimingStream, DurableZset, RedisBroker, RedisStream

log = logging.getLogger("refunds")


class ProcessRefund:
    """Pay one refund back. Any object that can be called is a handler."""

    async def __call__(self, refund: Refund, processor: State[Processor]) -> Outcome:
        return await settle(processor, refund)


class Review:
    """Call a person: this refund ran out of attempts."""

    async def __call__(self, refund: Refund, headers: Headers) -> None:
        tries = headers.get(RETRY_COUNT_HEADER, "0")
        log.error("refund %s needs a person to look at it, tried %s times", refund.id, tries)


def refunds() -> RedisStream:
    """The stream of refunds; delays wait in Redis, where they survive a restart."""
    return RedisStream("refunds", group="refunds", delayed_retry=DurableZset("refunds.delayed"))


def priority_refunds() -> ClaimingStream:
    """The urgent ones: what failed stays pending, and is claimed again after ``BACKOFF``."""
    return RedisStream.claiming("refunds.priority", min_idle=BACKOFF, group="refunds")


process_refund = Subscriber(refunds(), ProcessRefund())
process_priority_refund = Subscriber(priority_refunds(), ProcessRefund())
review = Subscriber(RedisStream("refunds.dlq", group="refunds-review"), Review())

app = App("refunds", version="0.1.0", lifespan=clients)
redis = app.add(RedisBroker(REDIS_URL))
# Five deliveries of one refund, the first included; then the dead-letter stream.
redis.include(process_refund, max_attempts=5, dead_letter="refunds.dlq")
redis.include(process_priority_refund, max_attempts=5, dead_letter="refunds.dlq")
redis.include(review)
