"""The paused clock moves everything on its loop, exactly, and only when it is told to."""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import threading
import weakref
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from surestream.testing import PausedClock, paused_clock

LONG = timedelta(days=300 * 366)


@pytest.fixture
async def clock() -> AsyncIterator[PausedClock]:
    with paused_clock() as clock:
        yield clock


def fires(delay: float) -> list[float]:
    """A list that gets the loop's time when a timer of ``delay`` seconds fires."""
    loop = asyncio.get_running_loop()
    times: list[float] = []
    loop.call_later(delay, lambda: times.append(loop.time()))
    return times


@pytest.mark.rule("8.1")
async def test_time_stands_still(clock: PausedClock) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()

    await clock.settle(linger=0.01)

    assert loop.time() == before
    assert clock.seconds == 0


@pytest.mark.case("TH-09")
@pytest.mark.parametrize("delay", [30.0, 0.001, 0.1 + 0.2, 1.0 / 3.0, 86_400.0 * 25])
async def test_a_timer_fires_at_its_time_and_not_a_millisecond_before(
    clock: PausedClock, delay: float
) -> None:
    times = fires(delay)
    due = asyncio.get_running_loop().time() + delay

    await clock.advance(timedelta(seconds=delay) - timedelta(milliseconds=1))
    early = list(times)
    await clock.advance(timedelta(milliseconds=1))

    assert early == []
    assert len(times) == 1
    assert times[0] >= due


@pytest.mark.case("TH-09")
async def test_many_small_steps_end_where_one_large_one_does(clock: PausedClock) -> None:
    times = fires(30)

    for _ in range(299):
        await clock.advance(0.1)
    early = list(times)
    await clock.advance(0.1)

    assert early == []
    assert len(times) == 1
    assert clock.elapsed == timedelta(seconds=30)


@pytest.mark.case("CK-10")
async def test_due_times_less_than_a_millisecond_apart(clock: PausedClock) -> None:
    first, second = fires(0.0004), fires(0.0007)

    await clock.advance(0.0003)
    at_300 = (len(first), len(second))
    await clock.advance(0.0002)
    at_500 = (len(first), len(second))
    await clock.advance(0.0002)

    assert (at_300, at_500, (len(first), len(second))) == ((0, 0), (1, 0), (1, 1))


@pytest.mark.case("TH-09")
@pytest.mark.parametrize("start", [0.0, 12.3456789, 8_640_000.123, 40_000_000.7])
async def test_the_boundary_is_exact_on_a_machine_that_is_up_for_long(start: float) -> None:
    loop = asyncio.get_running_loop()
    real = loop.time
    offset = start - real()
    loop.time = lambda: real() + offset  # type: ignore[method-assign]
    with paused_clock() as clock:
        for _ in range(20):
            times = fires(30)
            await clock.advance(29.999)
            assert times == []
            await clock.advance(0.001)
            assert len(times) == 1


@pytest.mark.case("TH-09")
async def test_a_deadline_that_is_waited_for_piecewise_is_met_at_its_moment(
    clock: PausedClock,
) -> None:
    """As in `while (wait := due - loop.time()) > 0`, where the sums miss the due time by a hair."""
    loop = asyncio.get_running_loop()
    due = loop.time() + 30 + 2e-7
    stops: list[float] = []

    async def until_due() -> None:
        if (wait := due - loop.time()) > 0:
            await asyncio.sleep(min(wait, 10.0) - (1e-7 if wait > 1e-6 else 0))
            await until_due()
        else:
            stops.append(clock.seconds)

    task = asyncio.create_task(until_due())
    loop.call_at(due - 3e-7, stops.append, 0.0)

    await clock.advance(29.999)
    assert not task.done()
    await clock.advance(0.001)
    assert stops == [0.0, 30.0]


async def test_a_chain_of_timers_runs_in_one_advance(clock: PausedClock) -> None:
    seen: list[float] = []

    async def chain() -> None:
        for _ in range(10):
            await asyncio.sleep(30)
            seen.append(clock.seconds)

    task = asyncio.create_task(chain())

    await clock.advance(299.999)
    nine = list(seen)
    await clock.advance(0.001)

    assert nine == [30.0 * n for n in range(1, 10)]
    assert seen[-1] == 300
    assert task.done()


