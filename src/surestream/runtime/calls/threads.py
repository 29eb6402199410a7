"""Threads for ``def`` handlers.

They are daemon threads of our own: those of ``concurrent.futures`` and ``asyncio.to_thread`` are
joined when the interpreter exits, so that one stuck handler would hold the process for ever.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from surestream.errors import NotRunning

__all__ = ["STRAYS", "HandlerThreads"]

log = logging.getLogger("surestream.dispatch")

_R = TypeVar("_R")

STRAYS: Final = 32
"""How many threads may be stuck in calls that were given up, beside the workers' own, before
further calls wait for a thread."""


class HandlerThreads:
    """Runs calls in threads and gives their results to the event loop it is used on.

    ``workers`` is how many calls are expected at a time: so many idle threads are kept. A call
    that is given up (its future was cancelled) goes on in its thread, for there is no way to
    stop one: it counts as :attr:`busy`, and its result is discarded. ``changed`` is called on
    the loop when no call runs any more.
    """

    def __init__(self, workers: int, *, changed: Callable[[], None] | None = None) -> None:
        self._keep = max(workers, 1)
        self._limit = self._keep + STRAYS
        self._changed = changed
        self._idle: list[_Thread] = []
        self._waiting: deque[_Work] = deque()
        self._busy = 0
        self._started = 0
        self._stopped: asyncio.Event | None = None

    @property
    def busy(self) -> int:
        """How many threads run a call now, given up or not."""
        return self._busy

    def run(self, call: Callable[..., _R], *args: object) -> asyncio.Future[_R]:
        """Start ``call(*args)`` in a thread, in a copy of the current context variables.

        The future ends as the call does; a ``StopIteration`` or ``GeneratorExit`` becomes a
        ``RuntimeError``, as the first does in a coroutine. Cancelling the future gives the call
        up. Raises ``NotRunning`` after :meth:`stop`, ``RuntimeError`` where the system has no
        more threads.
        """
        if self._stopped is not None:
            raise NotRunning("the threads for handlers have been stopped")
        future: asyncio.Future[_R] = asyncio.get_running_loop().create_future()
        work = _Work(future, copy_context(), call, args)
        if self._busy < self._limit:
            thread = self._idle.pop() if self._idle else self._new_thread()
            self._busy += 1
            thread.give(work)
        else:
            self._waiting = deque(each for each in self._waiting if not each.future.done())
            self._waiting.append(work)
        return future

    async def stop(self, timeout: float) -> int:
        """Take no more calls, end the idle threads, cancel calls that wait for a thread, wait up
        to ``timeout`` seconds for those that run. Returns how many still do."""
        if self._stopped is None:
            self._stopped = asyncio.Event()
        while self._waiting:
            self._waiting.popleft().future.cancel()
        while self._idle:
            self._idle.pop().give(None)
        if self._busy:
            try:
                async with asyncio.timeout(timeout):
                    await self._stopped.wait()
            except TimeoutError:
                return self._busy
        return 0

    def _new_thread(self) -> _Thread:
        self._started += 1
        return _Thread(f"surestream handler {self._started}", self._ended)

    def _ended(
        self, thread: _Thread, work: _Work, result: object, error: BaseException | None
    ) -> None:
        """On the loop: pass on what a call gave, find its thread something to do."""
        if not work.future.done():
            if error is None:
                work.future.set_result(result)
            else:
                work.future.set_exception(error)
        elif error is not None:
            log.warning("a handler that had been given up raised", exc_info=error)
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.future.done():
                thread.give(waiting)
                return
        self._busy -= 1
        if self._stopped is None and len(self._idle) < self._keep:
            self._idle.append(thread)
        else:
            thread.give(None)
        if self._busy:
            return
        if self._stopped is not None:
            self._stopped.set()
        if self._changed is not None:
            self._changed()


@dataclass(frozen=True, slots=True)
class _Work:
    future: asyncio.Future[Any]
    context: Context
    call: Callable[..., object]
    args: tuple[object, ...]


class _Thread:
    """One thread and what it is given to do."""

    def __init__(
        self,
        name: str,
        ended: Callable[[_Thread, _Work, object, BaseException | None], None],
    ) -> None:
        self._given: SimpleQueue[_Work | None] = SimpleQueue()
        self._ended = ended
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def give(self, work: _Work | None) -> None:
        """Something to do; ``None`` ends the thread."""
        self._given.put(work)

    def _serve(self) -> None:
        while (work := self._given.get()) is not None:
            result: object = None
            error: BaseException | None = None
            try:
                result = work.context.run(work.call, *work.args)
            except (StopIteration, GeneratorExit) as end:
                # A future cannot carry it: it would end the coroutine that awaits it.
                error = RuntimeError(f"the handler raised {type(end).__name__}")
                error.__cause__ = end
            except BaseException as raised:
                error = raised
            try:
                loop = work.future.get_loop()
                loop.call_soon_threadsafe(self._ended, self, work, result, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits for this any more
            # An idle thread must not keep a message, or the frames of an error, alive.
            del work, result, error
