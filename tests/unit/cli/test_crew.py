"""When a worker is started again, and when that is no use (``--workers N``)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from surestream.cli.crew import FIRST_PAUSE, LONGEST_PAUSE, Crew, pause_after
from surestream.cli.launch import Launch
from surestream.testing import paused_clock
from surestream.testing.clock import PausedClock
from tests.unit.cli.processes import Spawner

LAUNCH = Launch(target="service:app", workers=3)


class Running:
    """A crew of three on a paused clock."""

    def __init__(self, clock: PausedClock, *, stops: bool = True) -> None:
        self.clock = clock
        self.spawner = Spawner(stops=stops)
        self.crew = Crew(LAUNCH, chance=random.Random(1), spawn=cast("Any", self.spawner))
        self.task = asyncio.create_task(self.crew.run())

    @property
    def started(self) -> list[Any]:
        return list(self.spawner.started)

    async def settle(self) -> None:
        await self.clock.settle()

    async def all_up(self) -> None:
        await self.settle()
        self.started[0].come_up()
        await self.settle()
        for process in self.started[1:]:
            process.come_up()
        await self.settle()

    async def status(self) -> int:
        await self.settle()
        assert self.task.done()
        return self.task.result()


@asynccontextmanager
async def running(*, stops: bool = True) -> AsyncIterator[Running]:
    with paused_clock() as clock:
        crew = Running(clock, stops=stops)
        yield crew
        crew.task.cancel()
        await asyncio.wait({crew.task})


class TestStart:
    async def test_first_worker_starts_alone_and_introduces_the_service(self) -> None:
        async with running() as it:
            await it.settle()
            assert it.spawner.numbers == [1]

            it.started[0].come_up()
            await it.settle()

            assert it.spawner.numbers == [1, 2, 3]
            assert [process.launch.introduces for process in it.started] == [True, False, False]

    @pytest.mark.case("CV-02")
    @pytest.mark.parametrize("status", [0, 1, 2, 5, 139])
    async def test_first_one_that_does_not_come_up_ends_the_crew(self, status: int) -> None:
        async with running() as it:
            await it.settle()

            it.started[0].die(status)

            assert await it.status() == status
            assert it.spawner.numbers == [1]

    async def test_another_one_that_is_refused_ends_the_crew(self) -> None:
        async with running() as it:
            await it.settle()
            it.started[0].come_up()
            await it.settle()

            it.started[1].die(2)

            assert await it.status() == 2
            assert it.started[0].asked == it.started[2].asked == 1

    async def test_another_one_that_fails_is_tried_again(self) -> None:
        async with running() as it:
            await it.settle()
            it.started[0].come_up()
            await it.settle()

            it.started[1].die(1)
            await it.clock.advance(1)

            assert it.spawner.numbers == [1, 2, 3, 2]

    async def test_no_process_to_be_had_is_a_failure(self) -> None:
        async with running() as it:
            it.spawner.refuses = True

            assert await it.status() == 1


@pytest.mark.case("CV-04")
class TestDeath:
    async def test_of_a_worker_that_lived_is_made_good_at_once(self) -> None:
        async with running() as it:
            await it.all_up()
            await it.clock.advance(10)

            it.started[1].die(139)
            await it.settle()

            assert it.spawner.numbers == [1, 2, 3, 2]
            assert not it.started[3].launch.introduces

    async def test_of_a_worker_that_dies_at_once_is_made_good_after_a_growing_pause(self) -> None:
        async with running() as it:
            await it.all_up()
            for _ in range(4):
                it.started[-1].die(1)
                await it.clock.advance(0.3)
                started = len(it.started)
                await it.clock.advance(6)
                assert len(it.started) == started + 1
                it.started[-1].come_up()
                await it.settle()

            assert it.spawner.numbers == [1, 2, 3, 3, 3, 3, 3]

    async def test_is_told_with_its_cause(self, caplog: pytest.LogCaptureFixture) -> None:
        async with running() as it:
            await it.all_up()
            await it.clock.advance(60)

            it.started[1].die(139)
            await it.settle()

        assert "worker 2 (process 101) was killed by SIGSEGV: the next one starts now" in (
            caplog.messages
        )

    async def test_of_all_that_do_not_come_up_again_ends_the_crew(self) -> None:
        async with running() as it:
            await it.all_up()
            for process in it.started:
                process.die(139)
            for number in range(3, 6):
                await it.clock.advance(1)
                assert not it.task.done()
                it.started[number].die(1)

            assert await it.status() == 1

    async def test_of_one_that_does_not_come_up_again_leaves_the_others(self) -> None:
        async with running() as it:
            await it.all_up()
            it.started[2].die(1)
            for _ in range(9):
                await it.clock.advance(40)
                it.started[-1].die(2)

            await it.clock.advance(40)

            assert not it.task.done()
            assert it.started[0].asked == it.started[1].asked == 0

    async def test_of_all_at_once_again_and_again_ends_the_crew(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with running() as it:
            await it.all_up()
            for _ in range(4):
                for process in it.started[-3:]:
                    process.die(1)
                await it.clock.advance(10)
                for process in it.started[-3:]:
                    process.come_up()
                await it.settle()
            for process in it.started[-3:]:
                process.die(1)

            assert await it.status() == 1
            assert len(it.started) == 15
        assert caplog.records[-1].levelno == logging.CRITICAL
        assert caplog.messages[-1].endswith(
            "ended with status 1, and no worker lasts any more: stopping"
        )


@pytest.mark.rule("7.3")
class TestStop:
    async def test_asks_all_of_them(self) -> None:
        async with running() as it:
            await it.all_up()

            it.crew.stop()

            assert await it.status() == 0
            assert [process.asked for process in it.started] == [1, 1, 1]
            assert len(it.started) == 3

    async def test_status_is_the_worst_of_them(self) -> None:
        async with running(stops=False) as it:
            await it.all_up()
            it.crew.stop()

            for process, status in zip(it.started, (0, 143, 1), strict=True):
                process.die(status)

            assert await it.status() == 143

    async def test_while_the_first_one_starts_starts_no_other(self) -> None:
        async with running() as it:
            await it.settle()

            it.crew.stop()

            assert await it.status() == 0
            assert it.spawner.numbers == [1]

    async def test_before_the_first_one_has_started_asks_it_once_it_has(self) -> None:
        async with running() as it:
            it.crew.stop()

            assert await it.status() == 0
            assert len(it.started) <= 1

    async def test_while_a_dead_one_waits_for_its_successor_is_clean(self) -> None:
        async with running() as it:
            await it.all_up()
            it.started[1].die(139)
            await it.settle()

            it.crew.stop()

            assert await it.status() == 0
            assert len(it.started) == 3

    @pytest.mark.case("SD-04")
    async def test_second_one_ends_those_that_still_live(self) -> None:
        async with running(stops=False) as it:
            await it.all_up()
            it.crew.stop()
            it.started[0].die(0)
            await it.settle()

            it.crew.end_now()

            assert [process.ended_now for process in it.started] == [0, 1, 1]


class TestPause:
    def test_is_none_after_a_process_that_lived(self) -> None:
        assert pause_after(0, random.Random(1)) == 0

    def test_doubles_up_to_a_limit(self) -> None:
        chance = random.Random(1)
        pauses = [pause_after(short, chance) for short in range(1, 100)]

        for short, pause in enumerate(pauses):
            middle = min(FIRST_PAUSE * 2.0**short, LONGEST_PAUSE)
            assert 0.8 * middle <= pause <= 1.2 * middle
        assert len(set(pauses)) == len(pauses)
