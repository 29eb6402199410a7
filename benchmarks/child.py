"""Runs one contender once: `python -m benchmarks.child JOB`, answers one line of JSON."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from typing import cast

import msgspec

from benchmarks.common import (
    Consumer,
    Job,
    Measurement,
    Publisher,
    Stopwatch,
    Tally,
    load,
    rss_mb,
)
from benchmarks.server import entry_fields
from benchmarks.wire import Wire

SETTLE_SECONDS = 1.0
"""Time a contender gets to connect before its idleness is measured."""


async def measure_consuming(job: Job, consume: Consumer) -> Measurement:
    """From the first handler call to the last acknowledgement."""
    wire = Wire(job.host, job.port) if job.port else None
    tally = Tally(job, wire)
    idle_cpu = 0.0
    if job.idle_seconds and wire:
        async with asyncio.TaskGroup() as tasks:
            waking = tasks.create_task(_idle_then_wake(job, wire))
            await consume(job, tally)
        idle_cpu = waking.result()
    else:
        await consume(job, tally)
    peak = rss_mb(peak=True)
    watch = tally.watch
    return Measurement(
        watch.seconds,
        watch.cpu_seconds,
        peak,
        tally.handled,
        tally.ids,
        tally.failed,
        idle_cpu,
        tally.rss_at,
    )


async def _idle_then_wake(job: Job, wire: Wire) -> float:
    """CPU per wall second without messages; then sends them, to prove that somebody listened."""
    watch = Stopwatch()
    await asyncio.sleep(SETTLE_SECONDS)
    watch.start()
    await asyncio.sleep(job.idle_seconds)
    watch.stop()
    wire.call_many(("XADD", job.stream, "*", *entry_fields(n)) for n in range(job.entries))
    return watch.cpu_seconds / watch.seconds


async def measure_publishing(job: Job, publish: Publisher) -> Measurement:
    """From the first send to the last answer of the server."""
    watch = Stopwatch()
    await publish(job, watch)
    peak = rss_mb(peak=True)
    return Measurement(watch.seconds, watch.cpu_seconds, peak, job.entries, 0)


def main() -> None:
    job = msgspec.json.decode(sys.argv[1], type=Job)
    function = load(job.target)
    if job.loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    else:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        if function.__name__.startswith("publish"):
            measured = runner.run(measure_publishing(job, cast("Publisher", function)))
        else:
            measured = runner.run(measure_consuming(job, cast("Consumer", function)))
    sys.stdout.buffer.write(msgspec.json.encode(asdict(measured)) + b"\n")


if __name__ == "__main__":
    main()
