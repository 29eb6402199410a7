"""The rights that *Deploying* lists are enough for everything a service does."""

from __future__ import annotations

import shlex
from urllib.parse import urlsplit

from redis import Redis

from surestream import App, Outcome, ack, retry, retry_after, subscriber
from surestream.redis import DurableZset, RedisBroker, RedisStream
from tests.live.support import eventually
from tests.servers import RedisServer
from tests.unit.docs.pages import blocks


@subscriber(
    RedisStream(
        "refunds",
        group="refunds",
        delayed_retry=DurableZset("refunds.delayed", ttl=60),
        recover_after=0.5,
    )
)
async def by_copies(card: str) -> Outcome:
    return decided(card)


@subscriber(RedisStream.claiming("refunds.priority", min_idle=0.2, group="refunds"))
async def by_claims(card: str) -> Outcome:
    return decided(card)


def decided(card: str) -> Outcome:
    return {"busy": retry_after(0.1), "down": retry()}.get(card, ack())


async def test_the_listed_rights_are_enough(own_redis: RedisServer) -> None:
    (line,) = [
        block.text
        for block in blocks("guides/deploying.md", "text")
        if block.text.startswith("ACL")
    ]
    admin = Redis.from_url(own_redis.url, decode_responses=True)
    admin.execute_command(*shlex.split(line))
    # An entry that a dead worker left behind, and one of its kind for the claiming stream.
    for key in ("refunds", "refunds.priority"):
        admin.xgroup_create(key, "refunds", "0", mkstream=True)
        admin.xadd(key, {"_payload": "left behind"})
        admin.xreadgroup("refunds", "dead", {key: ">"})

    host = urlsplit(own_redis.url)
    app = App("refunds")
    redis = app.add(RedisBroker(f"redis://refunds:secret@{host.hostname}:{host.port}"))
    redis.include(by_copies, max_attempts=3, dead_letter="refunds.dlq")
    redis.include(by_claims, max_attempts=3, dead_letter="refunds.dlq")
    async with app.running():
        for key in ("refunds", "refunds.priority"):
            for card in ("fine", "busy", "down"):
                await redis.publish(key, card)
            await redis.publish(key, b"\xff")
        await eventually(lambda: admin.xlen("refunds.dlq") == 4)
        await eventually(lambda: not pending(admin))

    assert admin.xlen("refunds.undecodable") == 1
    assert admin.xlen("refunds.priority.undecodable") == 1
    assert admin.execute_command("ACL", "LOG") == []
    admin.close()


def pending(admin: Redis) -> int:
    return sum(admin.xpending(key, "refunds")["pending"] for key in ("refunds", "refunds.priority"))
