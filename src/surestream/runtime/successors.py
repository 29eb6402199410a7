"""The headers of copies and dead letters (rules 3.2, 4.1, 4.3), and the counters read back."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime
from urllib.parse import quote, unquote_to_bytes

from surestream.clock import wall_time
from surestream.declaration import DetailLevel
from surestream.delivery import Delivery
from surestream.message import (
    DEAD_PREFIX,
    MARK_HEADER,
    NOT_BEFORE_HEADER,
    RETRY_COUNT_HEADER,
    HeaderPairs,
    parse_count,
)
from surestream.runtime.redelivery import Counters

__all__ = ["copy_headers", "dead_headers", "hand_over_headers", "not_before", "read_counters"]

ONE_HOP = frozenset({RETRY_COUNT_HEADER, MARK_HEADER, NOT_BEFORE_HEADER})
FULL_LIMIT = 4096
HAND_OVER_HORIZON = 24 * 3600.0
CLOCKS_APART = 60.0
"""What is left of the horizon for a reader whose clock is behind ours."""
SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"

SOURCE = DEAD_PREFIX + "source"
ATTEMPTS = DEAD_PREFIX + "attempts"
DEATHS = DEAD_PREFIX + "deaths"


def copy_headers(delivery: Delivery, count: int) -> HeaderPairs:
    """The headers as they arrived, the retry count being ``count`` (rules 3.2 and 4.1)."""
    kept = tuple(pair for pair in delivery.headers.pairs if pair[0].lower() not in ONE_HOP)
    return ((RETRY_COUNT_HEADER, b"%d" % count), *kept)


def hand_over_headers(delivery: Delivery, count: int, wait: float) -> HeaderPairs:
    """A copy that the next process shall hold for ``wait`` more seconds, as long as it will
    believe (rule 5.8)."""
    due = int((wall_time() + min(wait, HAND_OVER_HORIZON - CLOCKS_APART)) * 1000) + 1
    return (*copy_headers(delivery, count), (NOT_BEFORE_HEADER, b"%d" % due))


def not_before(delivery: Delivery) -> float:
    """Seconds that a handed-over copy still has to wait; 0 for any other delivery, and for a
    date more than 24 hours ahead, which is not believed (rule 5.8)."""
    value = delivery.headers.raw(NOT_BEFORE_HEADER)
    if value is None or not value.isdigit() or len(value) > 16:
        return 0.0
    wait = int(value) / 1000 - wall_time()
    return wait if 0 < wait <= HAND_OVER_HORIZON else 0.0


def dead_headers(
    delivery: Delivery,
    count: int,
    *,
    reason: str,
    attempts: int,
    error: BaseException | None,
    service: str,
    deaths: int,
    level: DetailLevel,
) -> HeaderPairs:
    """The headers of a dead letter: as they arrived, the count, and why (rule 4.3).

    Details of an earlier death are replaced. Values are short ASCII; what is not is
    percent-encoded.
    """
    copied = copy_headers(delivery, count)
    if level == "none":
        return copied
    base = tuple(pair for pair in copied if not pair[0].lower().startswith(DEAD_PREFIX))
    when = datetime.fromtimestamp(wall_time(), UTC).isoformat(timespec="milliseconds")
    details = {
        "reason": reason,
        "source": delivery.address,
        "subscription": delivery.subscription,
        "attempts": str(attempts),
        "time": when,
        "service": service,
        "deaths": str(deaths),
    }
    if error is not None:
        details["error"] = f"{type(error).__module__}.{type(error).__qualname__}"
    if error is not None and level == "full":
        details["message"] = str(error)
        details["traceback"] = "".join(traceback.format_exception(error))
    return base + tuple(
        (DEAD_PREFIX + name, _ascii(value).encode()) for name, value in details.items()
    )


def _ascii(value: str) -> str:
    """Percent-encoded where need be, and cut to 4 KiB between two characters."""
    text = quote(value, safe=SAFE, errors="replace")
    if len(text) <= FULL_LIMIT:
        return text
    text = text[:FULL_LIMIT]
    if "%" in text[-2:]:
        text = text[: text.rindex("%")]
    return quote(unquote_to_bytes(text).decode("utf-8", "ignore"), safe=SAFE)


def read_counters(delivery: Delivery, address: str | None) -> Counters:
    """Everything the headers and the server say about how often ``delivery`` was tried.

    ``address``: where it arrived, as dead-letter details call it.
    """
    headers = delivery.headers
    header = delivery.header_count
    died = deaths = 0
    source = headers.raw(SOURCE)
    if source is not None:
        here = address is not None and source == _ascii(address).encode()
        if here:
            deaths = parse_count(headers.raw(DEATHS)) or 0
        else:
            died = parse_count(headers.raw(ATTEMPTS)) or 0
            if died > header:
                died = 0
    return Counters(
        header=header,
        server=delivery.server_count,
        promoted=delivery.marked,
        died=died,
        deaths=deaths,
        count_lost=delivery.marked and RETRY_COUNT_HEADER not in headers,
    )
