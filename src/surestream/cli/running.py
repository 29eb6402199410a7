"""``surestream run``: from ``MODULE:APP`` to the exit status, in one process."""

from __future__ import annotations

import os
import sys

from surestream.app import App
from surestream.cli.faults import UseError, fault_of, print_fault
from surestream.cli.launch import Launch
from surestream.cli.logs import set_up_logging
from surestream.cli.parent import Parent
from surestream.cli.serving import run_app
from surestream.cli.sharing import refuse_sharing
from surestream.cli.signals import AskedToStop, StopSignals
from surestream.cli.statuses import CLEAN, WRONG_USE
from surestream.cli.suggestions import Invocation
from surestream.cli.target import RUN, find_app
from surestream.declaration import duration
from surestream.errors import DeclarationError

__all__ = ["check_timeout", "import_app", "look_here_first", "run_service"]


def run_service(
    launch: Launch, signals: StopSignals | None = None, parent: Parent | None = None
) -> int:
    """Import the app and run it here; what is wrong is printed, one thing in one line.

    Returns the exit status. Takes the signals of the process over (``signals``, where that was
    done before) and does not give them back: they, and the time limit of the stop, hold until
    the process has ended. ``parent`` is told how far we are.
    """
    signals = signals or StopSignals().install()
    try:
        signals.notify = signals.raise_asked
        if signals.received is not None:
            return CLEAN
        try:
            check_timeout(launch.shutdown_timeout)
            app = import_app(launch.target, factory=launch.factory)
            _refuse_sharing(app, launch.workers)
        except UseError as fault:
            print_fault(fault, with_traceback=launch.log_level == "debug")
            return WRONG_USE
        # After the import: what the user's module has set up is left as it is.
        set_up_logging(launch.log_level, tag=launch.tag)
        signals.notify = signals.only_keep
    except AskedToStop:
        return CLEAN
    return run_app(
        app,
        signals,
        shutdown_timeout=launch.shutdown_timeout,
        parent=parent,
        introduces=launch.introduces,
    )


def import_app(target: str, *, factory: bool, invocation: Invocation = RUN) -> App:
    """The app at ``target``, imported as ``python -c "import service"`` would. Raises
    ``UseError``."""
    look_here_first()
    return find_app(target, factory=factory, invocation=invocation)


def look_here_first() -> None:
    """Let modules of the working directory be found; the script's own folder, which Python puts
    there, is not the user's."""
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 (sys.path holds text)


def check_timeout(seconds: float | None) -> None:
    """Raise ``UseError`` for a ``--shutdown-timeout`` that is none."""
    if seconds is None:
        return
    try:
        duration("--shutdown-timeout", seconds)
    except DeclarationError:
        raise UseError(
            f"--shutdown-timeout {seconds:g} is no time span",
            "write a number of seconds above zero",
        ) from None


def _refuse_sharing(app: App, workers: int) -> None:
    try:
        refuse_sharing(app, workers)
    except DeclarationError as error:
        raise fault_of(error, "--workers") from error
