"""Which ``def`` handlers are told to be under way."""

from __future__ import annotations

from typing import Any, cast

from surestream.testing.recorder import HandlersInThreads, Recorder


class StandIn:
    """A run with threads that nobody waits for any more."""

    threads_busy = 2


def test_calls_that_were_given_up_are_counted() -> None:
    handlers = HandlersInThreads(cast(Any, StandIn()), Recorder())

    assert handlers.under_way == 2
    assert list(handlers.names()) == ["2 of calls that were given up"]
