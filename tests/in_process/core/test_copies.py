"""What a copy carries, and where it goes (rules 3.2, 4.1, 4.2, 5.2)."""

from __future__ import annotations

from typing import Any

import pytest

from surestream import BrokerRefused, Delivery, Headers, Outcome, ack, retry, retry_after
from surestream.contract import Abilities
from surestream.message import (
    MARK_HEADER,
    MESSAGE_ID_HEADER,
    NOT_BEFORE_HEADER,
    RETRY_COUNT_HEADER,
    HeaderPairs,
    Outgoing,
)
from tests.in_process.core.service import Service, details, headers
from tests.in_process.core.sources import CORE, PARKING, STREAM, BenchSource, Place

COUNT = RETRY_COUNT_HEADER

ODD: HeaderPairs = (
    ("Grüße", "Ä ö ü 🎈".encode()),
    ("empty", b""),
    ("spaces", b"  both ends  "),
    ("colon", b"a: b: c"),
    ("bytes", bytes(range(1, 256))),
    ("content-type", b"application/json"),
    ("reply-to", b"answers"),
    ("Correlation-Id", b"7"),
    ("twice", b"one"),
    ("Twice", b"two"),
    ("twice", b"three"),
    *((f"n{n}", b"%d" % n) for n in range(200)),
)


async def again(order: bytes) -> Outcome:
    return retry()


async def later(order: bytes) -> Outcome:
    return retry_after(5)


async def run(
    service: Service, handler: Any, source: BenchSource, sent: HeaderPairs, payload: bytes = b"{}"
) -> list[Outgoing]:
    service.bench.ready(source, payload, headers=sent)
    async with service.test() as tb:
        for _ in range(10):
            await tb.advance(5)
    return service.bench.stored


@pytest.mark.case("HC-04", "DE-03")
@pytest.mark.rule("4.1", "3.2")
@pytest.mark.parametrize("handler", [again, later])
@pytest.mark.parametrize("can", [STREAM, CORE, PARKING])
async def test_payload_and_headers_travel_as_they_arrived(
    service: Service, handler: Any, can: Abilities
) -> None:
    source = service.on(handler, can, max_attempts=3, dead_letter="orders.dlq")

    stored = await run(service, handler, source, ODD, b"\x00\xff")

    copies = [one for one in stored if one.address == "orders"]
    (letter,) = service.bench.at("orders.dlq")
    assert [one.headers for one in copies] == [
        ((COUNT, b"1"), *ODD),
        ((COUNT, b"2"), *ODD),
    ]
    assert letter.headers[: 1 + len(ODD)] == ((COUNT, b"3"), *ODD)
    assert {one.payload for one in stored} == {b"\x00\xff"}


@pytest.mark.rule("4.1")
async def test_what_belongs_to_one_hop_stays_behind(service: Service) -> None:
    source = service.on(again, max_attempts=2, dead_letter="orders.dlq")
    sent = (
        (MARK_HEADER, b"orders:g"),
        (NOT_BEFORE_HEADER, b"0"),
        (MESSAGE_ID_HEADER, b"kept"),
        ("x-mine", b"kept"),
    )

    copy, letter = await run(service, again, source, sent)

    kept = ((MESSAGE_ID_HEADER, b"kept"), ("x-mine", b"kept"))
    assert copy.headers == ((COUNT, b"1"), *kept)
    assert letter.headers[:3] == ((COUNT, b"2"), *kept)


@pytest.mark.case("HC-11")
@pytest.mark.rule("4.1")
@pytest.mark.parametrize("name", [COUNT, COUNT.upper(), COUNT.title()])
async def test_there_is_one_count_whatever_its_case(service: Service, name: str) -> None:
    source = service.on(again, max_attempts=4, dead_letter="orders.dlq")

    stored = await run(service, again, source, ((name, b"2"), ("a", b"1")))

    counts = [[value for key, value in one.headers if key.lower() == COUNT] for one in stored]
    assert counts == [[b"3"], [b"4"]]


@pytest.mark.case("WC-09")
@pytest.mark.rule("3.1")
@pytest.mark.parametrize(
    "value",
    [b"abc", b"", b"1.0", b"1e3", b"0x10", b"NaN", b"\0", b"-1", b" 1", "٣".encode(), b"+1"],
)
async def test_a_foreign_count_that_is_no_number_counts_as_absent(
    service: Service, value: bytes
) -> None:
    source = service.on(again, max_attempts=2, dead_letter="orders.dlq")

    copy, letter = await run(service, again, source, ((COUNT, value),))

    assert headers(copy)[COUNT] == "1"
    assert (letter.address, headers(letter)[COUNT]) == ("orders.dlq", "2")


@pytest.mark.case("WC-09")
@pytest.mark.rule("3.1")
@pytest.mark.parametrize("digits", [b"9" * 5000, b"4294967296", b"2147483648"])
async def test_a_foreign_count_without_bound_is_spent(service: Service, digits: bytes) -> None:
    source = service.on(again, max_attempts=5, dead_letter="orders.dlq")

    (letter,) = await run(service, again, source, ((COUNT, digits),))

    assert (letter.address, headers(letter)[COUNT]) == ("orders.dlq", "2147483649")


@pytest.mark.rule("4.1")
async def test_a_handler_cannot_change_what_its_copy_carries(service: Service) -> None:
    async def meddles(order: dict[str, int], sent: Headers) -> Outcome:
        order["id"] = 99
        return retry()

    source = service.on(meddles, max_attempts=2)

    (copy,) = await run(service, meddles, source, (("a", b"1"),), b'{"id":1}')

    assert copy.payload == b'{"id":1}'


