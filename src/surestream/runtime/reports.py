"""The log lines of a subscription: one per event, bounded, safe against forged text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from surestream.delivery import Delivery
from surestream.runtime.failures import UNLISTED
from surestream.runtime.redelivery import (
    Acknowledge,
    Copy,
    DeadLetter,
    Discard,
    GiveBack,
    Leave,
    Park,
    Plan,
    Quarantine,
    Reason,
    Reply,
)

__all__ = ["Limited", "Reports", "cut"]

log = logging.getLogger("surestream.dispatch")

CUT: Final = 200
WHY: Final = {
    Reason.SPENT: "attempts are spent",
    Reason.CRASHED: "its attempts went in crashes",
    Reason.NO_CAP: "a retry, and no max_attempts",
    Reason.REFUSED: "its copy was refused for good",
    Reason.REPLY_REFUSED: "its reply was refused for good",
}


def cut(value: object) -> str:
    """Untrusted text for a log line: one line, no escape sequences, at most 200 characters
    (a message must not forge log lines)."""
    text = (
        value
        if isinstance(value, str)
        else repr(value[:CUT] if isinstance(value, bytes) else value)
    )
    shown = text[:CUT].encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= CUT and len(text) <= CUT else shown[: CUT - 1] + "…"


class Limited:
    """Lets at most two lines a second through for one fault and counts the others."""

    def __init__(self) -> None:
        self._until = 0.0
        self._left = 2
        self._skipped = 0

    def __call__(self, level: int, message: str, *parts: object) -> None:
        """Log, or count as skipped."""
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._until = now + 1.0
            self._left = 2
        if self._left <= 0:
            self._skipped += 1
            return
        self._left -= 1
        if self._skipped:
            message = f"{message} ({self._skipped} lines like this left out)"
            self._skipped = 0
        log.log(level, message, *parts)


class Reports:
    """Says what happened to a delivery: subscription, id, attempt n/max, outcome, next time."""

    def __init__(self, subscription: str, max_attempts: int | None) -> None:
        self._name = subscription
        self._cap = "" if max_attempts is None else f"/{max_attempts}"
        self._held = Limited()
        self._many = Limited()
        self.debug = log.isEnabledFor(logging.DEBUG)

    def line(self, delivery: Delivery, attempt: int) -> str:
        """The start of every line about a delivery."""
        return f"{self._name} {cut(delivery.id)} attempt {attempt}{self._cap}"

    def planned(
        self, delivery: Delivery, attempt: int, plan: Plan, after: float, dead_letter: str | None
    ) -> None:
        """What was decided."""
        start = self.line(delivery, attempt)
        match plan:
            case Acknowledge():
                log.debug("%s: done", start)
            case Discard(attempts_spent=True):
                log.warning(
                    "%s: attempts are spent and no dead_letter is declared: rejected", start
                )
            case Discard(lost=True):
                self._many(
                    logging.WARNING, f"{start}: retry, but this source cannot give it again: gone"
                )
            case Discard():
                log.info("%s: dropped", start)
            case GiveBack() | Copy() if after <= 0:
                log.info("%s: retry at once", start)
            case GiveBack() | Copy() | Park():
                log.info("%s: retry in %s", start, span(after))
            case Leave():
                log.info("%s: unacknowledged until the next session", start)
            case DeadLetter(reason=reason):
                when = f" in {span(after)}" if after > 0 else ""
                log.error("%s: %s, dead letter to %s%s", start, WHY[reason], dead_letter, when)
            case Reply(message=message):
                log.debug("%s: done, replied to %s", start, message.address)
            case Quarantine(address=address):
                log.debug("%s: kept in %s", start, address)

    def done(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledged: only for those who debug."""
        for delivery in deliveries:
            log.debug("%s %s: done", self._name, cut(delivery.id))

    def taken_over(self, delivery: Delivery) -> None:
        """A delivery whose worker is gone runs here (rule 6.4)."""
        log.info(
            "%s %s: taken over, its worker is gone; delivery %d of it",
            self._name,
            cut(delivery.id),
            delivery.server_count,
        )

    def failed(
        self, delivery: Delivery, attempt: int, error: BaseException, outcome: object
    ) -> None:
        """The handler raised: with the traceback, unless the user declared what it means."""
        expected = outcome is not UNLISTED
        log.log(
            logging.INFO if expected else logging.WARNING,
            "%s: %s → %r",
            self.line(delivery, attempt),
            cut(repr(error)),
            outcome,
            exc_info=error if self.debug or not expected else None,
        )

    def undecodable(self, delivery: Delivery, error: Exception, fate: str) -> None:
        """The payload is not what the handler asks for (rule 2.6); ``fate``: what becomes of
        the message."""
        log.error(
            "%s %s cannot be decoded, %s: %s; payload begins %s",
            self._name,
            cut(delivery.id),
            fate,
            cut(str(error)),
            cut(delivery.payload[:80]),
        )

    def held(self, delivery: Delivery, error: BaseException, wait: float) -> None:
        """A successor could not be stored."""
        self._held(
            logging.ERROR,
            "%s %s is held unsettled: %s; trying again in %s",
            self._name,
            cut(delivery.id),
            cut(str(error)),
            span(wait),
        )

    def unheard(self, delivery: Delivery, address: str | None) -> None:
        """A successor was published to an address that nobody reads (rule 5.1)."""
        self.warn("nobody reads %s, where %s was published", cut(str(address)), cut(delivery.id))

    def warn(self, message: str, *parts: object) -> None:
        """A bounded warning that names the subscription."""
        self._many(logging.WARNING, f"%s: {message}", self._name, *parts)


def span(wait: float) -> str:
    """A duration a person reads."""
    if wait < 1:
        return f"{wait * 1000:.0f} ms"
    if wait < 120:
        return f"{wait:.3g} s"
    if wait < 7200:
        return f"{wait / 60:.3g} min"
    if wait < 172_800:
        return f"{wait / 3600:.3g} h"
    return f"{wait / 86_400:,.0f} days"
