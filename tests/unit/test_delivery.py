"""A delivery works out what it is asked for, once."""

from __future__ import annotations

import pytest

from surestream.delivery import Delivery, Key
from surestream.message import RETRY_COUNT_HEADER, HeaderPairs

ENTRY: Key[str] = Key("Entry", str)
OTHER: Key[int] = Key("Other", int)


class OneMount:
    """The subscription that the deliveries here came through."""

    subscription = "refunds/refunds"
    max_attempts = 5

    def attempt(self, delivery: Delivery) -> int:
        return delivery.header_count + 1


class Written(Delivery):
    """A delivery that counts how often its headers were parsed."""

    __slots__ = ("pairs", "parsed")

    def __init__(self, pairs: HeaderPairs) -> None:
        super().__init__(b"{}", OneMount())
        self.pairs = pairs
        self.parsed = 0

    @property
    def id(self) -> str:
        return "1-1"

    def read_headers(self) -> HeaderPairs:
        self.parsed += 1
        return self.pairs

    def fact(self, key: Key[object]) -> object:
        if key is ENTRY:
            return "1-1"
        raise KeyError(key)


def test_headers_are_parsed_when_first_asked_for_and_only_then() -> None:
    delivery = Written(((RETRY_COUNT_HEADER, b"2"),))
    assert delivery.parsed == 0

    values = [delivery.headers[RETRY_COUNT_HEADER], delivery.headers.get("no"), delivery.attempt]

    assert values == ["2", None, 3]
    assert delivery.parsed == 1


@pytest.mark.case("WC-09")
@pytest.mark.rule("3.1")
@pytest.mark.parametrize(
    ("pairs", "count"),
    [
        ((), 0),
        (((RETRY_COUNT_HEADER, b"abc"),), 0),
        (((RETRY_COUNT_HEADER.upper(), b"3"),), 3),
        (((RETRY_COUNT_HEADER, b"1"), (RETRY_COUNT_HEADER, b"9")), 1),
        (((RETRY_COUNT_HEADER, b"9" * 5000),), 2**31),
    ],
)
def test_the_header_count_is_zero_unless_it_is_a_number(pairs: HeaderPairs, count: int) -> None:
    assert Written(pairs).header_count == count


def test_a_key_gives_its_fact_or_a_key_error() -> None:
    delivery = Written(())

    assert delivery[ENTRY] == "1-1"
    with pytest.raises(KeyError, match="Other"):
        delivery[OTHER]


def test_a_delivery_is_shown_with_its_id_and_subscription() -> None:
    assert repr(Written(())) == "<Written 1-1 of refunds/refunds>"
