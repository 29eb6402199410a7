"""The process that started this one, as this one sees it: it wants to know how far we are, and
when it is gone nobody watches any more."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Final

from surestream.cli.signals import StopSignals, leave_at_once, say
from surestream.cli.statuses import signaled

__all__ = ["END_NOW", "Parent"]

END_NOW: Final = b"now\n"
"""What a parent writes when the process shall end at once."""


class Parent:
    """One end of a socket pair; the other is held by the parent alone, so that its death, of
    whatever kind, ends the stream."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        # Or what the user's code starts would hold it open.
        self._socket.set_inheritable(False)

    def watch(self, signals: StopSignals) -> None:
        """Stop gracefully when the parent is gone, at once when it says so; from now on a second
        signal means nothing, as one may come from a terminal and from the parent."""
        signals.again = signals.ignore
        threading.Thread(
            target=self._watch, args=(signals,), name="surestream parent", daemon=True
        ).start()

    def tell_limit(self, seconds: float) -> None:
        """A stop takes ``seconds`` at most."""
        self._tell(f"limit {seconds!r}\n")

    def tell_running(self) -> None:
        """The service is up."""
        self._tell("running\n")

    def _tell(self, text: str) -> None:
        try:
            self._socket.sendall(text.encode())
        except OSError:
            # The parent is gone, which _watch notices.
            return

    def _watch(self, signals: StopSignals) -> None:
        heard = b""
        while True:
            try:
                data = self._socket.recv(64)
            except OSError:
                data = b""
            heard += data
            if END_NOW in heard:
                leave_at_once(signaled(signal.SIGTERM), None)
            if not data:
                break
        if signals.received is None:
            say(f"process {os.getpid()}: the process that started it is gone: stopping")
            # To the main thread: it may wait in a system call that only a signal interrupts.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
