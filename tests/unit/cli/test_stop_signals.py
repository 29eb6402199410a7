"""The first signal is taken; what the second does is shown by processes of their own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from surestream.app import App
from surestream.cli import serve
from surestream.cli.signals import AskedToStop, StopSignals
from surestream.errors import DeclarationError

pytestmark = pytest.mark.rule("7.3")


@pytest.fixture
def signals() -> Iterator[StopSignals]:
    signals = StopSignals().install()
    yield signals
    signals.restore()


@pytest.mark.case("SD-05")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_handlers_are_python_functions_as_process_1_has_no_default_ones(
    signals: StopSignals, number: signal.Signals
) -> None:
    assert callable(signal.getsignal(number))
    assert signal.getsignal(number) is not signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_first_one_is_kept_told_and_starts_the_time(
    signals: StopSignals, number: signal.Signals
) -> None:
    told: list[signal.Signals | None] = []
    signals.notify = lambda: told.append(signals.received)

    signal.raise_signal(number)

    assert told == [number]
    assert signals.deadline.armed


def test_first_one_before_anything_runs_is_raised(signals: StopSignals) -> None:
    signals.notify = signals.raise_asked

    with pytest.raises(AskedToStop):
        signal.raise_signal(signal.SIGTERM)

    assert signals.received is signal.SIGTERM


def test_further_ones_go_where_it_says(signals: StopSignals) -> None:
    told: list[signal.Signals] = []
    signals.again = told.append
    signal.raise_signal(signal.SIGTERM)

    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)

    assert told == [signal.SIGINT, signal.SIGTERM]
    assert signals.received is signal.SIGTERM


def test_without_a_limit_no_time_runs(signals: StopSignals) -> None:
    signals.limit = None

    signal.raise_signal(signal.SIGTERM)

    assert not signals.deadline.armed


def test_restoring_gives_the_handlers_back_and_stops_the_time() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    signals = StopSignals().install()
    signal.raise_signal(signal.SIGTERM)

    signals.restore()

    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert not signals.deadline.armed
    assert "surestream deadline" not in {
        thread.name for thread in threading.enumerate() if not thread.daemon
    }


async def test_serve_inside_a_running_loop_is_refused() -> None:
    with pytest.raises(DeclarationError) as refusal:
        serve(App("refunds"))

    assert str(refusal.value).splitlines() == [
        "refused: serve(app) inside a running event loop",
        "  why:   it runs an event loop of its own",
        "  write: async with app.running(): …",
    ]


def test_serve_outside_the_main_thread_is_refused() -> None:
    told: list[str] = []

    def attempt() -> None:
        try:
            serve(App("refunds"))
        except DeclarationError as error:
            told.extend(str(error).splitlines())

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join(10)

    assert told == [
        "refused: serve(app) outside the main thread",
        "  why:   signals arrive in the main thread only",
        "  write: async with app.running(): …",
    ]
