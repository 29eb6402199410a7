"""Watches a run and writes down what happens to every delivery."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import cast

from surestream.contract import Stored
from surestream.delivery import Delivery
from surestream.message import Outgoing
from surestream.outcome import Outcome
from surestream.runtime.lifecycle import Run
from surestream.runtime.observe import Observer
from surestream.runtime.redelivery import Copy, DeadLetter, GiveBack, Leave, Park, Plan
from surestream.runtime.successors import not_before
from surestream.testing.records import (
    Call,
    Ended,
    Event,
    Message,
    Settlement,
    Trouble,
    Waiting,
    mount_of,
)
from surestream.testing.words import HowWaiting, MessageKind

__all__ = ["HandlersInThreads", "Recorder"]


class Recorder(Observer):
    """Keeps one small record for each call, settlement and message. All of them live as long as
    the test does, with the deliveries they point to."""

    def __init__(self) -> None:
        self._now: Callable[[], float] = float
        self.records: list[Event] = []
        """Everything that happened, in order."""
        self.steps = 0
        """Rises with everything that is observed."""
        self._open: dict[Delivery, Call | None] = {}
        self._waiting: dict[Delivery, Waiting] = {}
        self._given_back: dict[tuple[str, str], Delivery] = {}

    def follow(self, now: Callable[[], float]) -> None:
        """Date what happens by ``now``."""
        self._now = now

    def running(self) -> list[Call]:
        """The calls under way."""
        return [call for call in self._open.values() if call is not None and call.ended_at is None]

    def unsettled(self) -> list[Delivery]:
        """What was taken by a worker and is neither settled nor waiting for its time."""
        return [delivery for delivery in self._open if delivery not in self._waiting]

    def waiting(self) -> list[Waiting]:
        """What waits for its time, the first due first."""
        now = self._now()
        for delivery, one in list(self._waiting.items()):
            # Once it is due the broker hands a parked message out under a new name.
            if one.how == "parked" and one.due <= now:
                del self._waiting[delivery]
        return sorted(self._waiting.values(), key=lambda one: one.due)

    # -- Observer -------------------------------------------------------------------------

    def arrived(self, delivery: Delivery) -> None:
        self.steps += 1
        self._open[delivery] = None
        # A message that was given back comes again under its name.
        before = self._given_back.pop((delivery.subscription, delivery.id), None)
        if before is not None:
            self._waiting.pop(before, None)
        if delivery.special:
            self._waiting.pop(delivery, None)
            wait = not_before(delivery)
            if wait > 0:
                self._wait(delivery, wait, "hand-over")

    def called(self, delivery: Delivery, attempt: int, value: object) -> None:
        self.steps += 1
        call = Call(self._now(), delivery, value)
        self._open[delivery] = call
        self.records.append(call)

    def returned(
        self, delivery: Delivery, outcome: Outcome | None, error: BaseException | None
    ) -> None:
        self.steps += 1
        call = self._open.get(delivery)
        if call is not None:
            now = self._now()
            call.outcome = outcome
            call.error = error
            call.ended_at = now
            if not call.at_once:
                self.records.append(Ended(now, call))
        if outcome is None:
            self._open.pop(delivery, None)

    def undecodable(self, delivery: Delivery, error: Exception) -> None:
        self.steps += 1
        self.records.append(Trouble(self._now(), delivery, "undecodable", error))

    def planned(self, delivery: Delivery, plan: Plan, after: float) -> None:
        self.steps += 1
        call = self._open.get(delivery)
        if call is not None:
            call.plan = plan
            call.due = self._now() + after if after > 0 else None
        if isinstance(plan, Leave):
            self._wait(delivery, math.inf, "left")
        elif after > 0 and isinstance(plan, Copy | DeadLetter):
            settled_first = isinstance(plan, Copy) and plan.settle_first
            self._wait(delivery, after, "timer" if settled_first else "held")

    def settled(self, delivery: Delivery, plan: Plan, stored: Stored | None) -> None:
        self.steps += 1
        if stored is not None or not isinstance(plan, Copy):
            self._waiting.pop(delivery, None)
        if delivery not in self._open:
            return  # Settled first (rule 5.7), and now its copy is stored.
        call = self._open.pop(delivery)
        outcome = None if call is None else call.outcome
        self.records.append(Settlement(self._now(), delivery, outcome, plan, stored))
        if stored is Stored.OVERTAKEN:
            return
        if isinstance(plan, GiveBack) and plan.after > 0:
            self._given_back[delivery.subscription, delivery.id] = delivery
            self._wait(delivery, plan.after, "given back")
        elif isinstance(plan, Park):
            self._wait(delivery, plan.after, "parked")

    def held(self, delivery: Delivery, error: Exception) -> None:
        self.steps += 1
        self.records.append(Trouble(self._now(), delivery, "not stored", error))
        self._wait(delivery, math.inf, "not stored")

    def published(self, message: Outgoing, kind: str) -> None:
        self.steps += 1
        self.records.append(Message(self._now(), message, cast("MessageKind", kind)))

    def _wait(self, delivery: Delivery, after: float, how: HowWaiting) -> None:
        now = self._now()
        self._waiting[delivery] = Waiting(now, delivery, now + after, how)


class HandlersInThreads:
    """The ``def`` handlers of a run that are under way."""

    def __init__(self, run: Run, recorder: Recorder) -> None:
        self._run = run
        self._recorder = recorder

    @property
    def under_way(self) -> int:
        return self._run.threads_busy

    def names(self) -> Iterable[str]:
        given_up = self.under_way
        for call in self._recorder.running():
            mounted = mount_of(call.delivery)
            if mounted is not None and not mounted.call.is_async:
                given_up -= 1
                yield f"{call.handler} ({call.subscription} {call.id} attempt {call.attempt})"
        if given_up > 0:
            yield f"{given_up} of calls that were given up"
