"""A message that kills its process is buried, and takes nobody with it (rules 3.5 and 3.6)."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tests.live.crash.child import CRASHED, DEAD, STREAM, Task
from tests.live.support import Child, Look, Nursery, StartChild, counts, until

GOOD = 63
KILLER = 20
SERVE = "tests.live.crash.child:serve"


@pytest.fixture
def look(redis_url: str) -> Look:
    """The shared server with a killer among 63 good messages on it."""
    look = Look(redis_url)
    for number in range(GOOD + 1):
        task = Task(number, "crash", times=99) if number == KILLER else Task(number)
        look.add(STREAM, msgspec.to_builtins(task))
    return look


def supervise(start: StartChild, look: Look, **settings: object) -> int:
    """Start it again for as long as it crashes; how often it did."""
    crashes = 0
    while (status := start(SERVE, url=look.url, **settings).wait(40)) == CRASHED:
        crashes += 1
        assert crashes < 20, "no end of it"
    assert status == 0
    return crashes


def runs_of(look: Look) -> Counter[int]:
    return Counter(run["id"] for run in look.journal("runs:g"))


def the_good_were_handled(look: Look, kills: int) -> None:
    done = counts(look.redis.hgetall("done:g"))
    assert set(done) == {str(number) for number in range(GOOD + 1) if number != KILLER}
    # What was done and not acknowledged when the process died is done again.
    assert max(done.values()) <= 1 + kills
    assert look.pending(STREAM, "g") == []


def the_killer_is_buried(look: Look, count: int) -> None:
    (dead,) = look.entries(DEAD)
    assert msgspec.json.decode(dead[b"_payload"])["id"] == KILLER
    assert dead[b"h:x-ruststream-retry-count"] == b"%d" % count
    assert dead[b"h:x-surestream-dead-reason"] == b"crashed"


@pytest.mark.rule("3.5", "3.6", "6.4")
@pytest.mark.parametrize("workers", [1, 4])
def test_a_killer_among_63_is_dead_and_63_are_handled(
    start: StartChild, look: Look, workers: int
) -> None:
    crashes = supervise(start, look, workers=workers, cap=3)

    assert crashes == runs_of(look)[KILLER] == 3
    the_good_were_handled(look, crashes)
    the_killer_is_buried(look, 3)


@pytest.mark.rule("3.6")
def test_with_a_cap_of_1_no_neighbor_was_fetched_with_the_killer(
    start: StartChild, look: Look
) -> None:
    crashes = supervise(start, look, workers=1, cap=1)

    assert crashes == runs_of(look)[KILLER] == 1
    the_good_were_handled(look, crashes)
    the_killer_is_buried(look, 1)


@pytest.mark.rule("3.5", "3.6")
def test_two_supervised_processes_lose_no_neighbor_either(nursery: Nursery, look: Look) -> None:
    """The one that did not crash takes over what the other one left."""

    def started() -> Child:
        return nursery.start(SERVE, url=look.url, workers=2, cap=3)

    pair = [started(), started()]
    crashes = 0

    def both_came_to_the_end() -> bool:
        nonlocal crashes
        for place, child in enumerate(pair):
            if child.status == CRASHED:
                crashes += 1
                pair[place] = started()
        return all(child.status == 0 for child in pair)

    until(both_came_to_the_end, 30, lambda: [child.log for child in pair])

    assert crashes == runs_of(look)[KILLER] == 3
    the_good_were_handled(look, crashes)
    the_killer_is_buried(look, 3)


@pytest.mark.rule("3.5")
def test_killers_without_a_destination_are_rejected(start: StartChild, redis_url: str) -> None:
    look = Look(redis_url)
    for task in (Task(0), Task(1, "crash", times=99), Task(2, "crash", times=99), Task(3)):
        look.add(STREAM, msgspec.to_builtins(task))

    crashes = supervise(start, look, cap=2, dead=False)

    runs = runs_of(look)
    assert runs[1] == 2
    # The server counts fetches: it was fetched along with the first one, and not run.
    assert 1 <= runs[2] <= 2
    assert crashes == runs[1] + runs[2]
    assert runs[0] <= 1 + crashes
    assert runs[3] <= 1 + crashes
    assert look.pending(STREAM, "g") == []
    assert look.redis.exists(DEAD) == 0
