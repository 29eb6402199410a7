"""The counters as they are read from a delivery's headers (rules 3.1, 3.8 and 6.1)."""

from __future__ import annotations

import pytest

from surestream.contract import Counter
from surestream.delivery import Delivery
from surestream.message import DEAD_PREFIX, RETRY_COUNT_HEADER, HeaderPairs
from surestream.runtime.redelivery import Counters, count_attempt
from surestream.runtime.successors import read_counters


class Mount:
    """The subscription that the deliveries here came through."""

    subscription = "refunds.dlq/review"
    max_attempts = 5

    def attempt(self, delivery: Delivery) -> int:
        return 1


class Arrived(Delivery):
    """A delivery with these headers."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: HeaderPairs, server: int = 1) -> None:
        super().__init__(b"{}", Mount(), server_count=server)
        self.pairs = pairs

    def read_headers(self) -> HeaderPairs:
        return self.pairs


def dead(count: bytes, **details: bytes) -> HeaderPairs:
    named = tuple((DEAD_PREFIX + name, value) for name, value in details.items())
    return ((RETRY_COUNT_HEADER, count), *named)


def read(pairs: HeaderPairs, server: int = 1) -> Counters:
    return read_counters(Arrived(pairs, server), "refunds.dlq")


def test_a_plain_message_was_tried_by_nobody() -> None:
    assert read(()) == Counters()


@pytest.mark.rule("3.1")
def test_header_and_server_are_kept_apart() -> None:
    assert read(((RETRY_COUNT_HEADER, b"2"),), server=3) == Counters(header=2, server=3)


@pytest.mark.rule("3.8")
def test_a_dead_letter_of_another_address_counts_anew() -> None:
    known = read(dead(b"5", source=b"refunds", attempts=b"5"))

    assert known == Counters(header=5, died=5)
    assert count_attempt(known, Counter.HEADER) == 1


@pytest.mark.rule("3.8")
@pytest.mark.parametrize(
    ("pairs", "attempt"),
    [
        pytest.param(dead(b"5"), 6, id="no details"),
        pytest.param(dead(b"5", attempts=b"5"), 6, id="no source"),
        pytest.param(dead(b"5", source=b"refunds"), 6, id="no attempts"),
        pytest.param(dead(b"5", source=b"refunds", attempts=b"many"), 6, id="no number"),
        pytest.param(dead(b"5", source=b"refunds.dlq", attempts=b"5"), 6, id="this very source"),
        pytest.param(dead(b"2", source=b"refunds", attempts=b"7"), 3, id="more than the header"),
        pytest.param(dead(b"0", source=b"refunds", attempts=b"1"), 1, id="more than none"),
        pytest.param(dead(b"2", source=b"refunds", attempts=b"9" * 5000), 3, id="5 kB of digits"),
    ],
)
def test_details_that_cannot_be_believed_leave_the_header_alone(
    pairs: HeaderPairs, attempt: int
) -> None:
    assert count_attempt(read(pairs), Counter.HEADER) == attempt


@pytest.mark.rule("6.1")
def test_a_dead_letter_that_came_back_to_its_source_knows_how_often_it_died() -> None:
    back = read(dead(b"10", source=b"refunds.dlq", attempts=b"5", deaths=b"2"))
    elsewhere = read(dead(b"10", source=b"refunds", attempts=b"5", deaths=b"2"))

    assert back.deaths == 2
    assert elsewhere.deaths == 0
