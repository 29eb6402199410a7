"""Running an app as a process: from the first check to the exit status (section 7)."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import surestream
from surestream.app import App
from surestream.cli.banner import banner
from surestream.cli.faults import from_user_code, place, reason
from surestream.cli.parent import Parent
from surestream.cli.signals import StopSignals
from surestream.cli.statuses import CLEAN, FAILED, WRONG_USE, signaled
from surestream.cli.text import without_secrets
from surestream.errors import DeclarationError, MissingExtra, ServiceFailed, SureStreamError
from surestream.runtime.lifecycle import Run

__all__ = ["run_app", "serve"]

log = logging.getLogger("surestream")

CUT_AFTER: Final = 2.0
"""Seconds beyond ``shutdown_timeout`` after which what still closes is canceled: the runtime
needs up to two to write what it cut off."""
END_AFTER: Final = 4.0
"""Seconds beyond ``shutdown_timeout`` after which the process ends, whatever hangs."""
LEFT_OVERS: Final = 1.0
"""Seconds that threads and tasks of the user's own get at least once the service has stopped."""

NewLoop = Callable[[], asyncio.AbstractEventLoop]


def serve(app: App, *, shutdown_timeout: float | timedelta | None = None) -> int:
    """Run ``app`` until SIGINT or SIGTERM, or until it fails; return the exit status::

        if __name__ == "__main__":
            sys.exit(serve(app))

    0: stopped because it was asked to (also before it was up). 1: a broker could not be
    reached, or the service failed. 2: a declaration was refused, which is printed. A second
    signal ends the process at once, with 128 + its number. ``shutdown_timeout`` (seconds or
    ``timedelta``) replaces the app's; a stop that takes 4 s longer than that ends the process
    too (rule 7.3). Uses uvloop where it is installed. Logging is left as it is.

    Raises ``DeclarationError`` outside the main thread (no signal arrives there) and inside a
    running event loop: ``async with app.running()`` is for both.
    """
    _check_place()
    signals = StopSignals().install()
    try:
        return run_app(app, signals, shutdown_timeout=shutdown_timeout)
    finally:
        signals.restore()


def run_app(
    app: App,
    signals: StopSignals,
    *,
    shutdown_timeout: float | timedelta | None = None,
    parent: Parent | None = None,
    introduces: bool = True,
) -> int:
    """:func:`serve` under ``signals`` that are installed already. Its deadline runs on when
    this returns, with the status that is returned. ``parent`` is told how far we are;
    ``introduces``: the log says what the service reads."""
    run = app.new_run(shutdown_timeout=shutdown_timeout)
    name, new_loop = _event_loop()
    if introduces:
        for level, line in banner(app, surestream.__version__, name):
            log.log(level, "%s", line)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_Serving(run, signals, parent).serve())


class _Serving:
    """One run under signals. Start and stop are in one task: a lifespan may need that."""

    def __init__(self, run: Run, signals: StopSignals, parent: Parent | None) -> None:
        self._run = run
        self._name = run.context.service
        self._time = run.shutdown_timeout
        self._signals = signals
        self._parent = parent
        self._starting = True
        self._end: float | None = None

    async def serve(self) -> int:
        """Start, wait, stop."""
        loop = self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        limit = self._signals.limit = self._time + END_AFTER
        self._signals.awaits_answer = True
        self._signals.notify = lambda: loop.call_soon_threadsafe(self._asked)
        if self._parent is not None:
            self._parent.tell_limit(limit)
        if self._signals.received is not None:
            return CLEAN
        status = await self._start()
        self._starting = False
        if status is None:
            if self._parent is not None:
                self._parent.tell_running()
            if self._signals.received is None:
                await self._run.until_asked()
            self._begin_to_end()
            status = await self._stop()
        left = self._begin_to_end() - loop.time()
        self._cut.cancel()
        self._signals.deadline.arm(max(left, LEFT_OVERS), status=status)
        # What comes from here on finds no loop to tell, and the end near.
        self._signals.awaits_answer = False
        self._signals.notify = self._signals.only_keep
        return status

    def _asked(self) -> None:
        """The first signal arrived."""
        self._signals.answered()
        signal = self._signals.received
        name = "" if signal is None else signal.name
        self._begin_to_end()
        if self._starting:
            log.info("%s: %s while starting: stopping", self._name, name)
            self._cancel()
        else:
            if self._parent is None:
                log.info("%s: %s, a second signal ends at once", self._name, name)
            self._run.ask_to_stop()

    def _begin_to_end(self) -> float:
        """From here on the time runs; when it is over, by the loop's clock."""
        if self._end is None:
            self._end = self._loop.time() + self._time
            self._cut = self._loop.call_at(self._end + CUT_AFTER, self._cut_off)
            if not self._signals.deadline.armed:
                self._signals.deadline.arm(self._time + END_AFTER)
        return self._end

    def _cut_off(self) -> None:
        log.error("%s: still closing after shutdown_timeout: canceled", self._name)
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _start(self) -> int | None:
        """``None`` once the service runs, else the exit status."""
        try:
            await self._run.start()
        except asyncio.CancelledError as error:
            if self._signals.received is None:
                return self._failed("failed to start", error)
            log.info("%s: stopped before it ran", self._name)
            return CLEAN
        except (DeclarationError, MissingExtra) as error:
            print(without_secrets(str(error)), file=sys.stderr)
            return WRONG_USE
        except SureStreamError as error:
            log.critical("%s: cannot start: %s", self._name, error)
            return FAILED
        except BaseException as error:
            return self._failed("failed to start", error)
        return None

    async def _stop(self) -> int:
        try:
            await self._run.stop()
        except ServiceFailed:
            return FAILED  # said, with its traceback, when it happened
        except asyncio.CancelledError:
            return FAILED
        except BaseException as error:
            return self._failed("failed to stop", error)
        return CLEAN

    def _failed(self, what: str, error: BaseException) -> int:
        """The status after an exception of the user's own code."""
        if isinstance(error, KeyboardInterrupt):
            log.warning("%s: KeyboardInterrupt was raised in it", self._name)
            return signaled(signal.SIGINT)
        if isinstance(error, SystemExit):
            log.warning("%s: ended by SystemExit(%r)", self._name, error.code)
            if isinstance(error.code, int):
                return error.code
            return CLEAN if error.code is None else FAILED
        where = place(error)
        log.critical(
            "%s: %s: %s%s",
            self._name,
            what,
            reason(error),
            f" (at {where})" if where is not None else "",
            exc_info=from_user_code(error),
        )
        return FAILED


def _check_place() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise DeclarationError(
            "serve(app) outside the main thread",
            why="signals arrive in the main thread only",
            write="async with app.running(): …",
        )
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise DeclarationError(
        "serve(app) inside a running event loop",
        why="it runs an event loop of its own",
        write="async with app.running(): …",
    )


def _event_loop() -> tuple[str, NewLoop | None]:
    try:
        import uvloop
    except ImportError:
        return "asyncio", None
    return "uvloop", uvloop.new_event_loop
