"""When a claiming subscription looks again (rules 6.2 and 6.3)."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest

from surestream.redis.looks import ClaimingLook, OrphanLook
from surestream.redis.pending import PAGE, PendingList
from surestream.redis.scripted import PendingRow
from surestream.redis.seat import WAITING


class Highest(random.Random):
    """No spread: every wait as long as it may be."""

    def random(self) -> float:
        return 0.0


class Rows:
    """A pending list that is told what to answer."""

    def __init__(self, *rows: PendingRow) -> None:
        self.rows = list(rows)
        self.asked: list[int] = []
        """The idle times that pages were asked for."""

    async def page(self, *, idle_ms: int = 0, size: int = PAGE) -> list[PendingRow]:
        self.asked.append(idle_ms)
        return [row for row in self.rows if row[2] >= idle_ms][:size]

    async def pages(self, after: bytes, *, idle_ms: int = 0) -> Any:
        self.asked.append(idle_ms)
        rows = [row for row in self.rows if row[0] > after and row[2] >= idle_ms]
        for start in range(0, len(rows), PAGE):
            yield rows[start : start + PAGE]


def row(number: int, idle: int, consumer: bytes = WAITING, count: int = 1) -> PendingRow:
    return b"%09d-0" % number, consumer, idle, count


async def look(rows: Rows, min_idle: float) -> tuple[ClaimingLook, list[bytes]]:
    """One look, nothing of it in hand."""
    loop = asyncio.get_running_loop()
    loop.time = lambda: 1000.0  # type: ignore[method-assign]
    looking = ClaimingLook(cast("PendingList", rows), Highest(), min_idle)
    found = await looking.candidates(lambda rows: rows)
    return looking, [entry for entry, _ in found]


async def test_what_is_idle_for_long_enough_is_found() -> None:
    rows = Rows(row(1, 29_999), row(2, 30_000), row(3, 10**12))

    looking, found = await look(rows, 30)

    assert found == [rows.rows[1][0], rows.rows[2][0]]
    assert looking.idle_ms == 30_000


@pytest.mark.case("CK-09")
@pytest.mark.parametrize(
    ("min_idle", "idle_ms"), [(1.5, 1500), (0.0004, 1), (0.0011, 2), (2, 2000)]
)
async def test_spans_are_rounded_up_to_whole_milliseconds(min_idle: float, idle_ms: int) -> None:
    looking, _ = await look(Rows(), min_idle)

    assert looking.idle_ms == idle_ms


async def test_the_next_look_is_when_the_next_one_is_due() -> None:
    looking, _ = await look(Rows(row(1, 12_000), row(2, 28_500), row(3, 31_000)), 30)

    assert looking.wait() == pytest.approx(1.5)


async def test_one_that_is_due_in_this_millisecond_is_looked_for_in_the_next_again() -> None:
    """The server may know better: it counts whole milliseconds."""
    looking, found = await look(Rows(row(1, 30_000)), 30)

    assert len(found) == 1
    assert looking.wait() == pytest.approx(0.001)


async def test_nothing_that_comes_after_the_look_can_be_due_before_the_next() -> None:
    looking, _ = await look(Rows(), 2)

    assert looking.wait() == pytest.approx(2)


@pytest.mark.case("HL-02")
async def test_for_as_long_as_nothing_happens_it_looks_once_a_second_at_most() -> None:
    looking, _ = await look(Rows(), 0.2)

    assert looking.wait() == pytest.approx(1)


async def test_where_something_is_in_hand_it_looks_as_often_as_that_may_come_back() -> None:
    rows = Rows(row(1, 10, b"me"))
    looking = ClaimingLook(cast("PendingList", rows), Highest(), 0.2)
    await looking.candidates(lambda rows: [])

    assert looking.wait() == pytest.approx(0.2, abs=0.05)


async def test_after_something_was_handed_out_too() -> None:
    looking = ClaimingLook(cast("PendingList", Rows()), Highest(), 0.2)
    looking.stirred()
    await looking.candidates(lambda rows: rows)

    assert looking.wait() == pytest.approx(0.2, abs=0.05)


async def test_it_looks_every_5_seconds_however_long_min_idle_is() -> None:
    """What a stopped process handed back is anybody's at once."""
    looking, _ = await look(Rows(), 86_400)

    assert looking.wait() == pytest.approx(5)


async def test_what_a_worker_seems_to_hold_does_not_make_it_spin() -> None:
    looking, _ = await look(Rows(row(1, 49, b"other")), 0.05)

    assert looking.wait() == pytest.approx(0.05)


async def test_a_list_that_is_very_long_hides_nothing() -> None:
    busy = [row(number, 0, b"other") for number in range(1_500)]
    rows = Rows(*busy, row(1_501, 400))

    _, found = await look(rows, 0.3)

    assert found == [b"000001501-0"]
    assert rows.asked[-1] == 300


async def test_orphans_are_looked_for_every_third_of_the_lease_and_every_5_seconds() -> None:
    rows = cast("PendingList", Rows())

    assert OrphanLook(rows, Highest(), lambda: 60).wait() == 5
    assert OrphanLook(rows, Highest(), lambda: 3).wait() == 1
    assert OrphanLook(rows, Highest(), lambda: None).wait() is None
    assert await OrphanLook(rows, Highest(), lambda: None).candidates(lambda rows: rows) == []
