"""A process that was paused and overtaken does no harm when it goes on (rule 5.4)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.live.crash.child import DEAD, DELAY_SET, STREAM, Task
from tests.live.support import Child, Look, Nursery, until

pytestmark = pytest.mark.rule("5.4")

SERVE = "tests.live.crash.child:serve"


class Pair:
    """Two processes; the first one is in the middle of the only message, and then paused."""

    def __init__(self, nursery: Nursery, look: Look) -> None:
        self._nursery = nursery
        self.look = look
        self.children: list[Child] = []

    def start(self, **settings: object) -> Child:
        child = self._nursery.start(SERVE, url=self.look.url, forever=True, lease=1.0, **settings)
        self.children.append(child)
        until(lambda: ": running" in child.log, why=lambda: child.log)
        return child

    def in_the_middle(self, task: Task, *, spent: int = 0, **settings: object) -> Child:
        """The first one, paused while it runs ``task``."""
        first = self.start(**settings)
        headers = {"x-ruststream-retry-count": str(spent)} if spent else {}
        self.look.add(STREAM, msgspec.to_builtins(task), **headers)
        until(lambda: len(self.runs()) == 1, why=lambda: first.log)
        first.pause()
        return first

    def overtaken(
        self,
        task: Task,
        *,
        spent: int = 0,
        other: dict[str, Any] | None = None,
        **settings: object,
    ) -> tuple[Child, Child]:
        """The paused one, and the one that has taken its message over and runs it: as it says,
        or with ``other`` fields."""
        first = self.in_the_middle(task, spent=spent, **settings)
        second = self.start(instead=other, **settings)
        until(lambda: len(self.runs()) == 2, why=lambda: second.log)
        return first, second

    def runs(self) -> list[dict[str, Any]]:
        return self.look.journal("runs:g")

    def settled(self) -> bool:
        return self.look.at_rest(STREAM, ("g",), DELAY_SET)

    def decided(self, child: Child) -> None:
        """Wait until its handler has ended and what it decided is done with."""
        ended = self.look.redis.lrange("ended", 0, -1)
        assert str(child.pid).encode() not in ended
        child.resume()
        until(
            lambda: str(child.pid).encode() in self.look.redis.lrange("ended", 0, -1),
            why=lambda: child.log,
        )
        # A graceful stop waits for what is under way.
        assert child.stop() == 0, child.log


@pytest.fixture
def pair(nursery: Nursery, redis_url: str) -> Iterator[Pair]:
    pair = Pair(nursery, Look(redis_url))
    yield pair
    for child in pair.children:
        child.send(signal.SIGKILL)
    for child in pair.children:
        child.wait()


@pytest.mark.parametrize("timer", [True, False], ids=["timer", "zset"])
@pytest.mark.parametrize("do", ["retry", "after"])
def test_one_copy_of_a_message_that_two_wanted_to_retry(pair: Pair, do: Any, timer: bool) -> None:
    task = Task(1, do, delay=0.1, takes=0.3)
    first, second = pair.overtaken(task, timer=timer)
    until(lambda: len(pair.runs()) == 3 and pair.settled(), why=lambda: second.log)

    pair.decided(first)

    assert pair.settled()
    assert [run["attempt"] for run in pair.runs()] == [1, 1, 2]
    assert pair.look.redis.hget("done:g", "1") == b"1"


def test_one_dead_letter_of_a_message_that_two_gave_up(pair: Pair) -> None:
    first, second = pair.overtaken(Task(1, "dead", takes=0.3), spent=1, cap=2)
    until(pair.settled, why=lambda: second.log)

    pair.decided(first)

    (dead,) = pair.look.entries(DEAD)
    assert dead[b"h:x-ruststream-retry-count"] == b"2"
    assert len(pair.runs()) == 2


def test_what_was_buried_for_the_paused_one_is_not_buried_again(pair: Pair) -> None:
    first = pair.in_the_middle(Task(1, "dead", takes=0.3), cap=1)
    second = pair.start(cap=1)
    until(lambda: pair.look.length(DEAD), why=lambda: second.log)

    pair.decided(first)

    (dead,) = pair.look.entries(DEAD)
    assert dead[b"h:x-surestream-dead-reason"] == b"crashed"
    assert len(pair.runs()) == 1
    assert pair.settled()


def test_a_late_acknowledgement_after_the_other_is_done_is_harmless(pair: Pair) -> None:
    first, _ = pair.overtaken(Task(1, takes=0.3))
    until(pair.settled)

    pair.decided(first)

    assert pair.settled()
    assert pair.look.redis.exists(DEAD) == 0
    assert len(pair.runs()) == 2


def test_a_late_acknowledgement_while_the_other_still_runs_settles_for_both(pair: Pair) -> None:
    """The work is done: what the other one decides later does nothing."""
    first, second = pair.overtaken(Task(1, takes=0.3), other={"do": "retry", "takes": 1.5})

    pair.decided(first)
    assert pair.look.pending(STREAM, "g") == []
    assert second.stop() == 0, second.log

    assert [run["attempt"] for run in pair.runs()] == [1, 1]
    assert pair.look.length(STREAM) == 1
