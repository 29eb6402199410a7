"""What ends the process: the first signal asks, the second one tells, time decides."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, NoReturn, Self, cast

from surestream.cli.faults import is_by_user, is_ours
from surestream.cli.statuses import FAILED, signaled

__all__ = ["ENDED_AT_ONCE", "AskedToStop", "Deadline", "StopSignals", "leave_at_once", "say"]

FLUSH_LIMIT: Final = 0.5
ENDED_AT_ONCE: Final = "again: ended at once, nothing more is settled"
"""What a second signal did, after its name."""
BEFORE_RUN_LIMIT: Final = 1.5
"""Seconds that the user's module gets to end once the process was asked to stop while importing
it: the whole of it has to be over within two (case SD-05)."""
ANSWER_WITHIN: Final = 1.0
"""Seconds after which a first signal that nothing answers is answered from here."""


class AskedToStop(BaseException):
    """Ends the import of the user's module; not an ``Exception``, so as not to be taken for a
    failure of its code."""


class Deadline:
    """Ends the process when a graceful stop takes too long, whatever hangs: a blocked event
    loop, a thread, a close. A thread of its own watches, as nothing else can be trusted then."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    @property
    def armed(self) -> bool:
        """Whether the time runs."""
        return self._timer is not None

    def arm(self, seconds: float, *, status: int = FAILED) -> None:
        """End the process with ``status`` in ``seconds``, counted anew at each call."""
        self.disarm()
        timer = threading.Timer(seconds, self._over, (status,))
        timer.name = "surestream deadline"
        timer.daemon = True
        self._timer = timer
        timer.start()

    def disarm(self) -> None:
        """Let the process go on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self, status: int) -> None:
        leave_at_once(status, f"the time for the stop is over, ended; {_what_hangs()}")


class StopSignals:
    """SIGINT and SIGTERM, once installed.

    The first one is kept in :attr:`received` and calls :attr:`notify`; the second one calls
    :attr:`again`, which ends the process at once with status 128 + its number. Handlers are
    installed explicitly, as process number 1 of a container has none by default, and as Python's
    own, not the event loop's, so that the second signal also ends a process whose loop is
    blocked.

    Signals are delivered to the main thread only: install them there.
    """

    NUMBERS: Final = tuple(
        getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)
    )

    def __init__(self) -> None:
        self._before: dict[int, object] = {}
        self.received: signal.Signals | None = None
        """The signal that asked for the stop."""
        self.notify: Callable[[], object] = self.only_keep
        """Called from the signal handler, between any two instructions of the main thread."""
        self.again: Callable[[signal.Signals], object] = self.end_at_once
        """Called from the signal handler at each signal after the first."""
        self.limit: float | None = BEFORE_RUN_LIMIT
        """Seconds from the first signal to the end of the process, at the latest."""
        self.deadline = Deadline()
        self.awaits_answer = False
        """Whether :meth:`answered` is called soon after ``notify``, unless something hangs."""
        self._answer: threading.Timer | None = None

    def install(self) -> Self:
        """Take the signals over, until :meth:`restore` or the end of the process."""
        for number in self.NUMBERS:
            self._before[number] = signal.signal(number, self._receive)
        return self

    def restore(self) -> None:
        """Give them back, and let the process go on."""
        self.deadline.disarm()
        self.answered()
        for number, handler in self._before.items():
            # What was not installed from Python cannot be restored from here.
            if callable(handler) or isinstance(handler, signal.Handlers):
                signal.signal(number, handler)

    def raise_asked(self) -> NoReturn:
        """A ``notify`` for the time in which nothing runs yet."""
        raise AskedToStop

    def only_keep(self) -> None:
        """A ``notify`` for a moment in which :attr:`received` is looked at soon."""

    def answered(self) -> None:
        """Something heard the first signal, and says so itself."""
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def end_at_once(self, number: signal.Signals) -> NoReturn:
        """The ``again`` of a process that a person watches."""
        leave_at_once(signaled(number), f"{number.name} {ENDED_AT_ONCE}")

    def ignore(self, number: signal.Signals) -> None:
        """An ``again`` for a process that asks somebody else when to end at once."""

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            self.again(signal.Signals(number))
            return
        self.received = signal.Signals(number)
        if self.limit is not None and not self.deadline.armed:
            self.deadline.arm(self.limit)
        if self.awaits_answer:
            self._answer = threading.Timer(ANSWER_WITHIN, self._unanswered, (self.received,))
            self._answer.daemon = True
            self._answer.start()
        self.notify()

    def _unanswered(self, number: signal.Signals) -> None:
        where = _main_thread_at(threading.main_thread().ident or 0)
        hangs = "the event loop does not turn"
        if where is not None:
            hangs = f"{hangs}: the main thread is at {where}"
        limit = "" if self.limit is None else f"; it ends after {self.limit:g} s at the latest"
        say(f"{number.name}, but {hangs}{limit}, with a second signal at once")


def say(text: str) -> None:
    """One line to standard error that waits for no lock, from a signal handler or any thread."""
    with contextlib.suppress(OSError):
        os.write(2, f"surestream: {text}\n".encode(errors="backslashreplace"))


def leave_at_once(status: int, why: str | None) -> NoReturn:
    """End the process with ``status``: no clean-up, no waiting for threads. ``why`` goes to
    standard error; what the program wrote to its streams is flushed, if that is quick."""
    if why is not None:
        say(why)
    # In a thread: what we interrupted may hold the lock of the very stream.
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(FLUSH_LIMIT)
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            stream.flush()


def _what_hangs() -> str:
    """Where the main thread is, and which threads the process waits for."""
    main = threading.main_thread()
    others = [one for one in threading.enumerate() if one is not main and not one.daemon]
    # One that asyncio starts to wait for the others is no answer.
    names = [one.name for one in others if "_do_shutdown" not in one.name]
    if names:
        return f"threads still running: {', '.join(names)}"
    where = _main_thread_at(main.ident or 0)
    if where is None:
        return "something that is awaited does not end"
    return f"the main thread is at {where}"


def _main_thread_at(ident: int) -> str | None:
    """The line of the user's code that keeps the event loop from turning."""
    frames = cast("Callable[[], dict[int, FrameType]]", getattr(sys, "_current_frames", dict))()
    frame = frames.get(ident)
    while frame is not None:
        code = frame.f_code
        if is_by_user(code.co_filename):
            return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
        if is_ours(code.co_filename):
            return None
        frame = frame.f_back
    return None
