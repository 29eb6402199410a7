"""When a silent link is given up, by the second."""

from __future__ import annotations

import asyncio

import pytest

from surestream.redis.watch import Watch
from surestream.testing import paused_clock


class Line:
    """The watched end: what the watch sees and what it does."""

    def __init__(self, *, ping_every: float | None = 10.0, ping_timeout: float = 5.0) -> None:
        self.heard = 0
        self.pings = 0
        self.lost: list[tuple[float, str]] = []
        self.answers_pings = True
        loop = asyncio.get_running_loop()
        begun = loop.time()

        def ping() -> None:
            self.pings += 1
            self.heard += self.answers_pings

        self.watch = Watch(
            loop,
            heard=lambda: self.heard,
            ping=ping,
            lose=lambda reason: self.lost.append((loop.time() - begun, reason)),
            ping_every=ping_every,
            ping_timeout=ping_timeout,
        )


@pytest.mark.case("RC-08")
async def test_a_quiet_line_is_asked_now_and_then_and_kept() -> None:
    with paused_clock() as clock:
        line = Line()
        line.watch.start()

        await clock.advance(100)

        assert line.lost == []
        assert 5 <= line.pings <= 10
        line.watch.stop()


@pytest.mark.case("RC-08")
async def test_a_silent_line_is_lost_within_two_pauses_and_a_timeout() -> None:
    with paused_clock() as clock:
        line = Line()
        line.answers_pings = False
        line.watch.start()
        await clock.advance(9.9)
        line.heard += 1  # the last sign of life, just before the first look

        await clock.advance(100)

        assert [round(when, 1) for when, _ in line.lost] == [25.0]
        assert "no sign of life for 15 s" in line.lost[0][1]
        assert line.pings == 1


async def test_a_busy_line_is_never_asked() -> None:
    with paused_clock() as clock:
        line = Line()
        line.watch.start()

        for _ in range(20):
            line.heard += 1
            await clock.advance(9)

        assert line.pings == 0
        assert line.lost == []
        line.watch.stop()


async def test_without_pings_only_deadlines_count() -> None:
    with paused_clock() as clock:
        line = Line(ping_every=None)
        line.watch.start()
        await clock.advance(1000)
        assert line.lost == []

        line.watch.due(6, number=1)
        await clock.advance(1000)

        assert [round(when) for when, _ in line.lost] == [1006]
        assert line.pings == 0


async def test_a_reply_in_time_meets_its_deadline() -> None:
    with paused_clock() as clock:
        line = Line(ping_every=None)
        for number in range(1, 50):
            line.watch.due(6, number=number)
            await clock.advance(5)
            line.heard += 1

        await clock.advance(100)

        assert line.lost == []


async def test_the_soonest_deadline_counts() -> None:
    with paused_clock() as clock:
        line = Line(ping_every=None)
        line.watch.due(60, number=1)
        line.watch.due(3, number=2)

        await clock.advance(100)

        assert [round(when) for when, _ in line.lost] == [3]


async def test_no_ping_while_a_deadline_is_outstanding_and_pings_again_after_it() -> None:
    with paused_clock() as clock:
        line = Line()
        line.answers_pings = False
        line.watch.start()
        line.watch.due(35, number=1)
        await clock.advance(34)
        assert line.pings == 0

        line.heard += 1
        await clock.advance(100)

        assert line.pings == 1
        assert len(line.lost) == 1


async def test_a_stopped_watch_does_nothing() -> None:
    with paused_clock() as clock:
        line = Line()
        line.answers_pings = False
        line.watch.start()
        line.watch.due(1, number=1)

        line.watch.stop()
        line.watch.due(1, number=2)
        await clock.advance(100)

        assert line.lost == []
        assert line.pings == 0