# -- where it goes ----------------------------------------------------------------------------


def to_place(delivery: Delivery) -> str:
    return delivery[Place]


@pytest.mark.rule("4.2")
@pytest.mark.parametrize("handler", [again, later])
@pytest.mark.parametrize("can", [STREAM, CORE])
async def test_a_copy_of_a_wildcard_goes_where_the_mount_says(
    service: Service, handler: Any, can: Abilities
) -> None:
    wild = BenchSource("devices/*", can, wild=True)
    service.on(handler, source=wild, max_attempts=2, retry_to=to_place, dead_letter="dead")
    async with service.test() as tb:
        await tb.publish("devices/7", b"{}")
        await tb.advance(60)

        assert [call.attempt for call in tb.calls(handler)] == [1, 2]
    assert [one.address for one in service.bench.stored] == ["devices/7", "devices/7", "dead"]


@pytest.mark.rule("4.2")
async def test_a_name_sends_all_copies_there_and_dead_letters_stay_where_they_are(
    service: Service,
) -> None:
    wild = BenchSource("devices/*", wild=True)
    service.on(again, source=wild, max_attempts=3, retry_to="devices/again", dead_letter="dead")
    async with service.test() as tb:
        await tb.publish("devices/7", b"{}")

    assert [one.address for one in service.bench.stored] == [
        "devices/7",
        "devices/again",
        "devices/again",
        "dead",
    ]


def broken(delivery: Delivery) -> str:
    raise LookupError("no such device")


@pytest.mark.rule("5.2")
@pytest.mark.parametrize("handler", [again, later])
@pytest.mark.parametrize("can", [STREAM, CORE])
@pytest.mark.parametrize(
    "retry_to",
    [
        broken,
        lambda delivery: None,
        lambda delivery: "",
        lambda delivery: b"x",
        lambda delivery: "devices/#",
    ],
)
async def test_a_copy_that_can_go_nowhere_becomes_a_dead_letter(
    service: Service, handler: Any, can: Abilities, retry_to: Any
) -> None:
    wild = BenchSource("devices/*", can, wild=True)
    service.on(handler, source=wild, max_attempts=9, retry_to=retry_to, dead_letter="dead")
    async with service.test() as tb:
        await tb.publish("devices/7", b"{}")
        await tb.advance(60)

        tb.assert_called(handler)
        tb.assert_nothing_waits()
    (letter,) = service.bench.at("dead")
    assert headers(letter)[COUNT] == "1"
    assert details(letter)["reason"] == "copy-refused"
    assert details(letter)["error"].startswith("surestream.errors.")


@pytest.mark.rule("4.6")
async def test_a_function_that_leaves_its_filter_is_told(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    wild = BenchSource("devices/*", wild=True)
    service.on(again, source=wild, max_attempts=9, retry_to=lambda delivery: "elsewhere")
    async with service.test() as tb:
        await tb.publish("devices/7", b"{}")

        tb.assert_called(again)
    assert [one.address for one in service.bench.stored] == ["devices/7", "elsewhere"]
    assert "devices/*/g: retry_to gave elsewhere, which this subscription does not read" in (
        caplog.text
    )


@pytest.mark.rule("5.2")
async def test_a_copy_that_is_refused_for_good_becomes_a_dead_letter(service: Service) -> None:
    service.on(again, max_attempts=9, dead_letter="orders.dlq")
    source = BenchSource("orders")
    service.bench.ready(source, b"large")
    service.bench.refuse("orders", "too large", permanent=True)
    async with service.test() as tb:
        await tb.advance(1)

        tb.assert_called(again)
        tb.assert_settled(again, "dead letter")
    (letter,) = service.bench.stored
    assert details(letter)["reason"] == "copy-refused"


@pytest.mark.rule("5.2")
async def test_a_dead_letter_that_is_refused_with_its_details_goes_without(
    service: Service,
) -> None:
    service.on(again, max_attempts=1, dead_letter="orders.dlq")
    service.bench.refuses = lambda message: (
        BrokerRefused("too large", permanent=True) if len(message.headers) > 2 else None
    )
    async with service.test() as tb:
        await tb.publish("orders", b"large", headers={"a": "1"})

        tb.assert_settled(again, "dead letter")
    (letter,) = service.bench.at("orders.dlq")
    assert headers(letter) == {COUNT: "1", "a": "1"}


@pytest.mark.rule("5.1")
async def test_a_copy_that_nobody_reads_settles_with_a_warning_that_names_the_address(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    source = BenchSource("orders", CORE, keeps=False)
    service.on(again, source=source, max_attempts=1, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", b"{}")
        tb.assert_settled(again, "dead letter")

    told = [each.getMessage() for each in caplog.records if each.name == "surestream.dispatch"]
    assert "orders/g: nobody reads orders.dlq, where 1 was published" in told


@pytest.mark.rule("3.1")
async def test_a_handler_sees_headers_and_attempt_of_this_delivery(service: Service) -> None:
    seen: list[tuple[str | None, int]] = []

    async def looks(order: bytes, sent: Headers, delivery: Delivery) -> Outcome:
        seen.append((sent.get(COUNT), delivery.attempt))
        return retry() if len(seen) < 3 else ack()

    service.on(looks, max_attempts=5)
    async with service.test() as tb:
        await tb.publish("orders", b"{}")

    assert seen == [(None, 1), ("1", 2), ("2", 3)]
