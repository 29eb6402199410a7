"""Services of the cases that run in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import time
from types import SimpleNamespace
from typing import Any

from surestream import App, Delivery, Outcome, Subscriber, ack, clock, retry_after
from surestream.cli import serving
from surestream.redis import DurableZset, RedisBroker, RedisStream, groups
from tests.live.support import plain

__all__ = ["handle"]


def handle(
    url: str,
    *,
    delays: str | None = None,
    later: dict[str, float] | None = None,
    takes: dict[str, float] | None = None,
    blocks: dict[str, float] | None = None,
    note_url: str | None = None,
    skew: float = 0.0,
    workers: int = 1,
    shutdown_timeout: float = 5.0,
    silence: float | None = None,
    **source: Any,
) -> int:
    """Acknowledge everything; what ``later`` names, once more after so many seconds. What ``takes``
    names sleeps before, what ``blocks`` names lets nobody else run meanwhile. Every run is noted,
    at its begin and at its end."""
    real = time.time
    if skew:
        clock.time = SimpleNamespace(time=lambda: real() + skew)  # pyright: ignore[reportAttributeAccessIssue]
    if silence is not None:
        groups.LEAST_SILENCE = silence  # pyright: ignore[reportAttributeAccessIssue]
    note = plain(note_url or url)

    async def work(body: bytes, delivery: Delivery) -> Outcome:
        text = body.decode()
        run = {"text": text, "attempt": delivery.attempt, "at": real(), "pid": os.getpid()}
        note.rpush("journal", json.dumps(run | {"count": delivery.server_count}))
        if takes and text in takes:
            await asyncio.sleep(takes[text])
        if blocks and text in blocks:
            time.sleep(blocks[text])  # noqa: ASYNC251 - that is what it is there for
        note.rpush("ended", text)
        if later and text in later and delivery.attempt == 1:
            return retry_after(later[text])
        return ack()

    settings: dict[str, Any] = {"key": "tasks", "group": "g", "block": 0.2} | source
    if delays is not None:
        settings["delayed_retry"] = DurableZset(delays)
    app = App("cases", shutdown_timeout=shutdown_timeout)
    broker = app.add(RedisBroker(url))
    stream = RedisStream(**settings)
    broker.include(
        Subscriber(stream, work), max_attempts=3, dead_letter="tasks.dlq", workers=workers
    )
    return serving.serve(app)
