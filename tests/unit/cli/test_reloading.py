"""When the one process is started anew (``--reload``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from surestream.cli.launch import Launch
from surestream.cli.reloading import Reloading
from surestream.testing import paused_clock
from surestream.testing.clock import PausedClock
from tests.unit.cli.processes import Spawner


class Running:
    def __init__(self, clock: PausedClock, *, stops: bool) -> None:
        self.clock = clock
        self.spawner = Spawner(stops=stops)
        self.changes: asyncio.Queue[list[str]] = asyncio.Queue()
        self.reloading = Reloading(
            Launch(target="service:app"),
            [Path("/project")],
            self._changes(),
            spawn=cast("Any", self.spawner),
        )
        self.task = asyncio.create_task(self.reloading.run())

    async def _changes(self) -> AsyncGenerator[list[str], None]:
        while names := await self.changes.get():
            yield names
        raise OSError("too many watches")

    @property
    def started(self) -> list[Any]:
        return list(self.spawner.started)

    async def change(self, *names: str) -> None:
        self.changes.put_nowait(list(names))
        await self.clock.settle()


@asynccontextmanager
async def running(*, stops: bool = True) -> AsyncIterator[Running]:
    with paused_clock() as clock:
        it = Running(clock, stops=stops)
        await clock.settle()
        yield it
        it.task.cancel()
        await asyncio.wait({it.task})


async def test_change_stops_the_old_process_before_a_new_one_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with running(stops=False) as it:
        it.started[0].come_up()
        await it.change("service.py")
        assert it.started[0].asked == 1
        assert len(it.started) == 1

        it.started[0].die(0)
        await it.clock.settle()

        assert len(it.started) == 2
    assert "service.py changed: stopping the service" in caplog.messages


async def test_changes_during_the_stop_are_one_with_it() -> None:
    async with running(stops=False) as it:
        await it.change("service.py")
        await it.change("service.py", "settings.py")
        it.started[0].die(0)
        await it.clock.settle()

        assert len(it.started) == 2
        assert it.started[1].asked == 0


async def test_change_while_it_starts_starts_it_anew() -> None:
    async with running() as it:
        await it.change("service.py")
        await it.change("service.py")

        assert len(it.started) == 3


@pytest.mark.parametrize("status", [0, 1, 2, 139])
async def test_process_that_ends_by_itself_waits_for_a_change(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as it:
        it.started[0].die(status)
        await it.clock.advance(3600)
        assert len(it.started) == 1
        told = f"the service ended with status {status}: waiting for a change"
        assert told in caplog.messages

        await it.change("service.py")

        assert len(it.started) == 2


@pytest.mark.rule("7.3")
class TestStop:
    async def test_is_that_of_the_process(self) -> None:
        async with running(stops=False) as it:
            it.reloading.stop()
            await it.clock.settle()
            assert it.started[0].asked == 1

            it.started[0].die(1)
            await it.clock.settle()

            assert it.task.result() == 1
            assert len(it.started) == 1

    async def test_while_it_waits_for_a_change_ends_with_the_last_status(self) -> None:
        async with running() as it:
            it.started[0].die(2)
            await it.clock.settle()

            it.reloading.stop()
            await it.clock.settle()

            assert it.task.result() == 2

    async def test_during_a_restart_starts_no_other(self) -> None:
        async with running(stops=False) as it:
            await it.change("service.py")
            it.reloading.stop()
            it.started[0].die(0)
            await it.clock.settle()

            assert it.task.result() == 0
            assert len(it.started) == 1

    @pytest.mark.case("SD-04")
    async def test_second_one_ends_it_at_once(self) -> None:
        async with running(stops=False) as it:
            it.reloading.stop()
            await it.clock.settle()

            it.reloading.end_now()

            assert it.started[0].ended_now == 1


async def test_watch_that_fails_stops_the_process_and_is_1(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as it:
        await it.change()

        assert it.task.result() == 1
        assert it.started[0].asked == 1
    assert "cannot watch for changes: OSError('too many watches')" in caplog.messages


async def test_no_process_to_be_had_is_1() -> None:
    async with running() as it:
        it.spawner.refuses = True
        await it.change("service.py")

        assert it.task.result() == 1
