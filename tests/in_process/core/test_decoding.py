"""A payload that cannot be decoded never reaches its handler (rule 2.6)."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from surestream import (
    Attempt,
    DecodeError,
    Headers,
    ServiceFailed,
    ack,
    drop,
    fail_fast,
    retry,
    retry_after,
)
from surestream.message import RETRY_COUNT_HEADER, HeaderPairs
from tests.in_process.core.service import Service, headers
from tests.in_process.core.sources import NATIVE, STREAM, BenchSource

pytestmark = pytest.mark.rule("2.6")


class Order(msgspec.Struct):
    id: int
    note: str = ""


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    id: int = 0


async def typed(order: Order) -> None:
    pass


BAD = [
    pytest.param(b"\x82\xa2", id="not UTF-8"),
    pytest.param(bytes(range(256)), id="every byte"),
    pytest.param(b"\0\0\0", id="NULs"),
    pytest.param(b'{"id":1,"note":"\\ud800"}', id="lone surrogate"),
    pytest.param(b"", id="empty"),
    pytest.param(b'{"id":1', id="cut off"),
    pytest.param(b'{"id":"one"}', id="wrong type"),
    pytest.param(b"[1]", id="wrong shape"),
    pytest.param(b'{"id":' + b"[" * 5000 + b"]" * 5000 + b"}", id="nested deeply"),
    pytest.param(b'{"id":1e400}', id="beyond a double"),
    pytest.param(b'\xef\xbb\xbf{"id":1}', id="byte order mark"),
]


@pytest.mark.case("DE-02", "DE-03", "DE-07")
@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_message_is_kept_as_it_came_and_the_others_go_on(
    service: Service, bad: bytes
) -> None:
    source = BenchSource("orders", STREAM, undecodable="orders.undecodable")
    service.on(typed, source=source, max_attempts=5, dead_letter="orders.dlq")
    sent: HeaderPairs = (("Trace", b"\xff\x00"), (RETRY_COUNT_HEADER, b"3"), ("trace", b"2"))
    service.bench.ready(source, b'{"id":1}')
    service.bench.ready(source, bad, headers=sent)
    service.bench.ready(source, b'{"id":2}')
    async with service.test() as tb:
        await tb.advance(600)

        assert [call.value.id for call in tb.calls(typed)] == [1, 2]
        assert sorted(one.how for one in tb.settlements(typed)) == ["ack", "ack", "quarantine"]
        tb.assert_nothing_waits()

    (kept,) = service.bench.stored
    assert (kept.address, kept.payload, kept.headers) == ("orders.undecodable", bad, sent)
    assert service.bench.group(source).held == {}


@pytest.mark.case("DE-02", "DE-03")
@pytest.mark.parametrize("payload", [b"\x82\xa2", bytes(range(256)), b"\0", b"", b"\xed\xa0\x80"])
async def test_raw_bytes_are_the_same_on_every_delivery_and_in_the_dead_letter(
    service: Service, payload: bytes
) -> None:
    async def raw(order: bytes) -> Any:
        return retry()

    service.on(raw, max_attempts=3, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", payload)

        assert [call.value for call in tb.calls(raw)] == [payload] * 3
    assert [message.payload for message in service.bench.stored] == [payload] * 4


@pytest.mark.case("SE-03", "DE-07")
async def test_one_error_tells_subscription_id_reason_and_a_cut_excerpt(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    forged = b"\n2026-01-01 CRITICAL all is lost \x1b[31m" + b"x" * 1_000_000

    service.on(typed)
    async with service.test() as tb:
        await tb.publish("orders", forged)

        tb.assert_settled(typed, "drop")

    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    line = record.getMessage()
    assert record.levelname == "ERROR"
    assert line.startswith("orders/g 1 cannot be decoded, dropped: Expected `object`, got `int`; ")
    assert "2026-01-01 CRITICAL" in line
    assert len(line) < 600
    assert line.isprintable()


async def test_a_key_that_forges_lines_is_escaped_in_the_reason(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    async def strict(order: Strict) -> None:
        pass

    service.on(strict)
    async with service.test() as tb:
        await tb.publish("orders", b'{"a\\n2026 CRITICAL \\u001b[31m' + b"y" * 5000 + b'":1}')
        tb.assert_settled(strict, "drop")

    assert all(each.getMessage().isprintable() for each in caplog.records)
    assert all(len(each.getMessage()) < 600 for each in caplog.records)


async def test_none_drops_where_the_source_would_keep(service: Service) -> None:
    source = BenchSource("orders", STREAM, undecodable="orders.undecodable")
    service.on(typed, source=source, quarantine=None)
    async with service.test() as tb:
        await tb.publish("orders", b"bad")

        tb.assert_settled(typed, "drop")
    assert len(service.bench.stored) == 1


@pytest.mark.parametrize(
    ("outcome", "how"),
    [
        (ack(), ["ack"]),
        (drop(), ["drop"]),
        (retry(), ["copy", "copy", "dead letter"]),
        (retry_after(60), ["copy", "copy", "dead letter"]),
    ],
)
async def test_on_decode_error_is_any_outcome_and_obeys_the_cap(
    service: Service, outcome: Any, how: list[str]
) -> None:
    service.on(typed, max_attempts=3, dead_letter="orders.dlq", on_decode_error=outcome)
    async with service.test() as tb:
        await tb.publish("orders", b"bad")
        await tb.advance(600)

        tb.assert_called(typed, times=0)
        tb.assert_settled(typed, *how)
    letters = service.bench.at("orders.dlq")
    assert [headers(letter)["x-surestream-dead-error"] for letter in letters] == [
        "surestream.errors.DecodeError"
    ] * len(letters)


async def test_fail_fast_for_a_payload_stops_the_service(service: Service) -> None:
    source = service.on(typed, on_decode_error=fail_fast())
    for payload in (b'{"id":1}', b"bad", b'{"id":2}'):
        service.bench.ready(source, payload)

    with pytest.raises(ServiceFailed, match="DecodeError"):
        async with service.test() as tb:
            pass

    assert [call.value.id for call in tb.calls(typed)] == [1]
    assert [entry.id for entry in service.bench.group(source).held] == ["2"]


async def test_a_cap_without_destination_rejects_what_cannot_be_decoded(
    service: Service,
) -> None:
    service.on(typed, NATIVE, max_attempts=2, on_decode_error=retry())
    async with service.test() as tb:
        await tb.publish("orders", b"bad")

        tb.assert_settled(typed, "given back", "rejected")


async def test_without_a_payload_parameter_nothing_is_decoded(service: Service) -> None:
    async def headers_only(sent: Headers, attempt: Attempt) -> None:
        pass

    service.on(headers_only)
    async with service.test() as tb:
        await tb.publish("orders", b"\xff")

        tb.assert_settled(headers_only, "ack")


async def test_what_the_transport_itself_could_not_read_is_treated_alike(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    source = service.on(typed, quarantine="orders.undecodable")
    entry = service.bench.ready(source, b'{"id":1}')
    entry.fault = DecodeError("no payload field")
    async with service.test() as tb:
        tb.assert_called(typed, times=0)
        tb.assert_settled(typed, "quarantine")

    assert (
        "orders/g 1 cannot be decoded, kept in orders.undecodable: no payload field;" in caplog.text
    )


@pytest.mark.rule("5.2")
async def test_a_quarantine_that_cannot_be_written_keeps_the_original(service: Service) -> None:
    source = service.on(typed, quarantine="orders.undecodable")
    service.bench.refuse("orders.undecodable")
    async with service.test() as tb:
        await tb.publish("orders", b"bad")
        await tb.publish("orders", b'{"id":1}')
        assert [entry.id for entry in service.bench.group(source).held] == ["1"]
        service.bench.take_all()
        await tb.advance(10)

        assert sorted(one.how for one in tb.settlements(typed)) == ["ack", "quarantine"]
    assert service.bench.group(source).held == {}
