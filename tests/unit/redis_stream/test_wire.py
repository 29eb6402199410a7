"""The wire formats of streams and delay sets."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.errors import DecodeError
from surestream.redis.wire import (
    entry_fields,
    entry_headers,
    entry_payload,
    extra_fields,
    frame,
    member,
    read_frame,
    read_member,
)

# What a header's name may be once it is decoded: text, or bytes that are none.
NAMES = st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
HEADERS = st.lists(st.tuples(NAMES, st.binary(max_size=30)), max_size=6).map(tuple)


@given(HEADERS, st.binary(max_size=50))
def test_a_frame_is_read_as_it_was_written(headers: Any, payload: bytes) -> None:
    assert read_frame(frame(headers, payload)) == (headers, payload)


@given(st.binary(max_size=20), HEADERS, st.binary(max_size=50))
def test_a_member_is_read_as_it_was_written(name: bytes, headers: Any, payload: bytes) -> None:
    assert read_member(member(name, headers, payload)) == (name, headers, payload)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_member_or_none(raw: bytes) -> None:
    read = read_member(raw)

    assert read is None or member(*read) == raw


@given(st.binary(min_size=1, max_size=20), HEADERS, st.data())
def test_a_member_that_was_cut_within_its_headers_is_none(
    name: bytes, headers: Any, data: Any
) -> None:
    raw = member(name, headers, b"")

    assert read_member(raw[: data.draw(st.integers(0, len(raw) - 1))]) is None


@pytest.mark.parametrize("count", [1, 2**16, 2**31, 2**32 - 1])
def test_a_forged_number_of_headers_does_not_spin(count: int) -> None:
    assert read_frame(struct.pack(">I", count)) is None
    assert read_frame(struct.pack(">I", count) + b"\0" * 7) is None


def test_a_forged_length_is_no_frame() -> None:
    assert read_frame(struct.pack(">II", 1, 2**32 - 1) + b"name" * 4) is None


def test_the_frame_is_rust_stream_s() -> None:
    """Facts of its wire format: counted, big-endian, the payload at the end."""
    written = member(b"1-0", (("a", b"1"),), b"body")

    assert written == (
        b"\0\0\0\x031-0"  # name
        b"\0\0\0\x01"  # headers
        b"\0\0\0\x01a\0\0\0\x011"
        b"body"
    )


@given(HEADERS, st.binary(max_size=50))
def test_an_entry_is_read_as_it_was_written(headers: Any, payload: bytes) -> None:
    fields = entry_fields(payload, headers)

    assert entry_payload(fields) == payload
    assert entry_headers(fields) == headers
    assert extra_fields(fields) == []


@given(st.lists(st.binary(max_size=12), max_size=16).filter(lambda f: len(f) % 2 == 0))
def test_any_entry_has_a_payload_or_says_why_not(fields: list[bytes]) -> None:
    try:
        payload = entry_payload(fields)
    except DecodeError:
        pass
    else:
        copied = entry_fields(payload, entry_headers(fields), extra_fields(fields))
        assert entry_payload(copied) == payload
        assert entry_headers(copied) == entry_headers(fields)
        assert extra_fields(copied) == extra_fields(fields)


@pytest.mark.case("DE-04")
def test_several_fields_become_a_json_object() -> None:
    fields = [b"id", b"1", b"card", "ü".encode(), b"h:x", b"y", b"id", b"2"]

    assert json.loads(entry_payload(fields)) == {"id": "1", "card": "ü"}


@pytest.mark.case("DE-04")
def test_the_first_payload_field_counts_and_the_second_survives() -> None:
    fields = [b"x", b"y", b"_payload", b"1", b"_payload", b"2"]

    assert entry_payload(fields) == b"1"
    assert extra_fields(fields) == [b"x", b"y", b"_payload", b"2"]
