"""The words that the records of a test use: what a type checker knows of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from surestream.runtime.redelivery import (
    Acknowledge,
    Copy,
    DeadLetter,
    Discard,
    GiveBack,
    Leave,
    Park,
    Plan,
    Quarantine,
    Reply,
)

__all__ = ["Fault", "HowSettled", "HowWaiting", "MessageKind", "PlanWord", "excerpt", "how"]

PlanWord: TypeAlias = Literal[
    "ack",
    "drop",
    "rejected",
    "lost",
    "given back",
    "left",
    "copy",
    "parked",
    "dead letter",
    "quarantine",
]
"""What the runtime makes of a delivery: "rejected" is a cap without destination, "lost" what the
source cannot give again, "left" what stays unacknowledged until the next session."""

HowSettled: TypeAlias = PlanWord | Literal["overtaken"]
"""How a delivery was settled. "overtaken": nothing was done (rule 5.4)."""

MessageKind: TypeAlias = Literal[
    "publish", "reply", "copy", "delay", "dead letter", "quarantine", "hand-over"
]
"""Why a message was stored: "delay" to come back later, "hand-over" at a stop (rule 5.8)."""

HowWaiting: TypeAlias = Literal[
    "timer", "held", "parked", "given back", "left", "not stored", "hand-over"
]
"""Who keeps a message that waits: "timer" (this process; a kill loses it), "held" (this process,
the original unsettled), "parked" (the broker stores the delay), "given back" (the broker hands it
out again), "left" (unacknowledged until the next session), "not stored" (the broker did not take
the successor yet), "hand-over" (a copy that the process before this one was holding, rule 5.8)."""

Fault: TypeAlias = Literal["undecodable", "not stored"]
"""What went wrong with a delivery, where it was no handler."""


def how(plan: Plan) -> PlanWord:
    """A plan in words."""
    match plan:
        case Acknowledge() | Reply():
            return "ack"
        case Discard(lost=True):
            return "lost"
        case Discard(attempts_spent=True):
            return "rejected"
        case Discard():
            return "drop"
        case GiveBack():
            return "given back"
        case Leave():
            return "left"
        case Copy():
            return "copy"
        case Park():
            return "parked"
        case DeadLetter():
            return "dead letter"
        case Quarantine():
            return "quarantine"


def excerpt(payload: bytes, limit: int = 60) -> str:
    """The begin of a payload, readable."""
    text = payload[:limit].decode("utf-8", "backslashreplace")
    return f"{text}…" if len(payload) > limit else text
