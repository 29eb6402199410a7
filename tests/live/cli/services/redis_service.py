"""A service on a real Redis, ``REDIS_URL``."""

from __future__ import annotations

import os

from work import lifespan, work

from surestream import App, Subscriber
from surestream.redis import RedisBroker, RedisStream


async def publish(text: str) -> None:
    """To the stream."""
    await broker.publish("work", text)


app = App("demo", lifespan=lifespan(publish), connect_timeout=float(os.environ.get("WAIT", "30")))
broker = app.add(RedisBroker(os.environ["REDIS_URL"]))
source = RedisStream("work", group="g", recover_after=float(os.environ.get("RECOVER", "60")))
broker.include(Subscriber(source, work), max_attempts=2, dead_letter="dead", workers=5)
