"""What the exit status of the process tells."""

from __future__ import annotations

import signal
from typing import Final

__all__ = ["CLEAN", "FAILED", "WRONG_USE", "signaled"]

CLEAN: Final = 0
"""It stopped because it was asked to, also where that was before it ran; or it published."""
FAILED: Final = 1
"""A broker could not be reached or did not confirm, the service failed while it ran, or it did
not end in time."""
WRONG_USE: Final = 2
"""Nothing to run at ``MODULE:APP``, or a declaration that was refused."""


def signaled(number: int) -> int:
    """The status of a process that a second signal ended, or of a worker that any killed, as
    shells count it: 128 and the signal's number."""
    return 128 + int(signal.Signals(number))
