"""Tests of services: the production app in process, under a paused clock (section 8)."""

from __future__ import annotations

from surestream.testing.addresses import Live
from surestream.testing.app import TestApp
from surestream.testing.clock import PausedClock, paused_clock
from surestream.testing.patience import NotSettled
from surestream.testing.records import (
    Call,
    Ended,
    Event,
    Message,
    Settlement,
    Trouble,
    Waiting,
)
from surestream.testing.words import HowSettled, HowWaiting, MessageKind

__all__ = [
    "Call",
    "Ended",
    "Event",
    "HowSettled",
    "HowWaiting",
    "Live",
    "Message",
    "MessageKind",
    "NotSettled",
    "PausedClock",
    "Settlement",
    "TestApp",
    "Trouble",
    "Waiting",
    "paused_clock",
]
