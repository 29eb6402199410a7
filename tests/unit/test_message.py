"""Headers as they arrive, headers as a user gives them, and the count they carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.message import (
    DEAD_PREFIX,
    MARK_HEADER,
    MESSAGE_ID_HEADER,
    NOT_BEFORE_HEADER,
    RETRY_COUNT_HEADER,
    RETRY_COUNT_LIMIT,
    Headers,
    Outgoing,
    header_pairs,
    is_reserved,
    parse_count,
)

# ── Headers ──────────────────────────────────────────────────────────────────


def test_names_are_found_in_any_case() -> None:
    headers = Headers([("X-Tenant", b"acme")])

    assert headers["x-tenant"] == headers["X-TENANT"] == headers.get("x-Tenant") == "acme"
    assert headers.raw("x-TENANT") == b"acme"
    assert "X-tenant" in headers
    assert headers.all("x-tenant") == [b"acme"]


def test_of_repeated_names_the_first_counts_and_all_are_kept_in_order() -> None:
    headers = Headers([("tag", b"one"), ("other", b"x"), ("Tag", b"two"), ("TAG", b"three")])

    assert headers["tag"] == "one"
    assert headers.raw("TAG") == b"one"
    assert headers.all("tag") == [b"one", b"two", b"three"]
    assert list(headers) == ["tag", "other"]
    assert len(headers) == 2
    assert headers.pairs == (
        ("tag", b"one"),
        ("other", b"x"),
        ("Tag", b"two"),
        ("TAG", b"three"),
    )


def test_bytes_that_are_no_text_are_shown_and_kept() -> None:
    headers = Headers([("blob", b"a\xff")])

    assert headers["blob"] == "a\N{REPLACEMENT CHARACTER}"
    assert headers.raw("blob") == b"a\xff"


def test_a_missing_header_is_none_a_default_or_a_key_error() -> None:
    headers = Headers()

    assert headers.get("no") is None
    assert headers.get("no", "0") == "0"
    assert headers.raw("no") is None
    assert headers.all("no") == []
    assert "no" not in headers
    assert 3 not in headers
    with pytest.raises(KeyError):
        headers["no"]


def test_headers_are_a_mapping_of_lower_case_names_to_text() -> None:
    headers = Headers([("A", b"1"), ("b", b"")])

    assert dict(headers) == {"a": "1", "b": ""}
    assert headers == {"a": "1", "b": ""}
    assert repr(headers) == "Headers({'a': '1', 'b': ''})"


# ── headers of a publish ─────────────────────────────────────────────────────


def test_text_becomes_bytes_and_names_keep_their_case() -> None:
    assert header_pairs({"X-Tenant": "acme £", "blob": b"\x00"}) == (
        ("X-Tenant", "acme £".encode()),
        ("blob", b"\x00"),
    )
    assert header_pairs(None) == header_pairs({}) == ()


@pytest.mark.parametrize(
    ("headers", "error", "text"),
    [
        ({"": "x"}, ValueError, "a header name is empty"),
        ({"a\r\nb": "x"}, ValueError, r"'a\\r\\nb' has a line break or NUL in it"),
        ({"a\0": "x"}, ValueError, r"has a line break or NUL in it"),
        ({"Tag": "1", "tag": "2"}, ValueError, "'tag' is given twice: names do not regard case"),
        ({7: "x"}, TypeError, "header name 7 is int: write it as text"),
        ({b"a": "x"}, TypeError, "is bytes: write it as text"),
        ({"n": 5}, TypeError, "header 'n' has a value of type int: write text or bytes"),
        ({"n": None}, TypeError, "has a value of type NoneType: write text or bytes"),
        ({"n": bytearray(b"x")}, TypeError, "has a value of type bytearray"),
        ({"n": "\ud800"}, ValueError, "surrogates not allowed"),
    ],
)
def test_a_header_that_cannot_travel_is_refused(
    headers: dict[str, str | bytes], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        header_pairs(headers)


@pytest.mark.rule("4.10")
@pytest.mark.parametrize(
    "name",
    [
        RETRY_COUNT_HEADER,
        RETRY_COUNT_HEADER.upper(),
        "X-RustStream-Retry-Count",
        MARK_HEADER,
        NOT_BEFORE_HEADER,
        MESSAGE_ID_HEADER,
        f"{DEAD_PREFIX}reason",
        "X-SureStream-Anything",
    ],
)
def test_headers_of_the_runtime_are_reserved_in_any_case(name: str) -> None:
    assert is_reserved(name)


@pytest.mark.parametrize(
    "name", ["x-surestream", "surestream-for", "x-ruststream-retry-count-2", "x-tenant", ""]
)
def test_headers_of_users_are_not_reserved(name: str) -> None:
    assert not is_reserved(name)


def test_the_names_on_the_wire_stay_as_they_are() -> None:
    """Other services, in other languages too, read and write them."""
    assert RETRY_COUNT_HEADER == "x-ruststream-retry-count"
    assert MARK_HEADER == "x-surestream-for"
    assert NOT_BEFORE_HEADER == "x-surestream-not-before"
    assert MESSAGE_ID_HEADER == "x-surestream-msg-id"
    assert DEAD_PREFIX == "x-surestream-dead-"


def test_an_outgoing_message_cannot_be_changed() -> None:
    message = Outgoing("refunds", b"{}")

    assert message.headers == ()
    with pytest.raises(AttributeError):
        message.address = "elsewhere"  # type: ignore[misc]


# ── the retry count ──────────────────────────────────────────────────────────


@pytest.mark.case("WC-09")
@pytest.mark.rule("3.1")
@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"abc",
        b"1.0",
        b"1e3",
        b"0x10",
        b"NaN",
        b"\x00",
        b"1\x00",
        b"-1",
        b"+1",
        b" 1",
        b"1 ",
        b"1\n",
        b"1_000",
        b"1,000",
        "١٢".encode(),
        "²".encode(),
        "１".encode(),
        b"\xff\xfe",
        b"9" * 2500 + b"x" + b"9" * 2500,
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_count_that_is_no_number_is_as_good_as_absent(value: bytes | None) -> None:
    assert parse_count(value) is None


@pytest.mark.case("WC-09")
@pytest.mark.rule("3.1")
@pytest.mark.parametrize(
    ("value", "count"),
    [
        (b"0", 0),
        (b"000", 0),
        (b"4", 4),
        (b"0000000000000004", 4),
        (b"2147483647", 2**31 - 1),
        (b"2147483648", 2**31),
        (b"2147483649", 2**31),
        (b"9999999999", 2**31),
        (b"9" * 5000, 2**31),
        (b"0" * 5000, 0),
        (b"0" * 5000 + b"12", 12),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_count_is_read_and_bounded(value: bytes, count: int) -> None:
    assert parse_count(value) == count


@given(st.integers(0, 10**40))
def test_every_count_that_is_written_is_read_back(number: int) -> None:
    assert parse_count(str(number).encode()) == min(number, RETRY_COUNT_LIMIT)


@given(st.binary(max_size=64))
def test_no_bytes_at_all_upset_the_parser(value: bytes) -> None:
    count = parse_count(value)

    digits_only = bool(value) and all(48 <= sign <= 57 for sign in value)
    assert (count is not None) == digits_only
    assert count is None or 0 <= count <= RETRY_COUNT_LIMIT
