"""What type checkers see of publishing. Checked by pyright strict; nothing here is run."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import Any

from surestream import Broker, Publisher
from surestream.redis import RedisBroker, RedisPublisher


async def on_redis(redis: RedisBroker | RedisPublisher, value: object) -> None:
    await redis.publish("refunds", value)
    await redis.publish(value, headers={"tenant": "acme"})
    await redis.publish("refunds", value, maxlen=10_000)
    await redis.publish(value, maxlen=10_000, exact=True, headers={"tenant": "acme"})
    await redis.publish("refunds", value, min_id="1700000000000-0")
    await redis.publish(value, min_id="1700000000000", exact=True)

    # by number or by id
    await redis.publish("refunds", value, maxlen=1, min_id="1-0")  # pyright: ignore[reportCallIssue]
    await redis.publish("refunds", value, maxlen="1")  # pyright: ignore[reportArgumentType]
    await redis.publish("refunds", value, min_id=1)  # pyright: ignore[reportArgumentType]
    await redis.publish("refunds", value, max_len=1)  # pyright: ignore[reportCallIssue]


async def on_any(broker: Broker[Any], publisher: Publisher, value: object) -> None:
    await broker.publish("refunds", value)
    await broker.publish("refunds", value, maxlen=1)  # pyright: ignore[reportCallIssue]
    await publisher.publish("refunds", value, maxlen=1)  # pyright: ignore[reportCallIssue]


def is_a_publisher(publisher: RedisPublisher, redis: RedisBroker) -> tuple[Publisher, ...]:
    return publisher, redis