async def test_everything_settles_at_each_stop(clock: PausedClock) -> None:
    """What a timer sets off is done before time goes on."""
    happened: list[tuple[str, float]] = []
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def source(name: str, wait: float) -> None:
        await asyncio.sleep(wait)
        for _ in range(50):
            await asyncio.sleep(0)
        queue.put_nowait(name)

    async def sink() -> None:
        while True:
            name = await queue.get()
            for _ in range(50):
                await asyncio.sleep(0)
            happened.append((name, clock.seconds))

    tasks = [asyncio.create_task(sink())]
    tasks += [asyncio.create_task(source(f"after {n}", n)) for n in (1, 2, 3)]

    await clock.advance(10)

    assert happened == [("after 1", 1.0), ("after 2", 2.0), ("after 3", 3.0)]
    tasks[0].cancel()


async def test_a_timer_that_is_set_on_the_way_for_later_waits(clock: PausedClock) -> None:
    loop = asyncio.get_running_loop()
    fired: list[float] = []
    loop.call_later(1, lambda: loop.call_later(5, lambda: fired.append(clock.seconds)))

    await clock.advance(5.999999)
    early = list(fired)
    await clock.advance(0.000001)

    assert (early, fired) == ([], [6.0])


async def test_time_limits_follow(clock: PausedClock) -> None:
    async def with_timeout() -> str:
        try:
            async with asyncio.timeout(5):
                await asyncio.sleep(6)
        except TimeoutError:
            return f"timeout at {clock.seconds}"
        return "no timeout"

    async def with_wait_for() -> str:
        return await asyncio.wait_for(asyncio.sleep(4, "in time"), 5)

    first = asyncio.create_task(with_timeout())
    second = asyncio.create_task(with_wait_for())

    await clock.advance(4.5)
    assert (first.done(), second.result()) == (False, "in time")
    await clock.advance(0.5)
    assert first.result() == "timeout at 5.0"


async def test_a_time_limit_around_the_advance_itself(clock: PausedClock) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await clock.advance(30)

    assert clock.seconds == 5


async def test_cancelled_timers_are_no_stops(clock: PausedClock) -> None:
    loop = asyncio.get_running_loop()
    times = fires(3)
    for n in range(500):
        loop.call_later(1 + n / 1000, times.append, -1.0).cancel()

    await clock.advance(3)

    assert len(times) == 1


async def test_advancing_by_nothing_is_settling(clock: PausedClock) -> None:
    times = fires(0)

    await clock.advance(0)

    assert len(times) == 1
    assert clock.seconds == 0


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, timedelta(seconds=-1)])
async def test_what_is_no_duration_is_refused(clock: PausedClock, wrong: float) -> None:
    with pytest.raises(ValueError, match="advance"):
        await clock.advance(wrong)


@pytest.mark.case("CK-05")
@pytest.mark.parametrize("delay", [LONG.total_seconds(), timedelta.max.total_seconds(), 1e18])
async def test_delays_of_many_years_neither_fire_nor_break_the_loop(
    clock: PausedClock, delay: float
) -> None:
    times = fires(delay)

    await clock.advance(timedelta(days=25))

    assert times == []


@pytest.mark.case("CK-05")
async def test_a_delay_of_three_hundred_years_ends(clock: PausedClock) -> None:
    times = fires(LONG.total_seconds())

    await clock.advance(LONG - timedelta(milliseconds=1))
    early = list(times)
    await clock.advance(timedelta(milliseconds=1))

    assert early == []
    assert len(times) == 1


async def test_a_sleep_for_ever_is_no_stop(clock: PausedClock) -> None:
    task = asyncio.create_task(asyncio.sleep(math.inf))

    await clock.advance(10)

    assert not task.done()
    task.cancel()


