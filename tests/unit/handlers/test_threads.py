"""`def` handlers in threads: results, exceptions, the ones that never end, the end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from surestream.errors import NotRunning
from surestream.runtime.calls.threads import STRAYS, HandlerThreads

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Blocks a handler until the test lets it go, which it does at the latest when it ends."""
    event = threading.Event()
    yield event
    event.set()


def blocks(gate: threading.Event, result: object = None) -> object:
    gate.wait(20)
    return result


class Idle:
    """Hears of it when no call runs any more."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._event.set()

    async def reached(self) -> None:
        async with asyncio.timeout(10):
            await self._event.wait()


async def test_a_call_runs_in_a_daemon_thread_and_gives_its_result() -> None:
    threads = HandlerThreads(1)

    def where(number: int) -> tuple[int, bool, bool]:
        thread = threading.current_thread()
        return number, thread is threading.main_thread(), thread.daemon

    assert await threads.run(where, 7) == (7, False, True)
    assert await threads.stop(1) == 0


async def test_a_thread_is_used_again() -> None:
    threads = HandlerThreads(1)
    first = await threads.run(threading.current_thread)
    assert await threads.run(threading.current_thread) is first
    await threads.stop(1)


async def test_as_many_idle_threads_are_kept_as_there_are_workers() -> None:
    threads = HandlerThreads(2)

    async def together(number: int) -> set[threading.Thread]:
        meeting = threading.Barrier(number)

        def meet() -> threading.Thread:
            meeting.wait(10)
            return threading.current_thread()

        return set(await asyncio.gather(*[threads.run(meet) for _ in range(number)]))

    # given four calls at a time where two were expected, when they are done
    at_first = await together(4)
    # then two of their threads work on, and the others end
    assert len(at_first) == 4
    kept = await together(2)
    assert kept < at_first
    assert len(await together(3) & at_first) == 2
    for thread in at_first - kept:
        thread.join(10)
        assert not thread.is_alive()
    await threads.stop(1)


async def test_context_variables_are_copied_and_do_not_come_back() -> None:
    threads = HandlerThreads(1)
    VARIABLE.set("from the caller")

    def read_and_set() -> str:
        found = VARIABLE.get()
        VARIABLE.set("from the thread")
        return found

    assert await threads.run(read_and_set) == "from the caller"
    assert await threads.run(read_and_set) == "from the caller"
    assert VARIABLE.get() == "from the caller"
    await threads.stop(1)


class Odd(BaseException):
    pass


@pytest.mark.rule("2.3", "2.4")
@pytest.mark.parametrize("kind", [ValueError, Odd, asyncio.CancelledError])
async def test_whatever_is_raised_arrives(kind: type[BaseException]) -> None:
    threads = HandlerThreads(1)
    raised = kind("why")

    def fails() -> None:
        raise raised

    caught: BaseException | None = None
    try:
        await threads.run(fails)
    except BaseException as error:
        caught = error
    assert caught is raised
    assert await threads.run(lambda: "still alive") == "still alive"
    await threads.stop(1)


@pytest.mark.rule("2.4")
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_order_to_stop_arrives_where_the_call_is_awaited(kind: type[BaseException]) -> None:
    async def main() -> str:
        threads = HandlerThreads(1)

        def fails() -> None:
            raise kind("why")

        try:
            await threads.run(fails)
        except kind:
            return "caught"
        finally:
            await threads.stop(1)
        return "nothing"

    assert asyncio.run(main()) == "caught"


async def test_stop_iteration_is_told_as_a_coroutine_tells_it() -> None:
    threads = HandlerThreads(1)
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        await threads.run(lambda: next(iter(())))
    assert isinstance(caught.value.__cause__, StopIteration)
    await threads.stop(1)


async def test_a_call_that_is_given_up_goes_on_and_its_result_is_discarded(
    gate: threading.Event,
) -> None:
    idle = Idle()
    threads = HandlerThreads(1, changed=idle)
    waiter = asyncio.create_task(_await(threads, gate))
    await asyncio.sleep(0)
    # when its waiter is cancelled
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    # then the thread is still busy, another takes the next call, and the loop hears of the end
    assert threads.busy == 1
    assert await threads.run(lambda: "next") == "next"
    assert threads.busy == 1
    assert idle.count == 0
    gate.set()
    await idle.reached()
    assert threads.busy == 0
    await threads.stop(1)


async def _await(threads: HandlerThreads, gate: threading.Event) -> object:
    return await threads.run(blocks, gate)


async def test_an_exception_after_the_call_was_given_up_is_logged(
    gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    idle = Idle()
    threads = HandlerThreads(1, changed=idle)

    def fails() -> None:
        blocks(gate)
        raise LookupError("too late")

    threads.run(fails).cancel()
    gate.set()
    await idle.reached()
    assert [record.getMessage() for record in caplog.records] == [
        "a handler that had been given up raised"
    ]
    assert "too late" in caplog.text
    await threads.stop(1)


async def test_stuck_threads_do_not_pile_up_without_end(gate: threading.Event) -> None:
    threads = HandlerThreads(1)
    for _ in range(1 + STRAYS):
        threads.run(blocks, gate).cancel()
    # given as many stuck calls as there may be, when more come, then they wait for a thread
    given_up = threads.run(blocks, gate)
    given_up.cancel()
    waiting = [threads.run(lambda: "ran") for _ in range(2)]
    await asyncio.sleep(0)
    assert threads.busy == 1 + STRAYS
    assert not any(each.done() for each in waiting)
    gate.set()
    assert await asyncio.gather(*waiting) == ["ran", "ran"]
    assert await threads.stop(10) == 0


@pytest.mark.rule("7.3")
async def test_stop_waits_for_what_runs(gate: threading.Event) -> None:
    threads = HandlerThreads(1)
    call = threads.run(blocks, gate, "done")
    stopping = asyncio.create_task(threads.stop(20))
    await asyncio.sleep(0)
    with pytest.raises(NotRunning):
        threads.run(print)
    gate.set()
    assert await stopping == 0
    assert await call == "done"


@pytest.mark.rule("7.3")
async def test_stop_does_not_wait_for_ever(gate: threading.Event) -> None:
    threads = HandlerThreads(1)
    stuck = threads.run(blocks, gate)
    assert await threads.stop(0) == 1
    assert not stuck.done()
    gate.set()
    await stuck
    assert await threads.stop(0) == 0


async def test_stop_cancels_calls_that_never_got_a_thread(gate: threading.Event) -> None:
    threads = HandlerThreads(1)
    running = [threads.run(blocks, gate) for _ in range(1 + STRAYS)]
    waiting = threads.run(blocks, gate)
    assert await threads.stop(0) == 1 + STRAYS
    assert waiting.cancelled()
    gate.set()
    await asyncio.gather(*running)


def test_a_loop_closed_meanwhile_does_not_raise_in_the_thread(gate: threading.Event) -> None:
    threads = HandlerThreads(1)

    async def main() -> threading.Thread:
        thread = await threads.run(threading.current_thread)
        threads.run(blocks, gate).cancel()
        return thread

    thread = asyncio.run(main())
    gate.set()
    # then the thread ends by itself; an exception in it would fail the test run
    thread.join(10)
    assert not thread.is_alive()


async def test_an_idle_thread_keeps_nothing_of_its_last_call() -> None:
    class Message:
        pass

    threads = HandlerThreads(1)
    gone = threading.Event()

    def fails(message: Message) -> None:
        raise ValueError(message)

    async def deliver() -> None:
        message = Message()
        weakref.finalize(message, gone.set)
        with contextlib.suppress(ValueError):
            await threads.run(fails, message)

    await deliver()
    await asyncio.sleep(0)  # the loop lets go of the future
    await threads.run(str)  # the thread has let go of the call
    gc.collect()
    assert gone.is_set()
    await threads.stop(1)


async def test_a_system_without_more_threads_fails_the_call_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = HandlerThreads(1)

    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threads.run(print)
    assert threads.busy == 0
    assert await threads.run(lambda: 1) == 1
    await threads.stop(1)


@pytest.mark.rule("7.3")
def test_a_stuck_thread_does_not_hold_the_process() -> None:
    program = (
        "import asyncio, threading\n"
        "from surestream.runtime.calls.threads import HandlerThreads\n"
        "async def main():\n"
        "    threads = HandlerThreads(1)\n"
        "    threads.run(threading.Event().wait)\n"
        "    assert await threads.stop(0) == 1\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
