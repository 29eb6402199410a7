"""``python -m surestream.cli.child MODULE:APP {…}``: what runs in a process that another
``surestream run`` started, with ``--workers`` or ``--reload``."""

from __future__ import annotations

import signal
import sys

from surestream.cli.launch import Launch
from surestream.cli.parent import Parent
from surestream.cli.running import run_service
from surestream.cli.signals import StopSignals

__all__ = ["run_child"]


def run_child(launch: Launch) -> int:
    """Run the service under the parent at the other end of ``launch.channel``; return the exit
    status."""
    signals = StopSignals().install()
    parent = None
    if launch.channel is not None:
        parent = Parent(launch.channel)
        parent.watch(signals)
    # The parent held them back: before there were handlers, they would have ended the process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, StopSignals.NUMBERS)
    return run_service(launch, signals, parent)


if __name__ == "__main__":
    sys.exit(run_child(Launch.parsed(sys.argv[2])))
