"""The run under test, from its start to its stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from surestream.app import App
from surestream.broker import Broker
from surestream.declaration import Unset
from surestream.errors import NotRunning, ServiceFailed
from surestream.runtime.lifecycle import Run
from surestream.testing.pace import LivePace, Pace, PausedPace
from surestream.testing.patience import NotSettled
from surestream.testing.recorder import HandlersInThreads, Recorder

__all__ = ["ServiceUnderTest"]


class ServiceUnderTest:
    """One run of an app, in process under the paused clock or against live servers.

    The whole life of the run is one task, as in production: what a lifespan opens (task groups,
    cancel scopes) has to be closed by the task that opened it, and a fixture enters and leaves
    in different ones.
    """

    def __init__(
        self,
        app: App,
        recorder: Recorder,
        *,
        state: object | Unset,
        live: bool,
        addresses: Mapping[Broker[Any], str],
        patience: float,
    ) -> None:
        self.run: Final[Run] = app.new_run(
            in_process=not live,
            state=state,
            observer=recorder,
            chance=random.Random(0),
            addresses=addresses,
        )
        busy = HandlersInThreads(self.run, recorder)
        mounts = [mounted for broker in app.brokers for mounted in broker.mounts]
        self.pace: Final[Pace] = (
            LivePace(recorder, busy, patience, mounts) if live else PausedPace(busy, patience)
        )
        recorder.follow(self.pace.now)
        self.over = False
        self._fault: BaseException | None = None
        self._told = False
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(), name=f"test of {app!r}")

    async def _live(self) -> None:
        try:
            try:
                await self.run.start()
            finally:
                if not self._started.done():
                    self._started.set_result(None)
            await self.run.until_asked()
            await self.run.stop()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._fault = error

    async def start(self) -> None:
        """Start and settle. Raises what a real start raises, and leaves nothing behind."""
        try:
            await self.pace.until(self._started)
            if self._fault is not None:
                raise self._fault
            await self.pace.settle(0.0)
        except BaseException:
            await self._leave()
            raise

    async def stop(self) -> BaseException | None:
        """Stop gracefully. Returns what went wrong in the service and was not raised yet."""
        try:
            self.run.ask_to_stop()
            if not self._task.done():
                await self.pace.until(self._task)
        except NotSettled as error:
            return error
        finally:
            await self._leave()
        return None if self._told else self._fault

    async def _leave(self) -> None:
        """Whatever happened, nothing of the test stays on the loop."""
        try:
            if not self._task.done():
                self._task.cancel()
                with suppress(NotSettled):
                    await self.pace.settle(0.0)
        finally:
            self.over = True
            self.pace.leave()

    def check(self, story: Callable[[], str]) -> None:
        """Raise what made the service stop, once, with the ``story``; ``NotRunning`` after it."""
        failure = self.run.failure
        if failure is not None and not self._told:
            self._told = True
            if isinstance(failure, KeyboardInterrupt | SystemExit):
                raise failure
            service = self.run.context.service
            raise ServiceFailed(f"{service} failed: {failure!r}\n{story()}") from failure
        if self.over or failure is not None:
            raise NotRunning("the service under test has stopped")
