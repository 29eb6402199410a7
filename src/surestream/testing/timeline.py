"""The time line of a test: what happened at which virtual second, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from surestream.contract import Stored
from surestream.delivery import Delivery
from surestream.message import DEAD_PREFIX, RETRY_COUNT_HEADER
from surestream.testing.records import (
    Call,
    Ended,
    Event,
    Message,
    Settlement,
    Trouble,
)
from surestream.testing.words import excerpt, how

__all__ = ["TITLE", "timeline"]

TITLE = "what happened, by virtual seconds:"
VALUE_WIDTH = 80


def timeline(records: Iterable[Event], *, last: int | None = None) -> str:
    """``records`` as lines of text; only the ``last`` so many where given."""
    lines = [f"+{at:.3f} s  {text}" for record in records for at, text in _lines(record)]
    if not lines:
        return f"{TITLE}\n  nothing"
    shown = lines if last is None else lines[-last:]
    if len(shown) < len(lines):
        shown = [f"({len(lines) - len(shown)} earlier lines)", *shown]
    width = max(line.find("  ") for line in shown)
    return "\n  ".join([TITLE, *(_aligned(line, width) for line in shown)])


def _aligned(line: str, width: int) -> str:
    time, gap, text = line.partition("  ")
    return f"{time:>{width}}{gap}{text}"


def _lines(record: Event) -> Iterator[tuple[float, str]]:
    match record:
        case Call():
            yield record.at, f"{_which(record.delivery)}: {_call(record)}"
        case Ended(call=call):
            yield record.at, f"{_which(call.delivery)}: {call.handler} {_end(call)}"
        case Settlement():
            text = _settlement(record)
            if text is not None:
                yield record.at, f"{_which(record.delivery)}: {text}"
        case Message():
            yield record.at, _message(record)
        case Trouble():
            yield record.at, f"{_which(record.delivery)}: {record.what}: {record.error}"


def _which(delivery: Delivery) -> str:
    cap = delivery.origin.max_attempts
    limit = "" if cap is None else f"/{cap}"
    return f"{delivery.subscription} {delivery.id} attempt {delivery.attempt}{limit}"


def _call(call: Call) -> str:
    value = repr(call.value)
    if len(value) > VALUE_WIDTH:
        value = f"{value[:VALUE_WIDTH]}…"
    called = f"{call.handler}({value})"
    if call.at_once:
        return f"{called} {_end(call)}"
    return called if call.ended_at is not None else f"{called}, still running"


def _end(call: Call) -> str:
    decided = "stays unsettled" if call.outcome is None else repr(call.outcome)
    if call.outcome is not None and call.outcome.backoff is not None:
        decided = "retry_after(Backoff(…))"
    raised = "" if call.error is None else f"raised {call.error!r} "
    decided = f"{raised}→ {decided}"
    if call.plan is None:
        return decided
    if call.due is None:
        return f"{decided}: {how(call.plan)}"
    return f"{decided}: {how(call.plan)}, due at +{call.due:.3f} s"


def _settlement(settlement: Settlement) -> str | None:
    """What its call and the messages do not tell already."""
    if settlement.stored is Stored.OVERTAKEN:
        return f"overtaken, no {how(settlement.plan)}"
    if settlement.stored is Stored.UNHEARD:
        return f"{settlement.how}, but nobody reads it"
    if settlement.outcome is None:
        return settlement.how
    return None


def _message(message: Message) -> str:
    headers = message.headers
    what = {"publish": "published to", "delay": "delay stored for"}.get(
        message.kind, f"{message.kind} to"
    )
    count = headers.get(RETRY_COUNT_HEADER)
    spent = "" if count is None else f", attempts spent: {count}"
    reason = headers.get(DEAD_PREFIX + "reason")
    why = "" if reason is None or message.kind != "dead letter" else f" ({reason})"
    return f"{what} {message.address}{spent}{why}: {excerpt(message.payload)}"
