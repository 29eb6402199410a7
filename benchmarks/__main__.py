"""The rig's one command: `python -m benchmarks [--quick | --full | --memory]`."""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks import costs, report
from benchmarks.costs import Cost
from benchmarks.paths import FULL, PATHS, QUICK, QUICK_PATHS, STANDARD
from benchmarks.rounds import Rig, RunError, run_path
from benchmarks.server import HOST, running_server, server_version
from benchmarks.wire import Wire


class Arguments(argparse.Namespace):
    quick: bool
    full: bool
    memory: bool
    rounds: int
    only: list[str]
    paths: list[str]
    loop: str


def parse(arguments: Sequence[str]) -> Arguments:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    amount = parser.add_mutually_exclusive_group()
    quick = "under two minutes: consuming and publishing"
    amount.add_argument("--quick", action="store_true", help=quick)
    amount.add_argument("--full", action="store_true", help="more rounds")
    amount.add_argument("--memory", action="store_true", help="only memory, over 1,000,000 entries")
    parser.add_argument("--rounds", type=int, default=0, help="instead of the size's own number")
    parser.add_argument("--only", default="", help="families, e.g. bare,by_hand; writes no file")
    parser.add_argument("--paths", default="", help="paths, e.g. harness; writes no file")
    loops = ("uvloop", "asyncio")
    installed = importlib.util.find_spec("uvloop") is not None
    parser.add_argument("--loop", choices=loops, default=loops[0] if installed else loops[1])
    parsed = parser.parse_args(arguments, Arguments())
    parsed.only = [family for family in str(parsed.only).split(",") if family]
    parsed.paths = [name for name in str(parsed.paths).split(",") if name]
    if unknown := set(parsed.paths) - {path.name for path in PATHS}:
        parser.error(f"no path {', '.join(unknown)}: {', '.join(path.name for path in PATHS)}")
    return parsed


def main(arguments: Sequence[str]) -> int:
    """0: everyone ran; 1: a contender that is installed failed."""
    chosen = parse(arguments)
    # So that the server is ended too.
    signal.signal(signal.SIGTERM, _terminated)
    with running_server() as port:
        wire = Wire(HOST, port)
        try:
            rig = Rig(port, wire, chosen.loop)
            return measure_memory(rig, chosen) if chosen.memory else compare(rig, chosen)
        finally:
            wire.close()


def _terminated(number: int, _: object) -> None:
    sys.exit(128 + number)


def compare(rig: Rig, chosen: Arguments) -> int:
    size = QUICK if chosen.quick else FULL if chosen.full else STANDARD
    paths = QUICK_PATHS if chosen.quick else PATHS
    if chosen.paths:
        paths = tuple(path for path in PATHS if path.name in chosen.paths)
    if chosen.rounds:
        size = replace(size, rounds=chosen.rounds)
    used = report.versions(server_version(rig.wire), rig.loop)
    rows: list[report.Row] = []
    failed = False
    for path in paths:
        series = run_path(rig, path, size, chosen.only)
        print(report.table(path, series, size.rounds), flush=True)
        rows.append(report.row(path, series, size.rounds, used))
        failed |= any(one.failure and not one.contender.missing for one in series)
    if not (chosen.only or chosen.paths):
        report.write_rows(rows)
        failed |= not measure_costs(rig)
    return int(failed)


def measure_costs(rig: Rig) -> bool:
    """Import time and idle CPU of ours; answers whether that worked."""
    ours = costs.contender("ours")
    if ours.missing:
        return True
    measured: list[Cost] = []
    for measure in (costs.import_time, lambda: costs.idle_cpu(rig, ours)):
        try:
            measured.append(measure())
        except RunError as failed:
            print(f"ours: {failed}", file=sys.stderr)
    print(report.cost_table(measured))
    report.write_costs(measured)
    return len(measured) == 2


def measure_memory(rig: Rig, chosen: Arguments) -> int:
    measured: list[Cost] = []
    for family in chosen.only or ["ours"]:
        try:
            measured += costs.memory(rig, costs.contender(family))
        except RunError as failed:
            print(f"{family}: {failed}", file=sys.stderr)
            return 1
    print(report.cost_table(measured))
    if not chosen.only:
        report.write_costs(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
