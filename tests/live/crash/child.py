"""The process of the crash sweep: a small service that may end itself at a call to Redis.

It runs until everything is settled, by what Redis says, or is stopped when ``until_run`` messages
have been run. A process that is struck (:mod:`tests.live.crash.points`) says so by its status;
:data:`STUCK` is the status where something is left over.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec

from surestream import (
    App,
    Attempt,
    Delivery,
    Outcome,
    Redelivery,
    Subscriber,
    ack,
    drop,
    retry,
    retry_after,
)
from surestream.cli import serving
from surestream.declaration import UNSET
from surestream.redis import DurableZset, RedisBroker, RedisStream
from surestream.runtime import orphans
from tests.live.crash.points import CUT, How, Point, watch_connections
from tests.live.support import Look, plain

__all__ = [
    "CAP",
    "CRASHED",
    "DEAD",
    "DELAY_SET",
    "QUARANTINE",
    "STREAM",
    "STUCK",
    "Task",
    "serve",
]

CRASHED: Final = 78
STUCK: Final = 9
LEASE: Final = 0.5
BLOCK: Final = 0.2
CAP: Final = 4
STREAM: Final = "tasks"
DELAY_SET: Final = "tasks.delayed"
DEAD: Final = "tasks.dlq"
QUARANTINE: Final = "tasks.undecodable"
PATIENCE: Final = 25.0


class Task(msgspec.Struct):
    """What the handler is to do with a message."""

    id: int
    do: Literal["ack", "retry", "after", "dead", "drop", "crash"] = "ack"
    times: int = 1
    delay: float = 0.0
    takes: float = 0.0


# ── the service ─────────────────────────────────────────────────────────────


def service(
    url: str,
    note: Any,
    *,
    timer: bool,
    groups: Iterable[str],
    workers: int,
    consumer: str | None,
    lease: float,
    terms: Redelivery,
    instead: dict[str, Any],
) -> App:
    """One handler for each group. It writes down every run before it decides."""
    app = App("sweep", shutdown_timeout=10)
    broker = app.add(RedisBroker(url))

    def handler(group: str) -> Callable[..., Any]:
        async def work(task: Task, attempt: Attempt, delivery: Delivery) -> Outcome:
            run = {"id": task.id, "entry": delivery.id, "at": time.time()}
            run |= {"attempt": attempt.number, "count": delivery.server_count}
            note.rpush(f"runs:{group}", json.dumps(run))
            task = msgspec.structs.replace(task, **instead)
            if task.takes:
                await asyncio.sleep(task.takes)
            note.rpush("ended", os.getpid())
            # Only the first group is in trouble.
            match "ack" if group != "g" else task.do:
                case "crash" if note.hincrby("crashes", str(task.id), 1) <= task.times:
                    os._exit(CRASHED)
                case "retry" if attempt.number <= task.times:
                    return retry()
                case "after" if attempt.number <= task.times:
                    return retry_after(task.delay)
                case "dead":
                    return retry()
                case "drop":
                    note.hincrby(f"done:{group}", str(task.id), 1)
                    return drop()
                case _:
                    note.hincrby(f"done:{group}", str(task.id), 1)
            return ack()

        return work

    for group in groups:
        source = RedisStream(
            STREAM,
            group=group,
            consumer=consumer,
            block=BLOCK,
            recover_after=lease if consumer is None else None,
            delayed_retry=None if timer else DurableZset(DELAY_SET, ttl=60),
        )
        broker.include(
            Subscriber(source, handler(group)),
            terms,
            quarantine=QUARANTINE if group == "g" else None,
            workers=workers,
        )
    return app


def serve(
    url: str,
    *,
    how: How = "kill before",
    number: int = 0,
    armed: Literal["at first", "running", "stopping"] = "running",
    timer: bool = False,
    groups: Iterable[str] = ("g",),
    workers: int = 1,
    cap: int = CAP,
    dead: bool = True,
    consumer: str | None = None,
    lease: float = LEASE,
    until_run: int = 0,
    forever: bool = False,
    note_url: str | None = None,
    instead: dict[str, Any] | None = None,
) -> int:
    """Run the service; the exit status. ``forever``: until a signal asks for the stop.
    ``instead`` are fields of every task that this process takes otherwise than they say."""
    # What a lost connection puts off is put off by as much as one lease.
    orphans.LOOK_AGAIN = LEASE
    point = Point(how, number)
    watch_connections(point)
    if armed == "at first":
        point.arm()
    note = plain(note_url or url)
    look = Look(url)
    groups = tuple(groups)
    terms = Redelivery(max_attempts=cap, dead_letter=DEAD if dead else UNSET)
    app = service(
        url,
        note,
        timer=timer,
        groups=groups,
        workers=workers,
        consumer=consumer,
        lease=lease,
        terms=terms,
        instead=instead or {},
    )
    if forever:
        return serving.serve(app)

    def enough() -> bool:
        if until_run:
            runs = [json.loads(line)["id"] for line in note.lrange("runs:g", 0, -1)]
            return len(set(runs)) >= until_run
        return settled(look, groups)

    async def run() -> int:
        limit = time.monotonic() + PATIENCE
        async with app.running():
            if armed == "running":
                point.arm()
            while not enough():
                if time.monotonic() > limit:
                    print("not settled:", leftovers(look, groups), flush=True)
                    return STUCK
                await asyncio.sleep(0.02)
            point.arm()
        print(f"{len(point.seen)} calls:", ", ".join(point.seen), flush=True)
        return CUT if point.struck else 0

    return asyncio.run(run())


def settled(look: Look, groups: Iterable[str]) -> bool:
    """Whether nothing waits anywhere, by what the server says."""
    return not any(leftovers(look, groups).values())


def leftovers(look: Look, groups: Iterable[str]) -> dict[str, Any]:
    """What waits, and where."""
    return {
        "parked": look.parked(DELAY_SET),
        "unread": look.unread(STREAM),
        "pending": [look.pending(STREAM, group) for group in groups if look.pending(STREAM, group)],
    }
