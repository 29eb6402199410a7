"""A claiming service in a process of its own, which some messages kill."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import timedelta
from typing import Any, Literal

import msgspec

from surestream import App, Delivery, Outcome, Subscriber, ack, retry, retry_after
from surestream.cli import serving
from surestream.redis import DurableZset, RedisBroker, RedisStream
from tests.live.crash.points import CUT, How, Point, watch_connections
from tests.live.support import PATIENCE, Look, plain

__all__ = ["KILLED", "Task", "serve", "settled", "strike"]

KILLED = 9
STUCK = 10


class Task(msgspec.Struct):
    """What the handler is to do with a message: ``times`` times, then it is acknowledged."""

    id: int
    do: Literal["ack", "retry", "after", "kill"] = "ack"
    times: int = 1_000
    delay: float = 0.0
    takes: float = 0.0


def serve(url: str, **settings: Any) -> int:
    """Run it until a signal asks for the stop."""
    return serving.serve(service(url, **settings))


def strike(url: str, *, how: How, number: int, **settings: Any) -> int:
    """Run it until everything is settled, struck at the ``number``-th call to Redis."""
    point = Point(how, number)
    watch_connections(point)
    app = service(url, **settings)
    look = Look(url)

    async def run() -> int:
        limit = time.monotonic() + PATIENCE
        async with app.running():
            point.arm()
            while not settled(look):
                if time.monotonic() > limit:
                    print("not settled:", look.pending("tasks", "g"), flush=True)
                    return STUCK
                await asyncio.sleep(0.02)
        return CUT if point.struck else 0

    return asyncio.run(run())


def settled(look: Look) -> bool:
    """Whether nothing is pending, unread or parked."""
    return look.at_rest("tasks", ("g",), "tasks.delayed")


def service(
    url: str, *, min_idle: float = 0.3, delays: str | None = None, workers: int = 1, cap: int = 5
) -> App:
    """The service. Every begin of a handler is noted, and every message that it is done with."""
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
        if delivery.attempt > task.times or task.do == "ack":
            note.hincrby("done", str(task.id), 1)
            return ack()
        match task.do:
            case "kill":
                os._exit(KILLED)
            case "retry":
                return retry()
            case _:
                return retry_after(task.delay)

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
    return app
