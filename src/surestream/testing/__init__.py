"""Tests of services: the production app in process, under a paused clock (section 8)."""

from __future__ import annotations

from surestream.testing.app import TestApp
from surestream.testing.clock import PausedClock, paused_clock
from surestream.testing.patience import NotSettled
from surestream.testing.records import Call, Message, Settlement, Waiting

__all__ = [
    "Call",
    "Message",
    "NotSettled",
    "PausedClock",
    "Settlement",
    "TestApp",
    "Waiting",
    "paused_clock",
]
