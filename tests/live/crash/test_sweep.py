"""A kill at any call to Redis loses nothing and strands nothing (rule 5.3).

Each scenario is run again for every call it makes: the process ends itself before the call is
written, or after its reply has come and before anything is done about it. Another one is started,
with no help but the start. What must be true then is read from Redis alone.
"""

from __future__ import annotations

import itertools
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Final

import pytest

from tests.live.crash.child import CRASHED, KILLED
from tests.live.crash.scenarios import SCENARIOS, Scenario
from tests.live.support import Child, Look, Nursery
from tests.servers import RedisServer

pytestmark = pytest.mark.rule("5.3")

AT_A_TIME: Final = 8
SERVE: Final = "tests.live.crash.child:serve"


class Sweep:
    """Runs one scenario at every kill point, several at a time, each in a database of its own."""

    def __init__(self, nursery: Nursery, server: RedisServer, scenario: Scenario) -> None:
        self._nursery = nursery
        self._scenario = scenario
        self._databases: queue.Queue[str] = queue.Queue()
        for number in range(AT_A_TIME):
            self._databases.put(f"{server.url.rpartition('/')[0]}/{number}")
        self._over = {"before": threading.Event(), "after": threading.Event()}
        self.points: list[str] = []
        self.failures: list[str] = []

    def run(self) -> None:
        """All of it. A side is over when a run came to its end without meeting its kill point."""
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            jobs: dict[Future[None], None] = {}
            points = ((side, n) for n in itertools.count(1) for side in self._over)
            for side, number in points:
                if all(over.is_set() for over in self._over.values()) or len(self.failures) > 5:
                    break
                while len(jobs) >= AT_A_TIME:
                    ended = next(as_completed(jobs))
                    del jobs[ended]
                    ended.result()
                if not self._over[side].is_set():
                    jobs[pool.submit(self._one, side, number)] = None
            for ended in as_completed(jobs):
                ended.result()

    def _one(self, side: str, number: int) -> None:
        url = self._databases.get()
        look = Look(url)
        try:
            look.redis.flushdb()
            self._scenario.fill(look)
            kills, log = self._live_and_die(url, side, number)
            if faults := self._scenario.faults(look, kills):
                self.failures.append("\n  ".join([f"{self._scenario.name}: {log}", *faults]))
        except AssertionError as error:
            self.failures.append(f"{self._scenario.name}: {side} call {number}: {error}")
        finally:
            look.close()
            self._databases.put(url)

    def _live_and_die(self, url: str, side: str, number: int) -> tuple[int, str]:
        scenario = self._scenario
        kills = 0
        if scenario.prepared:
            assert self._start(url).wait() == CRASHED
            kills += 1
        child = self._start(url, side=side, number=number, **scenario.first)
        where = self._end(child)
        if child.status == 0:
            self._over[side].set()
        else:
            self.points.append(where)
            kills += 1
            if scenario.again:
                # Every pair of points would be too many: the second one wanders.
                second = self._start(url, side=side, number=number * 5 % 17 + 1)
                where += ", then " + self._end(second)
                kills += second.status == KILLED
        if scenario.first or child.status != 0:
            last = self._start(url)
            assert last.wait(40) == 0, f"{where}, then {last.status}:\n{last.log}"
        return kills, where

    def _start(self, url: str, **settings: object) -> Child:
        return self._nursery.start(SERVE, url=url, **{**self._scenario.child, **settings})

    def _end(self, child: Child) -> str:
        status = child.wait(40)
        assert status in (0, KILLED), f"ended with {status}:\n{child.log}"
        return child.log.strip().rpartition("\n")[2]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_kill_at_any_call_loses_and_strands_nothing(
    nursery: Nursery, sweep_server: RedisServer, scenario: Scenario
) -> None:
    sweep = Sweep(nursery, sweep_server, scenario)

    sweep.run()

    print(f"{scenario.name}: {len(sweep.points)} kill points")
    assert not sweep.failures, "\n".join(sweep.failures)
    assert len(sweep.points) >= 6
