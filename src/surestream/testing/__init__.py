"""Tests of services: the production app in process, under a paused clock (section 8)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

# pytest imports this package for its plugin in every project that has SureStream installed: the
# rest is imported when a name is asked for.
_MODULES = {
    "addresses": ("Live",),
    "app": ("TestApp",),
    "clock": ("PausedClock", "paused_clock"),
    "patience": ("NotSettled",),
    "records": ("Call", "Ended", "Event", "Message", "Settlement", "Trouble", "Waiting"),
    "words": ("HowSettled", "HowWaiting", "MessageKind"),
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            found: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
