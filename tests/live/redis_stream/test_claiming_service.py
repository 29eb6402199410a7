"""Claiming as a service in processes that die (section 6, rules 3.5, 3.6, 5.3)."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.live.redis_stream.claiming_child import KILLED, Task
from tests.live.support import PATIENCE, Look, Nursery, StartChild, children_of, until
from tests.servers import RedisServer

SERVE = "tests.live.redis_stream.claiming_child:serve"
COUNT = b"h:x-ruststream-retry-count"
REASON = b"h:x-surestream-dead-reason"


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """What starts the services."""
    nursery = Nursery(tmp_path_factory.mktemp("children"), "tests.live.redis_stream.claiming_child")
    yield nursery
    nursery.close()


@pytest.fixture
def start(nursery: Nursery) -> Iterator[StartChild]:
    """Start a service, killed with the test."""
    yield from children_of(nursery)


@pytest.fixture
def look(own_redis: RedisServer) -> Iterator[Look]:
    """A server of the test's own, seen from outside."""
    look = Look(own_redis.url)
    yield look
    look.close()


def add(look: Look, *tasks: Task) -> dict[int, str]:
    """Publish tasks; the ids of their entries."""
    return {task.id: look.add("tasks", msgspec.to_builtins(task)) for task in tasks}


def runs(look: Look) -> dict[int, list[dict[str, Any]]]:
    """What ran, by task."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for run in look.journal():
        found[run["id"]].append(run)
    return found


def all_settled(look: Look) -> bool:
    """Whether nothing is pending or unread."""
    return not look.pending("tasks", "g") and not look.unread("tasks")


def keep_running(start: StartChild, look: Look, *, dead: int, **options: Any) -> int:
    """A service that is started again each time a message kills it, until there are so many dead
    letters and everything is settled. Returns how often it was killed."""
    kills = 0
    child = start(SERVE, url=look.url, **options)
    limit = time.monotonic() + PATIENCE
    while look.length("tasks.dlq") < dead or not all_settled(look):
        assert time.monotonic() < limit, child.log
        if child.status is not None:
            assert child.status == KILLED, child.log
            kills += 1
            child = start(SERVE, url=look.url, **options)
        time.sleep(0.01)
    return kills


@pytest.mark.rule("3.2")
def test_an_entry_written_by_hand_ends_after_five_deliveries(start: StartChild, look: Look) -> None:
    start(SERVE, url=look.url)
    until(lambda: look.redis.exists("tasks"))
    entry = look.redis.execute_command(
        "XADD", "tasks", "*", "_payload", '{"id":8,"do":"retry"}'
    ).decode()

    until(lambda: look.length("tasks.dlq"))

    mine = runs(look)[8]
    assert [run["attempt"] for run in mine] == [1, 2, 3, 4, 5]
    assert {run["entry"] for run in mine} == {entry}
    assert all(later["at"] - sooner["at"] >= 0.3 for sooner, later in pairwise(mine))
    (dead,) = look.entries("tasks.dlq")
    assert dead[b"_payload"] == b'{"id":8,"do":"retry"}'
    assert dead[COUNT] == b"5"
    until(lambda: all_settled(look))
    assert look.length("tasks") == 1


@pytest.mark.case("WC-03")
@pytest.mark.rule("3.5", "3.6")
def test_a_killer_gets_its_five_runs_and_its_neighbors_are_unharmed(
    start: StartChild, look: Look
) -> None:
    """63 good messages around it, all read ahead when the first worker dies."""
    entries = add(look, *(Task(n, "kill" if n == 5 else "ack") for n in range(64)))

    assert keep_running(start, look, dead=1) == 5

    ran = runs(look)
    assert [run["attempt"] for run in ran[5]] == [1, 2, 3, 4, 5]
    assert {run["entry"] for run in ran[5]} == {entries[5]}
    (dead,) = look.entries("tasks.dlq")
    assert json.loads(dead[b"_payload"])["id"] == 5
    assert (dead[COUNT], dead[REASON]) == (b"5", b"crashed")
    neighbors = {n: ran[n] for n in range(64) if n != 5}
    assert all(neighbors.values())
    # Those before it may have run once more: their acknowledgement was not written yet.
    assert all(len(neighbors[n]) == 1 for n in range(6, 64))


@pytest.mark.rule("3.6")
def test_two_killers_bury_nobody_but_themselves(start: StartChild, look: Look) -> None:
    add(look, *(Task(n, "kill" if n in (3, 40) else "ack") for n in range(64)))

    kills = keep_running(start, look, dead=2, workers=4)

    dead = sorted(json.loads(one[b"_payload"])["id"] for one in look.entries("tasks.dlq"))
    assert dead == [3, 40]
    ran = runs(look)
    assert all(ran[n] for n in range(64))
    assert 5 <= kills <= 10
    assert max(len(ran[n]) for n in dead) <= 5


def test_three_workers_share_the_retries_and_double_none(start: StartChild, look: Look) -> None:
    for _ in range(3):
        start(SERVE, url=look.url, workers=2)
    tasks = [Task(n, "retry", times=n % 4) for n in range(60)]
    add(look, *tasks)

    until(lambda: look.redis.exists("journal") and all_settled(look))

    ran = runs(look)
    for task in tasks:
        assert [run["attempt"] for run in ran[task.id]] == list(range(1, task.times + 2))
        early = [b["at"] - a["at"] for a, b in pairwise(ran[task.id]) if b["at"] - a["at"] < 0.3]
        assert not early
    assert look.length("tasks.dlq") == 0
    assert len({run["pid"] for runs_of in ran.values() for run in runs_of}) > 1


@pytest.mark.case("DU-01")
def test_with_a_delay_set_a_delay_beyond_min_idle_is_served_once(
    start: StartChild, look: Look
) -> None:
    for _ in range(3):
        start(SERVE, url=look.url, delays="tasks.delayed")
    tasks = [Task(n, "after", times=1, delay=1.0 + n / 20) for n in range(20)]
    add(look, *tasks)

    until(lambda: look.redis.exists("journal"))
    until(lambda: look.at_rest("tasks", ("g",), "tasks.delayed"))

    ran = runs(look)
    late = []
    for task in tasks:
        first, second = ran[task.id]
        assert (first["attempt"], second["attempt"]) == (1, 2)
        assert second["at"] - first["at"] >= task.delay
        late.append(second["at"] - first["at"] - task.delay)
    assert sorted(late)[len(late) // 2] < 0.2
    # Copies are gone once they are settled.
    assert look.length("tasks") == len(tasks)


@pytest.mark.rule("3.1", "3.5")
def test_a_killer_with_a_delay_set_gets_no_sixth_run(start: StartChild, look: Look) -> None:
    """Two attempts were spent before the delay set; three are left for it to kill in."""
    add(look, *(Task(n) for n in range(20)))
    look.redis.xadd(
        "tasks",
        {
            "_payload": json.dumps({"id": 99, "do": "kill"}),
            "h:x-ruststream-retry-count": "2",
            "h:x-surestream-for": "tasks/g",
        },
    )

    assert keep_running(start, look, dead=1, delays="tasks.delayed") == 3

    attempts = [run["attempt"] for run in runs(look)[99]]
    assert attempts == [3, 4, 5]
    (dead,) = look.entries("tasks.dlq")
    assert dead[COUNT] == b"5"


@pytest.mark.rule("6.2")
def test_a_handler_longer_than_min_idle_is_not_doubled(start: StartChild, look: Look) -> None:
    for _ in range(3):
        start(SERVE, url=look.url, workers=2)
    add(look, *(Task(n, takes=1.5) for n in range(4)))

    until(lambda: look.redis.exists("journal") and all_settled(look))

    assert Counter(run["id"] for run in look.journal()) == Counter(range(4))


@pytest.mark.case("SD-01")
@pytest.mark.rule("7.4")
def test_what_a_stopping_worker_did_not_start_runs_elsewhere_at_once(
    start: StartChild, look: Look
) -> None:
    """Long before ``min_idle``, and its delivery is not counted."""
    child = start(SERVE, url=look.url, min_idle=30)
    add(look, *(Task(n, takes=0.3) for n in range(10)))
    until(lambda: len(look.journal()) == 2)
    assert child.stop() == 0

    start(SERVE, url=look.url, min_idle=30)
    until(lambda: all_settled(look), within=15)

    ran = runs(look)
    assert sorted(ran) == list(range(10))
    assert all([run["attempt"] for run in runs_of] == [1] for runs_of in ran.values())


@pytest.mark.case("HL-02")
def test_with_nothing_to_claim_it_asks_about_once_a_second(start: StartChild, look: Look) -> None:
    start(SERVE, url=look.url, min_idle=0.2)
    until(lambda: look.redis.exists("tasks"))
    time.sleep(3)  # what a start asks, and the time for which it counts as busy
    before = commands(look)
    time.sleep(5)
    asked = commands(look) - before

    print(f"{asked / 5:.1f} commands a second")
    assert asked < 25, asked


def commands(look: Look) -> int:
    """What the server did for the service; what we ask ourselves does not count."""
    table = look.redis.info("commandstats")
    return sum(row["calls"] for name, row in table.items() if name not in ("cmdstat_info",))
