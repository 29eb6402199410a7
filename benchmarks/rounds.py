"""Interleaved rounds: every contender once, each in its own process, then all of them again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path as File
from statistics import median
from typing import cast

import msgspec

from benchmarks.common import FIRST_ID, Job, Measurement, Order, sum_of_ids
from benchmarks.paths import Contender, Path, Size
from benchmarks.server import HOST, entry_fields, fill
from benchmarks.wire import Argument, Wire

ROOT = File(__file__).resolve().parent.parent
CHILD_SECONDS = 60.0
"""No run of one contender may take longer; its process is ended then."""


class RunError(Exception):
    """A contender's process failed, or what it did is not what was asked."""


@dataclass(frozen=True)
class Rig:
    """The server of this run, a connection to it, and the event loop the contenders get."""

    port: int
    wire: Wire
    loop: str

    def job(self, contender: Contender, stream: str, entries: int) -> Job:
        return Job(
            target=contender.target,
            host=HOST,
            port=self.port,
            stream=stream,
            group="bench",
            entries=entries,
            loop=self.loop,
        )


@dataclass
class Series:
    """One contender's runs of one path."""

    contender: Contender
    entries: int
    runs: list[Measurement] = field(default_factory=list[Measurement])
    failure: str = ""

    @property
    def rates(self) -> list[float]:
        """Messages per second, slowest first."""
        return sorted(run.handled / run.seconds for run in self.runs)

    @property
    def rate(self) -> float:
        return median(self.rates)

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU per message of the contender's process."""
        return median(run.cpu_seconds / run.handled * 1e6 for run in self.runs)

    @property
    def rss_mb(self) -> float:
        """Peak memory of the contender's process."""
        return median(run.rss_mb for run in self.runs)


def run_path(rig: Rig, path: Path, size: Size, only: Sequence[str] = ()) -> list[Series]:
    """Runs every contender that is installed; one that fails is not tried again."""
    series = [
        Series(contender, size.entries(path, contender))
        for contender in path.contenders
        if not only or contender.family in only
    ]
    for one in series:
        if one.contender.missing:
            one.failure = f"not installed: {', '.join(one.contender.missing)}"
    for number in range(1, size.rounds + 1):
        for one in series:
            if one.failure:
                continue
            try:
                one.runs.append(run_once(rig, path, one))
            except RunError as failed:
                one.failure = str(failed)
                one.runs.clear()
            else:
                rate = one.runs[-1].handled / one.runs[-1].seconds
                progress = f"{path.name} {number}/{size.rounds} {one.contender.name}"
                print(f"{progress}: {rate:,.0f}/s", file=sys.stderr, flush=True)
    return series


def run_once(rig: Rig, path: Path, one: Series) -> Measurement:
    """One run, checked against the server afterwards."""
    contender, wire = one.contender, rig.wire
    stream = f"{path.name}-{contender.frame}-{one.entries}"
    job = replace(rig.job(contender, stream, one.entries), concurrent=path.concurrent)
    if path.loop:
        job = replace(job, loop=path.loop)
    if path.kind == "local":
        return run_local(job)
    if path.kind == "consume":
        fill(wire, stream, one.entries, contender.frame)
        return run_consumer(job, wire, retried=path.retried)
    wire.call("DEL", stream)
    measured = run_job(job)
    _expect("entries in the stream", wire.call("XLEN", stream), one.entries)
    if contender.frame == "fields":
        entries = cast(
            "list[tuple[bytes, list[bytes]]]", wire.call("XRANGE", stream, "-", "+", "COUNT", 1)
        )
        fields = entries[0][1]
        # With 100 in flight, any of the orders may have come first.
        number = msgspec.json.decode(fields[fields.index(b"_payload") + 1], type=Order).id
        wanted = sorted(map(_bytes, entry_fields(number - FIRST_ID)))
        _expect("the first entry", sorted(fields), wanted)
    wire.call("DEL", stream)
    return measured


def run_local(job: Job) -> Measurement:
    """Runs a job that has no server; checks that each order was handled once."""
    measured = run_job(replace(job, port=0))
    _expect("handled", measured.handled, job.entries)
    _expect("sum of ids", measured.ids, sum_of_ids(job.entries))
    return measured


def run_consumer(job: Job, wire: Wire, *, retried: bool = False) -> Measurement:
    """Creates the group, runs the job, checks that each entry was handled and acknowledged once
    (and failed once before, where it is `retried`)."""
    wire.call("XGROUP", "CREATE", job.stream, job.group, "0", "MKSTREAM")
    try:
        measured = run_job(job)
        _expect("handled", measured.handled, job.entries)
        _expect("sum of ids", measured.ids, sum_of_ids(job.entries))
        _expect("failed", measured.failed, job.entries if retried else 0)
        _expect("pending", wire.pending(job.stream, job.group), 0)
        unread = ("XREADGROUP", "GROUP", job.group, "check", "COUNT", 1, "STREAMS", job.stream)
        _expect("unread", wire.call(*unread, ">"), None)
        if retried and "-fields-" in job.stream:
            _expect("entries in the stream", wire.call("XLEN", job.stream), job.entries)
    finally:
        wire.call("XGROUP", "DESTROY", job.stream, job.group)
    return measured


def run_job(job: Job) -> Measurement:
    """The job in a child process; raises `RunError` with the last lines it wrote."""
    command = [sys.executable, "-m", "benchmarks.child", msgspec.json.encode(asdict(job)).decode()]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, timeout=CHILD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"not done after {CHILD_SECONDS:.0f} s") from None
    if ended.returncode:
        last = ended.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise RunError(f"exit status {ended.returncode}: {' | '.join(last)}")
    return msgspec.json.decode(ended.stdout.splitlines()[-1], type=Measurement)


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise RunError(f"{what}: {found!r}, not {wanted!r}")


def _bytes(argument: Argument) -> bytes:
    return argument if isinstance(argument, bytes) else str(argument).encode()
