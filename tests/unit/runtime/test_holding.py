"""What waits for a successor, bounded by number and by bytes (rule 5.2)."""

from __future__ import annotations

import pytest

from surestream.delivery import Delivery
from surestream.runtime.holding import MAX_BYTES, Holding

pytestmark = pytest.mark.rule("5.2")


class Mount:
    subscription = "orders/g"
    max_attempts = None

    def attempt(self, delivery: Delivery) -> int:
        return 1

    def held(self) -> list[Delivery]:
        return []


def delivery(size: int = 1) -> Delivery:
    return Delivery(bytes(size), Mount())


def test_the_bound_is_told_when_it_is_reached_and_when_there_is_room() -> None:
    changes: list[bool] = []
    holding = Holding(2, lambda: changes.append(holding.full))
    one, two, three = delivery(), delivery(), delivery()

    for each in (one, two, three):
        holding.add(each)
    assert (len(holding), list(holding), changes) == (3, [one, two, three], [True])

    for each in (two, one, three):
        holding.remove(each)
    assert (len(holding), changes) == (0, [True, False])


def test_bytes_count_too() -> None:
    changes: list[bool] = []
    holding = Holding(1000, lambda: changes.append(holding.full))
    large = delivery(MAX_BYTES)
    holding.add(delivery())
    holding.add(large)

    assert changes == [True]
    holding.remove(large)
    assert changes == [True, False]


def test_adding_and_removing_twice_counts_once() -> None:
    holding = Holding(2, lambda: None)
    one = delivery(5)
    holding.add(one)
    holding.add(one)
    holding.remove(one)
    holding.remove(one)
    holding.add(delivery(MAX_BYTES - 1))

    assert not holding.full
