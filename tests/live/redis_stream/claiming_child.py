"""A claiming service in a process of its own, which some messages kill."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import timedelta
from typing import Literal

import msgspec

from surestream import App, Delivery, Outcome, Subscriber, ack, retry, retry_after
from surestream.cli import serving
from surestream.redis import DurableZset, RedisBroker, RedisStream
from tests.live.support import plain

__all__ = ["KILLED", "Task", "serve"]

KILLED = 9


class Task(msgspec.Struct):
    """What the handler is to do with a message: ``times`` times, then it is acknowledged."""

    id: int
    do: Literal["ack", "retry", "after", "kill"] = "ack"
    times: int = 1_000
    delay: float = 0.0
    takes: float = 0.0


def serve(
    url: str, *, min_idle: float = 0.3, delays: str | None = None, workers: int = 1, cap: int = 5
) -> int:
    """Run it until a signal asks for the stop. Every begin of a handler is noted."""
    note = plain(url)

    async def work(task: Task, delivery: Delivery) -> Outcome:
        run = {
            "id": task.id,
            "entry": delivery.id,
            "attempt": delivery.attempt,
            "count": delivery.server_count,
            "pid": os.getpid(),
            "at": time.time(),
        }
        note.rpush("journal", json.dumps(run))
        await asyncio.sleep(task.takes)
        if delivery.attempt > task.times:
            return ack()
        match task.do:
            case "kill":
                os._exit(KILLED)
            case "retry":
                return retry()
            case "after":
                return retry_after(task.delay)
            case _:
                return ack()

    source = RedisStream.claiming(
        "tasks",
        min_idle=timedelta(seconds=min_idle),
        group="g",
        block=0.5,
        delayed_retry=None if delays is None else DurableZset(delays),
    )
    app = App("claiming", shutdown_timeout=5)
    broker = app.add(RedisBroker(url))
    broker.include(
        Subscriber(source, work), max_attempts=cap, dead_letter="tasks.dlq", workers=workers
    )
    return serving.serve(app)
