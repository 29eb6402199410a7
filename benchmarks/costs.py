"""What is not a rate: import time, idle CPU, memory against the number of entries."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.paths import CONSUME, Contender
from benchmarks.rounds import ROOT, Rig, RunError, run_consumer
from benchmarks.server import fill

IMPORT_RUNS = 5
IDLE_SECONDS = 10.0
MEMORY_MARKS = (100_000, 500_000, 1_000_000)


@dataclass
class Cost:
    """One figure, and the most it may be (0: nothing is asked)."""

    path: str
    contender: str
    value: float
    unit: str
    wanted_below: float = 0.0


def import_time(module: str = "surestream") -> Cost:
    """Seconds that `import surestream` takes in a fresh interpreter, median of 5 after one more."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    seconds: list[float] = []
    for _ in range(IMPORT_RUNS + 1):
        ended = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False
        )
        if ended.returncode:
            raise RunError(ended.stderr.decode(errors="replace").strip().splitlines()[-1])
        seconds.append(float(ended.stdout))
    return Cost("import-core", "ours", median(seconds[1:]), "s", 0.1)


def idle_cpu(rig: Rig, contender: Contender) -> Cost:
    """CPU seconds per wall second over 10 s without messages; then it must handle 100."""
    stream = "idle"
    rig.wire.call("DEL", stream)
    job = replace(rig.job(contender, stream, 100), idle_seconds=IDLE_SECONDS)
    measured = run_consumer(job, rig.wire)
    return Cost("idle-cpu", contender.name, measured.idle_cpu * 100, "%", 2.0)


def memory(rig: Rig, contender: Contender) -> list[Cost]:
    """Resident megabytes after 100,000, 500,000 and 1,000,000 entries of one backlog."""
    stream, entries = f"memory-{contender.frame}", MEMORY_MARKS[-1]
    fill(rig.wire, stream, entries, contender.frame)
    job = replace(rig.job(contender, stream, entries), marks=MEMORY_MARKS)
    measured = run_consumer(job, rig.wire)
    return [
        Cost(f"rss-after-{mark}", contender.name, megabytes, "MB")
        for mark, megabytes in sorted(measured.rss_at.items())
    ]


def contender(family: str) -> Contender:
    """The first contender of a family on the stream path."""
    return next(each for each in CONSUME.contenders if each.family == family)
