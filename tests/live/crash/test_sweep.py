"""A kill or a lost connection at any call to Redis loses nothing and strands nothing (rule 5.3).

Each scenario is run again for every call it makes (:mod:`tests.live.crash.points`). After a kill
another process is started, with no help but the start; after a lost connection the process goes
on by itself. What must be true then is read from Redis alone.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, Final

import pytest

from tests.live.crash.child import CRASHED
from tests.live.crash.points import CUT, CUTS, KILLED, KILLS, How
from tests.live.crash.scenarios import CUT_SCENARIOS, SCENARIOS, Scenario
from tests.live.support import Child, Look, Nursery
from tests.servers import RedisServer

pytestmark = pytest.mark.rule("5.3")

AT_A_TIME: Final = 10
SERVE: Final = "tests.live.crash.child:serve"


class Sweep:
    """Runs one scenario at every point, several at a time, each in a database of its own."""

    def __init__(
        self, nursery: Nursery, server: RedisServer, scenario: Scenario, ways: Sequence[How]
    ) -> None:
        self._nursery = nursery
        self._scenario = scenario
        self._databases: queue.Queue[str] = queue.Queue()
        for number in range(AT_A_TIME):
            self._databases.put(f"{server.url.rpartition('/')[0]}/{number}")
        self._over = {how: threading.Event() for how in ways}
        self.points: list[str] = []
        self.failures: list[str] = []

    def run(self) -> None:
        """All of it. A way is over when a run came to its end without being struck."""
        points = ((how, n) for n in itertools.count(1) for how in self._over)
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            jobs: dict[Future[None], None] = {}
            for how, number in points:
                if all(over.is_set() for over in self._over.values()) or len(self.failures) > 5:
                    break
                while len(jobs) >= AT_A_TIME:
                    ended = next(as_completed(jobs))
                    del jobs[ended]
                    ended.result()
                if not self._over[how].is_set():
                    jobs[pool.submit(self._one, how, number)] = None
            for ended in as_completed(jobs):
                ended.result()

    def _one(self, how: How, number: int) -> None:
        url = self._databases.get()
        look = Look(url)
        try:
            look.redis.flushdb()
            self._scenario.fill(look)
            faults, log = self._live_and_die(url, how, number)
            if found := self._scenario.faults(look, faults):
                self.failures.append("\n  ".join([f"{self._scenario.name}: {log}", *found]))
        except AssertionError as error:
            self.failures.append(f"{self._scenario.name}: {how} call {number}: {error}")
        finally:
            look.close()
            self._databases.put(url)

    def _live_and_die(self, url: str, how: How, number: int) -> tuple[int, str]:
        """How often it was struck, and where."""
        scenario = self._scenario
        struck = 0
        if scenario.prepared:
            assert self._start(url).wait() == CRASHED
            struck += 1
        child = self._start(url, how=how, number=number, **scenario.first)
        where = self._end(child)
        if child.status == 0:
            self._over[how].set()
        else:
            self.points.append(where)
            struck += 1
        if scenario.again and child.status == KILLED:
            # Every pair of points would be too many: the second one wanders.
            second = self._start(url, how=how, number=number * 5 % 17 + 1)
            where += ", then " + self._end(second)
            struck += second.status == KILLED
        if scenario.first or child.status == KILLED:
            last = self._start(url)
            assert last.wait(40) == 0, f"{where}, then {last.status}:\n{last.log}"
        return struck, where

    def _start(self, url: str, **settings: object) -> Child:
        return self._nursery.start(SERVE, url=url, **{**self._scenario.child, **settings})

    def _end(self, child: Child) -> str:
        status = child.wait(40)
        assert status in (0, KILLED, CUT), f"ended with {status}:\n{child.log}"
        told = [line for line in child.log.splitlines() if " call" in line and line[0] != "["]
        return next((line for line in told if " call " in line), told[-1])


def each(scenarios: Sequence[Scenario]) -> list[Any]:
    """Parameters that carry the marks of their cases."""
    return [
        pytest.param(one, id=one.name, marks=[pytest.mark.case(*one.cases)] if one.cases else [])
        for one in scenarios
    ]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("scenario", each(SCENARIOS))
def test_a_kill_at_any_call_loses_and_strands_nothing(
    nursery: Nursery, sweep_server: RedisServer, scenario: Scenario
) -> None:
    sweep = Sweep(nursery, sweep_server, scenario, KILLS)

    sweep.run()

    print(f"{scenario.name}: {len(sweep.points)} kill points")
    assert not sweep.failures, "\n".join(sweep.failures)
    assert len(sweep.points) >= 6


@pytest.mark.timeout(120)
@pytest.mark.rule("6.4")
@pytest.mark.parametrize("scenario", each(CUT_SCENARIOS))
def test_a_connection_lost_at_any_call_loses_and_strands_nothing(
    nursery: Nursery, sweep_server: RedisServer, scenario: Scenario
) -> None:
    sweep = Sweep(nursery, sweep_server, scenario, CUTS)

    sweep.run()

    print(f"{scenario.name}: {len(sweep.points)} points")
    assert not sweep.failures, "\n".join(sweep.failures)
    assert len(sweep.points) >= 9
