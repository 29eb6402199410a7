"""``surestream run``: from ``MODULE:APP`` to the exit status."""

from __future__ import annotations

import os
import sys
import traceback

from surestream.app import App
from surestream.cli.faults import UseError, from_user_code
from surestream.cli.logs import set_up_logging
from surestream.cli.serving import run_app
from surestream.cli.signals import AskedToStop, StopSignals
from surestream.cli.statuses import CLEAN, WRONG_USE
from surestream.cli.target import find_app
from surestream.cli.text import one_line, without_secrets
from surestream.declaration import duration
from surestream.errors import DeclarationError

__all__ = ["run_target"]


def run_target(
    target: str,
    *,
    factory: bool = False,
    log_level: str | None = None,
    shutdown_timeout: float | None = None,
) -> int:
    """Import the app at ``target`` and run it; what is wrong is printed, one thing in one line.

    Returns the exit status. Takes the signals of the process over and does not give them back:
    they, and the time limit of the stop, hold until the process has ended.
    """
    signals = StopSignals().install()
    try:
        signals.notify = signals.raise_asked
        try:
            app = _app(target, factory, shutdown_timeout)
        except UseError as fault:
            _print(fault, with_traceback=log_level == "debug")
            return WRONG_USE
        # After the import: what the user's module has set up is left as it is.
        set_up_logging(log_level)
        signals.notify = signals.only_keep
    except AskedToStop:
        return CLEAN
    return run_app(app, signals, shutdown_timeout=shutdown_timeout)


def _print(fault: UseError, *, with_traceback: bool) -> None:
    cause = fault.__cause__
    if cause is not None and with_traceback:
        for line in "".join(traceback.format_exception(from_user_code(cause))).splitlines():
            print(f"    {one_line(without_secrets(line))}", file=sys.stderr)
    print(f"surestream: {fault}", file=sys.stderr)
    if not (cause is None or with_traceback or isinstance(cause, DeclarationError)):
        print("  --log-level debug shows the traceback", file=sys.stderr)


def _app(target: str, factory: bool, shutdown_timeout: float | None) -> App:
    if shutdown_timeout is not None:
        try:
            duration("--shutdown-timeout", shutdown_timeout)
        except DeclarationError:
            raise UseError(
                f"--shutdown-timeout {shutdown_timeout:g} is no time span",
                "write a number of seconds above zero",
            ) from None
    # The same module as `python -c "import service"` finds; the script's own folder is not it.
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 (sys.path holds text)
    return find_app(target, factory=factory)
