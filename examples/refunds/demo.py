"""``make demo``: the refunds service, without a server, and what becomes of six refunds.

The app is the one of ``service.py``. :class:`~surestream.testing.TestApp` runs it over an
in-process Redis, and time passes only when this program says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import msgspec
from rich import box
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from examples.refunds.service import BACKOFF, Refund, app
from surestream import RETRY_COUNT_HEADER
from surestream.clock import wall_time
from surestream.testing import Call, Event, Settlement, TestApp

REFUNDS: Final = [
    Refund(1, "4000 1234", 1250),
    Refund(2, "busy-once", 4900),
    Refund(3, "busy", 8000),
    Refund(4, "down", 500),
    Refund(5, "closed", 3300),
]
BROKEN: Final = b'{"id": 6, "card": "4000 5678", "amount_cents": "a lot"}'

WAIT: Final = f"{BACKOFF.total_seconds():g} s"
WORDS: Final = {
    "ack": "paid",
    "copy": "again at once: a copy in the stream",
    "parked": f"parked in refunds.delayed for {WAIT}",
    "dead letter": "no try left: dead letter in refunds.dlq",
    "drop": "declined: dropped, and never a dead letter",
    "quarantine": "not a refund: kept in refunds.undecodable",
    "review": "the reviewer calls a person: tried {} times",
}
SIGNS: Final = {
    "ack": ("✓", "+", "green"),
    "copy": ("↻", "~", "yellow"),
    "parked": ("◷", "z", "cyan"),
    "dead letter": ("✗", "x", "red"),
    "drop": ("∅", "-", "bright_black"),
    "quarantine": ("?", "?", "magenta"),
    "review": ("!", "!", "red"),
}
"""For each step: a sign, the same where the terminal has only ASCII, a color."""
ENDS: Final = {
    "ack": "paid",
    "dead letter": "dead letter",
    "drop": "dropped",
    "quarantine": "quarantined",
}
NEXT: Final = {
    "examples/refunds/service.py": "the whole service",
    "examples/refunds/tests/test_service.py": "its tests, as quick as this",
    "examples/refunds/README.md": "the same on a real Redis",
}


class Known(msgspec.Struct):
    """As much of a refund as the broken one has too."""

    id: int
    card: str


@dataclass(frozen=True)
class Step:
    """What happened to one refund, and when."""

    at: float
    refund: Known
    attempt: str
    decided: str
    how: str
    words: str


async def run_service() -> list[Step]:
    """Publish six refunds, let time pass until nothing waits, and return what happened."""
    async with TestApp(app) as tb:
        for refund in REFUNDS:
            await tb.publish("refunds", refund)
        await tb.publish("refunds", BROKEN)
        while tb.parked():
            await tb.advance(BACKOFF)
        return [step for event in tb.events() if (step := _step(event))]


def _step(event: Event) -> Step | None:
    """A line of the story: each delivery by its end, and the calls of the reviewer."""
    match event:
        case Settlement(handler="process_refund") as done:
            decided = "" if done.outcome is None else repr(done.outcome)
            attempt, how, words = f"{done.attempt}/5", done.how, WORDS[done.how]
        case Call(handler="review"):
            decided, attempt, how = "", "", "review"
            words = WORDS[how].format(event.headers[RETRY_COUNT_HEADER])
        case _:
            return None
    return Step(event.at, _known(event.payload), attempt, decided, how, words)


def _known(payload: bytes) -> Known:
    return msgspec.json.decode(payload, type=Known)


def show(console: Console, steps: list[Step], took: float) -> None:
    """The story by seconds, then what became of each refund."""
    wide = console.width >= 76
    console.print(
        "[bold]The refunds service, without a server.[/] Handlers and runtime are those of "
        "production; Redis is inside this process, and its clock moves when we say so.\n\n"
        "Six refunds are published. Each line: refund, card, attempt"
        f"{', what the handler decided' if wide else ''}, what that led to.\n"
    )
    for at, moment in groupby(steps, key=lambda step: step.at):
        console.print(Rule(f"[bold]second {at:g}[/]", align="left", style="bright_black"))
        console.print(_moment(console, moment, wide=wide))
    console.print()
    console.print(_summary(steps, wide=wide))
    seconds = max(step.at for step in steps)
    console.print(f"\n[bold]{_span(seconds)} of service time in {took:.1f} s.[/]\n")
    console.print("Where to look next:")
    for path, words in NEXT.items():
        console.print(f"  [cyan]{path:38}[/]" + (f"  {words}" if wide else f"\n    {words}"))


def _moment(console: Console, steps: Iterator[Step], *, wide: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for width in (1, 9, 3, 15) if wide else (1, 9, 3):
        table.add_column(no_wrap=True, min_width=width)
    table.add_column()
    for step in steps:
        sign, plain, color = SIGNS[step.how]
        words = Text(f"{plain if console.options.ascii_only else sign} {step.words}", style=color)
        row: list[str | Text] = [
            str(step.refund.id),
            step.refund.card,
            step.attempt,
            step.decided,
            words,
        ]
        if not wide:
            del row[3]
        table.add_row(*row)
    return table


def _summary(steps: list[Step], *, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("refund" if wide else "", justify="right")
    table.add_column("card", no_wrap=True)
    table.add_column("deliveries" if wide else "#", justify="right")
    table.add_column("end", no_wrap=True)
    table.add_column("after", justify="right", no_wrap=True)
    tries = [step for step in steps if step.how != "review"]
    for number in sorted({step.refund.id for step in tries}):
        own = [step for step in tries if step.refund.id == number]
        last = own[-1]
        end = Text(ENDS[last.how], style=SIGNS[last.how][2])
        table.add_row(str(number), last.refund.card, str(len(own)), end, f"{last.at:g} s")
    return table


def _span(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"


def main() -> None:
    """Run the service, then show what happened."""
    # What the service logs is part of the story below.
    logging.getLogger().addHandler(logging.NullHandler())
    began = wall_time()
    steps = asyncio.run(run_service())
    show(Console(highlight=False), steps, wall_time() - began)


if __name__ == "__main__":
    main()
