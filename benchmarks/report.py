"""The table on standard output, and the files under `results/`."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path as File

import msgspec

from benchmarks.costs import Cost
from benchmarks.paths import Path
from benchmarks.rounds import Series

RESULTS = File(__file__).resolve().parent / "results"
PACKAGES = (
    "surestream",
    "redis",
    "hiredis",
    "msgspec",
    "uvloop",
    "fakeredis",
    "faststream",
    "taskiq",
    "taskiq-redis",
    "pydantic",
)
KNOWN = ("ours", "by_hand", "bare", "faststream")


@dataclass
class Row:
    """One path in `latest.json`: messages per second, medians; `None` where nobody ran."""

    path: str
    ours: int | None
    by_hand: int | None
    bare: int | None
    faststream: int | None
    peers: dict[str, int]
    cpu_us: float | None
    rss_mb: float | None
    rounds: int
    contenders: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    machine: dict[str, str | int] = field(default_factory=dict[str, str | int])


def versions(server: str, loop: str) -> dict[str, str]:
    """Server, event loop and packages; what is not installed is left out."""
    found = {"server": server, "loop": loop}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int]:
    return {
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def best(series: Iterable[Series]) -> dict[str, Series]:
    """The fastest contender of each family that ran."""
    fastest: dict[str, Series] = {}
    for one in series:
        family = one.contender.family
        if one.runs and (family not in fastest or one.rate > fastest[family].rate):
            fastest[family] = one
    return fastest


def row(path: Path, series: Sequence[Series], rounds: int, used: dict[str, str]) -> Row:
    fastest = best(series)
    rates = {family: round(one.rate) for family, one in fastest.items()}
    ours = fastest.get("ours")
    return Row(
        path=path.name,
        ours=rates.get("ours"),
        by_hand=rates.get("by_hand"),
        bare=rates.get("bare"),
        faststream=rates.get("faststream"),
        peers={family: rate for family, rate in rates.items() if family not in KNOWN},
        cpu_us=round(ours.cpu_us, 3) if ours else None,
        rss_mb=round(ours.rss_mb, 1) if ours else None,
        rounds=rounds,
        contenders={one.contender.name: _details(one) for one in series if one.runs},
        versions=used,
        machine=machine(),
    )


def _details(one: Series) -> dict[str, float]:
    return {
        "median": round(one.rate),
        "low": round(one.rates[0]),
        "high": round(one.rates[-1]),
        "cpu_us": round(one.cpu_us, 3),
        "rss_mb": round(one.rss_mb, 1),
        "entries": one.entries,
    }


def table(path: Path, series: Sequence[Series], rounds: int) -> str:
    fastest = best(series)
    lines = [
        f"\n{path.name}, {rounds} interleaved rounds",
        f"{'contender':<22}{'msg/s':>10}{'low – high':>22}{'cpu µs':>9}{'rss MB':>8}"
        f"{'× by_hand':>11}{'× faststream':>14}",
    ]
    for one in series:
        if not one.runs:
            lines.append(f"{one.contender.name:<22}{'–':>10}  {one.failure}")
            continue
        spread = f"{one.rates[0]:,.0f} – {one.rates[-1]:,.0f}"
        lines.append(
            f"{one.contender.name:<22}{one.rate:>10,.0f}{spread:>22}{one.cpu_us:>9.2f}"
            f"{one.rss_mb:>8.1f}{_ratio(one, fastest.get('by_hand')):>11}"
            f"{_ratio(one, fastest.get('faststream')):>14}"
        )
    for family, wanted in path.wanted.items():
        if "ours" in fastest and family in fastest:
            ratio = fastest["ours"].rate / fastest[family].rate
            verdict = "reached" if ratio >= wanted else "MISSED"
            lines.append(f"ours / {family}: {ratio:.2f}, wanted {wanted:g}: {verdict}")
    if path.wanted_rate and "ours" in fastest:
        rate = fastest["ours"].rate
        verdict = "reached" if rate >= path.wanted_rate else "MISSED"
        lines.append(f"ours: {rate:,.0f}/s, wanted {path.wanted_rate:,.0f}: {verdict}")
    return "\n".join(lines)


def _ratio(one: Series, to: Series | None) -> str:
    return f"{one.rate / to.rate:.2f}" if to else "–"


def cost_table(costs: Iterable[Cost]) -> str:
    lines = [""]
    for cost in costs:
        limit = f"  (wanted below {cost.wanted_below:g})" if cost.wanted_below else ""
        lines.append(f"{cost.path:<22}{cost.contender:<12}{cost.value:>10.3f} {cost.unit}{limit}")
    return "\n".join(lines)


def write_rows(rows: Sequence[Row]) -> None:
    _write("latest.json", [asdict(each) for each in rows])


def write_costs(costs: Sequence[Cost]) -> None:
    """Replaces the figures of the same name and contender, keeps the others."""
    file = RESULTS / "costs.json"
    kept = msgspec.json.decode(file.read_bytes(), type=list[Cost]) if file.exists() else []
    measured = {(cost.path, cost.contender) for cost in costs}
    merged = [cost for cost in kept if (cost.path, cost.contender) not in measured] + list(costs)
    _write("costs.json", [asdict(cost) for cost in merged])


def _write(name: str, content: object) -> None:
    RESULTS.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(content), indent=2)
    (RESULTS / name).write_bytes(text + b"\n")
