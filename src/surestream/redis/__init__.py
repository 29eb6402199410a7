"""SureStream on Redis and Valkey: the broker, what it reads, and what a handler may ask for."""

from surestream.errors import MissingExtra

try:
    import hiredis as _hiredis
    import redis as _redis
except ImportError as error:  # pragma: no cover - needs an environment without the extra
    raise MissingExtra(
        "redis", needs="redis-py with hiredis", purpose="surestream.redis"
    ) from error

from surestream.redis.broker import RedisBroker
from surestream.redis.publisher import RedisPublisher
from surestream.redis.sources import (
    ClaimingStream,
    ConsumerGroup,
    DurableZset,
    EntryId,
    RedisSource,
    RedisStream,
    StreamKey,
)

del _hiredis, _redis

__all__ = [
    "ClaimingStream",
    "ConsumerGroup",
    "DurableZset",
    "EntryId",
    "RedisBroker",
    "RedisPublisher",
    "RedisSource",
    "RedisStream",
    "StreamKey",
]