@pytest.mark.rule("8.1")
async def test_threads_are_waited_for(clock: PausedClock) -> None:
    release = threading.Event()
    done: list[str] = []

    async def handler() -> None:
        done.append(await asyncio.to_thread(lambda: "late" if release.wait(5) else "never"))
        await asyncio.sleep(10)
        done.append(f"at {clock.seconds}")

    task = asyncio.create_task(handler())
    threading.Timer(0.05, release.set).start()

    await clock.settle()
    assert done == ["late"]
    await clock.advance(10)
    assert done == ["late", "at 10.0"]
    assert task.done()


async def test_what_threads_call_in_the_loop_settles(clock: PausedClock) -> None:
    loop = asyncio.get_running_loop()
    got: list[str] = []

    async def answer(question: str) -> str:
        await asyncio.sleep(0)
        got.append(question)
        return "answer"

    def worker() -> str:
        return asyncio.run_coroutine_threadsafe(answer("question"), loop).result(5)

    task = asyncio.create_task(asyncio.to_thread(worker))

    await clock.settle()

    assert (task.done(), got) == (True, ["question"])


async def test_a_thread_that_ends_while_it_is_waited_for_may_set_timers(
    clock: PausedClock,
) -> None:
    async def handler() -> float:
        await asyncio.to_thread(threading.Event().wait, 0.01)
        await asyncio.sleep(1)
        await asyncio.to_thread(threading.Event().wait, 0.01)
        await asyncio.sleep(1)
        return clock.seconds

    task = asyncio.create_task(handler())

    await clock.advance(5)

    assert task.result() == 2.0


async def test_what_the_loop_sends_to_itself_arrives_without_lingering(clock: PausedClock) -> None:
    loop = asyncio.get_running_loop()
    left, right = socket.socketpair()
    for end in (left, right):
        end.setblocking(False)

    async def hand_over() -> float:
        await asyncio.sleep(5)
        await loop.sock_sendall(left, b"hello")
        return clock.seconds

    async def take() -> float:
        assert await loop.sock_recv(right, 100) == b"hello"
        await asyncio.sleep(1)
        return clock.seconds

    tasks = asyncio.gather(hand_over(), take())

    await clock.advance(60)

    assert tasks.result() == [5.0, 6.0]
    left.close()
    right.close()


async def test_lingering_gives_real_io_the_time_it_takes(clock: PausedClock) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        answer = await reader.readline()
        writer.close()
        return answer

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    task = asyncio.create_task(ask())

    await clock.settle(linger=0.2)

    assert task.result() == b"hello\n"
    server.close()
    await server.wait_closed()


async def test_two_who_wait_at_once_are_both_served(clock: PausedClock) -> None:
    times: list[float] = []

    async def other(duration: float) -> None:
        await clock.advance(duration)
        times.append(clock.seconds)

    await asyncio.gather(other(20), other(5), clock.settle())

    assert times == [5.0, 20.0]


async def test_a_task_that_is_tested_may_settle_and_advance_itself(clock: PausedClock) -> None:
    async def inner() -> float:
        await clock.advance(5)
        await clock.settle()
        return clock.seconds

    task = asyncio.create_task(inner())

    await clock.advance(30)

    assert task.result() == 5.0
    assert clock.seconds == 30.0


async def test_time_passes_until_a_future_is_done(clock: PausedClock) -> None:
    task = asyncio.create_task(asyncio.sleep(12, "awake"))

    await clock.pass_until(task)

    assert task.result() == "awake"
    assert clock.seconds == 12.0


async def test_a_waiting_test_that_is_cancelled_stops_the_clock(clock: PausedClock) -> None:
    other = asyncio.create_task(clock.advance(100))
    asyncio.get_running_loop().call_later(10, other.cancel)

    await clock.advance(50)

    assert other.cancelled()
    await clock.settle()
    assert clock.seconds == 50.0


async def test_the_clock_can_be_collected_after_use() -> None:
    with paused_clock() as clock:
        await clock.advance(1)
    gone = weakref.ref(clock)

    del clock
    await asyncio.sleep(0)
    gc.collect()

    assert gone() is None
