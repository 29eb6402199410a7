"""A kill or a lost connection at any call that a claiming service makes (rule 5.3)."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from tests.live.crash.points import CUT, CUTS, KILLED, KILLS, How
from tests.live.redis_stream.claiming_child import Task, settled
from tests.live.support import Look, Nursery, counts
from tests.servers import RedisServer

pytestmark = pytest.mark.rule("5.3")

STRIKE = "tests.live.redis_stream.claiming_child:strike"
AT_A_TIME = 14
CAP = 3
TASKS = (Task(1), Task(2, "retry", times=1), Task(3, "retry"), Task(4, "after", times=1, delay=0.4))
DEAD = {3}


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """What starts the services."""
    folder: Path = tmp_path_factory.mktemp("children")
    nursery = Nursery(folder, "tests.live.redis_stream.claiming_child")
    yield nursery
    nursery.close()


class Sweep:
    """Strikes at every call, in each of ``ways``; each time in an empty database."""

    def __init__(self, nursery: Nursery, server: RedisServer, delays: str | None) -> None:
        self._nursery = nursery
        self._url = server.url.rpartition("/")[0]
        self._delays = delays
        self._lock = threading.Lock()
        self._free = list(range(AT_A_TIME))
        self.points: list[str] = []
        self.failures: list[str] = []

    def run(self, how: How) -> None:
        """Until a run is over before it was struck, several at a time."""
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for first in itertools.count(1, AT_A_TIME):
                numbers = range(first, first + AT_A_TIME)
                if not all(pool.map(lambda number: self._one(how, number), numbers)):
                    return

    def _one(self, how: How, number: int) -> bool:
        with self._lock:
            database = self._free.pop()
        look = Look(f"{self._url}/{database}")
        try:
            return self._strike(look, how, number)
        except AssertionError as error:
            self.failures.append(f"{how} call {number}: {error}")
            return True
        finally:
            look.redis.flushdb()
            look.close()
            with self._lock:
                self._free.append(database)

    def _strike(self, look: Look, how: How, number: int) -> bool:
        settings = {"cap": CAP, "delays": self._delays, "min_idle": 0.2}
        for task in TASKS:
            look.add("tasks", msgspec.to_builtins(task))
        child = self._nursery.start(STRIKE, url=look.url, how=how, number=number, **settings)
        status = child.wait(40)
        struck = status in (KILLED, CUT)
        assert struck or status == 0, f"ended with {status}:\n{child.log[-3000:]}"
        if status == KILLED:
            second = self._nursery.start(STRIKE, url=look.url, how=how, number=0, **settings)
            again = second.wait(40)
            assert again == 0, f"then {again}:\n{second.log[-3000:]}"
        if struck:
            self.points.append(child.log.strip().rpartition("\n")[2])
        assert settled(look)
        self._judge(look, int(struck), child.log)
        return struck

    def _judge(self, look: Look, faults: int, log: str) -> None:
        runs = Counter(run["id"] for run in look.journal())
        done = counts(look.redis.hgetall("done"))
        dead = Counter(json.loads(one[b"_payload"])["id"] for one in look.entries("tasks.dlq"))
        # Without a delay set the server counts every delivery: not even a kill adds a run.
        extra = faults if self._delays else 0
        for task in TASKS:
            what = f"{task}: {runs[task.id]} runs\n{log[-3000:]}"
            if task.id in DEAD:
                assert 1 <= dead[task.id] <= 1 + faults, what
                assert 1 <= runs[task.id] <= CAP + extra, what
            else:
                assert 1 <= done[str(task.id)] <= 1 + faults, what
                assert 1 <= runs[task.id] <= task.times + 1 + faults or task.do == "ack", what
                assert dead[task.id] == 0, what
        spent = {one[b"h:x-ruststream-retry-count"] for one in look.entries("tasks.dlq")}
        assert spent == {b"%d" % CAP}, log[-3000:]
        copies = [one for one in look.entries("tasks") if b"h:x-surestream-for" in one]
        assert len(copies) <= faults, f"{copies}\n{log[-3000:]}"


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("how", "delays"),
    [
        *((how, None) for how in (*KILLS, *CUTS)),
        # What the delay set adds; its own scripts are swept with the plain stream.
        ("kill after", "tasks.delayed"),
        ("cut after", "tasks.delayed"),
    ],
)
def test_nothing_is_lost_or_stranded(
    nursery: Nursery, own_redis: RedisServer, how: How, delays: str | None
) -> None:
    sweep = Sweep(nursery, own_redis, delays)

    sweep.run(how)

    print(f"{len(sweep.points)} points")
    assert not sweep.failures, "\n\n".join(sweep.failures[:3])
    assert len(sweep.points) >= 6
