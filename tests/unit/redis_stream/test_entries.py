"""Entries as deliveries: what is special, and what makes up a foreign one."""

from __future__ import annotations

import pytest

from surestream.delivery import Origin
from surestream.message import MARK_HEADER, NOT_BEFORE_HEADER
from surestream.redis.entries import ForeignDelivery, StreamDelivery, deliver, deliver_one
from surestream.redis.seat import Seat
from surestream.redis.wire import foreign_fields
from tests.live.redis_stream.room import StandIn

SEAT = Seat("refunds", "refunds", "me", own_name=True)
ORIGIN: Origin = StandIn()


def one(*fields: bytes) -> StreamDelivery:
    """The first delivery of an entry of these fields."""
    (delivery,) = deliver([(b"1-1", list(fields))], SEAT, ORIGIN)
    return delivery


def test_payload_and_ordinary_headers_make_no_special_delivery() -> None:
    delivery = one(b"_payload", b"p", b"h:a", b"1", b"h:b", b"2", b"h:c", b"3")

    assert not delivery.special
    assert (delivery.payload, delivery.server_count, delivery.counted) == (b"p", 1, 1)
    assert delivery.headers.raw("b") == b"2"


@pytest.mark.parametrize("name", [MARK_HEADER, NOT_BEFORE_HEADER])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_header_of_our_own_is_seen_wherever_it_stands(name: str, place: int) -> None:
    pairs = [(b"_payload", b"p"), (b"h:a", b"1")]
    pairs.insert(place, (b"h:" + name.encode(), b"x"))

    assert one(*(part for pair in pairs for part in pair)).special


def test_a_value_that_reads_like_a_header_of_our_own_is_none() -> None:
    delivery = one(b"_payload", b"p", b"h:a", b"h:" + MARK_HEADER.encode())

    assert not delivery.special


def test_what_was_delivered_before_is_special() -> None:
    assert deliver_one(b"1-1", [b"_payload", b"p"], SEAT, ORIGIN, 2).special


@pytest.mark.rule("3.6")
def test_a_count_that_is_taken_back_is_the_servers_alone() -> None:
    delivery = one(b"_payload", b"p", b"h:" + MARK_HEADER.encode(), SEAT.mark)

    delivery.take_back_count()

    assert (delivery.server_count, delivery.counted) == (1, 0)
    delivery.counted_anew()
    assert (delivery.server_count, delivery.counted) == (1, 1)


@pytest.mark.rule("4.1")
def test_the_content_of_a_foreign_entry_is_every_field_but_the_headers() -> None:
    fields = (b"\xff", b"\xfe", b"h:a", b"1", b"b", b"\x00", b"\xff", b"again")

    delivery = one(*fields)

    assert isinstance(delivery, ForeignDelivery)
    assert foreign_fields(fields) == [b"\xff", b"\xfe", b"b", b"\x00", b"\xff", b"again"]
