"""What the crash sweep lets a service do, and what must be true after it (rule 5.3)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from tests.live.crash.child import CAP, DEAD, DELAY_SET, QUARANTINE, STREAM, Task
from tests.live.support import Look, counts

__all__ = ["CUT_SCENARIOS", "SCENARIOS", "Scenario"]

RETRY_COUNT = b"h:x-ruststream-retry-count"
MARK = b"h:x-surestream-for"
GARBAGE = b"\xff no task"


@dataclass(frozen=True)
class Scenario:
    """Messages, and the settings of the child that handles them.

    ``prepared``: a child of the same settings crashes in a handler first. ``first``: settings of
    the child with the kill point alone. ``again``: the one that is started after the kill is
    killed too. ``cases``: the requirements that it shows to hold.
    """

    name: str
    tasks: tuple[Task | bytes, ...]
    child: dict[str, Any] = field(default_factory=dict[str, Any])
    first: dict[str, Any] = field(default_factory=dict[str, Any])
    prepared: bool = False
    again: bool = False
    cases: tuple[str, ...] = ()

    def fill(self, look: Look) -> None:
        """Publish the messages."""
        for task in self.tasks:
            look.add(STREAM, task if isinstance(task, bytes) else msgspec.to_builtins(task))

    def faults(self, look: Look, kills: int) -> list[str]:
        """What rule 5.3 forbids and was found all the same, from Redis alone."""
        found: list[str] = []
        groups = self.child.get("groups", ("g",))
        for group in groups:
            if pending := look.pending(STREAM, group):
                found.append(f"pending in {group}: {pending}")
        if parked := look.parked(DELAY_SET):
            found.append(f"{parked} still parked")
        dead = look.entries(DEAD)
        dead_ids: Counter[int] = Counter(json.loads(one[b"_payload"])["id"] for one in dead)
        for one in dead:
            if int(one[RETRY_COUNT]) != self.child.get("cap", CAP):
                found.append(f"a dead letter with another count: {one}")
        tasks = [task for task in self.tasks if isinstance(task, Task)]
        for group in groups:
            done = counts(look.redis.hgetall(f"done:{group}"))
            runs = look.journal(f"runs:{group}")
            for task in tasks:
                own = [run for run in runs if run["id"] == task.id]
                found += self._about(task, group, own, done.get(str(task.id), 0), kills)
                if task.do == "dead" and group == "g" and not 1 <= dead_ids[task.id] <= 1 + kills:
                    found.append(f"{task}: {dead_ids[task.id]} dead letters")
        garbage = sum(isinstance(task, bytes) for task in self.tasks)
        kept = look.payloads(QUARANTINE)
        if not garbage <= len(kept) <= garbage + kills or set(kept) - {GARBAGE}:
            found.append(f"in quarantine: {kept}")
        copies = [one for one in look.entries(STREAM) if MARK in one]
        if len(copies) > kills:
            found.append(f"{len(copies)} settled copies stay in the stream: {copies}")
        if set(dead_ids) - {task.id for task in tasks if task.do == "dead"}:
            found.append(f"dead letters of others: {dead_ids}")
        return found

    def _about(
        self, task: Task, group: str, runs: list[dict[str, Any]], done: int, kills: int
    ) -> list[str]:
        found: list[str] = []
        cap = self.child.get("cap", CAP)
        alone = group == "g"
        expected = {
            "retry": task.times + 1,
            "after": task.times + 1,
            "dead": cap,
            "crash": task.times + 1,
        }.get(task.do, 1)
        if not alone:
            expected = 1
        if not expected <= len(runs) <= expected + kills:
            found.append(f"{task} in {group}: {len(runs)} runs, not {expected}…{expected + kills}")
        finished = not (alone and task.do == "dead")
        if finished and not 1 <= done <= 1 + kills:
            found.append(f"{task} in {group}: done {done} times")
        attempts = [run["attempt"] for run in runs]
        if attempts != sorted(attempts):
            found.append(f"{task} in {group}: its count went down: {attempts}")
        if alone and task.do == "after":
            for before, after in pairwise(runs):
                if after["attempt"] > before["attempt"]:
                    early = before["at"] + task.delay - after["at"]
                    if early > 0:
                        found.append(f"{task}: {early * 1000:.1f} ms early")
        return found


RECOVERY = (
    Task(1, "crash"),
    Task(2, "retry"),
    GARBAGE,
    Task(3, "after", delay=0.1),
)
FEWER = (Task(1, "crash"), Task(2, "retry"))
HAND_OVER = (
    Task(1, "after", delay=0.4),
    Task(2, "after", delay=0.8),
    Task(3, takes=0.1),
    Task(4),
    Task(5, "retry"),
)
SCENARIOS = (
    Scenario("start", (Task(1),), first={"armed": "at first"}),
    Scenario("retry", (Task(1, "retry"), Task(2), Task(3, "drop"))),
    Scenario("timer", (Task(1, "after", delay=0.15), Task(2)), {"timer": True}),
    Scenario("park and promote", (Task(1, "after", times=2, delay=0.1), Task(2)), cases=("ML-11",)),
    Scenario("dead letter", (Task(1, "dead"), Task(2)), {"cap": 2}, cases=("DU-06",)),
    Scenario("delay and dead", (Task(1, "after", delay=0.1), Task(2, "dead")), {"cap": 3}),
    Scenario("quarantine", (GARBAGE, Task(2), GARBAGE)),
    Scenario("recovery", RECOVERY, prepared=True),
    Scenario("recovery killed twice", FEWER, prepared=True, again=True),
    Scenario("a consumer name of one's own", FEWER, {"consumer": "me"}, prepared=True),
    Scenario("two groups", (Task(1, "retry"), Task(2)), {"groups": ("g", "other")}),
    Scenario("hand-over", HAND_OVER, {"timer": True}, {"until_run": 3, "armed": "stopping"}),
    Scenario("give back", HAND_OVER, first={"until_run": 3, "armed": "stopping"}),
)

CUT_SCENARIOS = tuple(
    scenario
    for scenario in SCENARIOS
    if scenario.name
    in ("start", "retry", "timer", "park and promote", "dead letter", "recovery", "hand-over")
)
"""Those that are run with lost connections too."""
