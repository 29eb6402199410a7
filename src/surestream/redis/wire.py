"""The wire formats of streams and delay sets, shared with RustStream services.

A stream entry is a list of fields: ``_payload``, and one field ``h:<name>`` for each header.

A member of a delay set is ``u32 length ‖ name ‖ frame``; a frame is ``u32 number of headers``,
then for each header ``u32 length ‖ name ‖ u32 length ‖ value``, then the payload. Numbers are
big-endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from surestream.errors import DecodeError
from surestream.message import MARK_HEADER, NOT_BEFORE_HEADER, HeaderPairs

__all__ = [
    "MARK_FIELD",
    "NOT_BEFORE_FIELD",
    "PAYLOAD",
    "TRANSPORT_FIELDS",
    "entry_fields",
    "entry_headers",
    "entry_payload",
    "extra_fields",
    "foreign_fields",
    "frame",
    "member",
    "read_frame",
    "read_member",
]

PAYLOAD: Final = b"_payload"
HEADER: Final = b"h:"
MARK_FIELD: Final = HEADER + MARK_HEADER.encode()
NOT_BEFORE_FIELD: Final = HEADER + NOT_BEFORE_HEADER.encode()
TRANSPORT_FIELDS: Final = frozenset((MARK_FIELD, NOT_BEFORE_FIELD))
"""Fields that make an entry one to be looked at before its handler runs."""

_U32: Final = struct.Struct(">I")
_LEAST_HEADER: Final = 8
# What a foreign producer wrote survives a copy byte for byte, also where it is no UTF-8.
_ODD: Final = "surrogateescape"


# ── stream entries ──────────────────────────────────────────────────────────


def entry_payload(fields: Sequence[bytes]) -> bytes:
    """The payload of an entry.

    The value of its first ``_payload`` field. Of an entry written by others, without one: the
    value of its only field, or a JSON object of all its fields (of a repeated field the first),
    headers (``h:…``) left out.

    Raises :class:`~surestream.errors.DecodeError` where there is no field, or where names or
    values that should become JSON are no UTF-8.
    """
    body: dict[bytes, bytes] = {}
    for index in range(0, len(fields) - 1, 2):
        name = fields[index]
        if name == PAYLOAD:
            return fields[index + 1]
        if not name.startswith(HEADER):
            body.setdefault(name, fields[index + 1])
    if len(body) == 1:
        (value,) = body.values()
        return value
    if not body:
        raise DecodeError("the entry has no field that could be its payload")
    try:
        return json.dumps({name.decode(): value.decode() for name, value in body.items()}).encode()
    except UnicodeDecodeError as error:
        raise DecodeError(
            f"the entry has no field _payload, and its {len(body)} fields are no text: {error}"
        ) from None


def entry_headers(fields: Sequence[bytes]) -> HeaderPairs:
    """The headers of an entry, in their order, repeats kept."""
    return tuple(
        (fields[index][2:].decode("utf-8", _ODD), fields[index + 1])
        for index in range(0, len(fields) - 1, 2)
        if fields[index].startswith(HEADER)
    )


def extra_fields(fields: Sequence[bytes]) -> list[bytes]:
    """The fields of an entry with a payload that are neither payload nor header: they survive on
    copies and dead letters. Empty for an entry without ``_payload``, whose fields *are* the
    payload."""
    extra: list[bytes] = []
    found = False
    for index in range(0, len(fields) - 1, 2):
        name = fields[index]
        if name == PAYLOAD:
            # A second one is kept where it is: the first is read, before and after the copy.
            if found:
                extra += fields[index : index + 2]
            found = True
        elif not name.startswith(HEADER):
            extra += fields[index : index + 2]
    return extra if found else []


def foreign_fields(fields: Sequence[bytes]) -> list[bytes]:
    """The fields of an entry in which no payload can be found, headers left out: together they
    are its content."""
    content: list[bytes] = []
    for index in range(0, len(fields) - 1, 2):
        if not fields[index].startswith(HEADER):
            content += fields[index : index + 2]
    return content


def entry_fields(
    payload: bytes | None, headers: Iterable[tuple[str, bytes]], extra: Sequence[bytes] = ()
) -> list[bytes]:
    """The fields to write for a message; ``payload=None`` for one whose content is ``extra``.
    Raises ``UnicodeEncodeError`` for a header name that is no text."""
    fields = [] if payload is None else [PAYLOAD, payload]
    for name, value in headers:
        fields += (HEADER + name.encode("utf-8", _ODD), value)
    fields += extra
    return fields


# ── members of delay sets ───────────────────────────────────────────────────


def frame(headers: Iterable[tuple[str, bytes]], payload: bytes) -> bytes:
    """Headers and payload in one piece."""
    parts: list[bytes] = []
    count = 0
    for name, value in headers:
        raw = name.encode("utf-8", _ODD)
        parts += (_U32.pack(len(raw)), raw, _U32.pack(len(value)), value)
        count += 1
    return b"".join((_U32.pack(count), *parts, payload))


def read_frame(raw: bytes) -> tuple[HeaderPairs, bytes] | None:
    """Headers and payload of a frame, or ``None`` for anything else."""
    if len(raw) < 4:
        return None
    (count,) = _U32.unpack_from(raw)
    position = 4
    # A forged count must not make this spin.
    if count * _LEAST_HEADER > len(raw) - position:
        return None
    headers: list[tuple[str, bytes]] = []
    for _ in range(count):
        name = _piece(raw, position)
        if name is None:
            return None
        position += 4 + len(name)
        value = _piece(raw, position)
        if value is None:
            return None
        position += 4 + len(value)
        headers.append((name.decode("utf-8", _ODD), value))
    return tuple(headers), raw[position:]


def member(name: bytes, headers: Iterable[tuple[str, bytes]], payload: bytes) -> bytes:
    """A member of a delay set; ``name`` makes it unique."""
    return _U32.pack(len(name)) + name + frame(headers, payload)


def read_member(raw: bytes) -> tuple[bytes, HeaderPairs, bytes] | None:
    """Name, headers and payload of a member, or ``None`` for anything else."""
    name = _piece(raw, 0)
    if name is None:
        return None
    framed = read_frame(raw[4 + len(name) :])
    return None if framed is None else (name, *framed)


def _piece(raw: bytes, position: int) -> bytes | None:
    if position + 4 > len(raw):
        return None
    (length,) = _U32.unpack_from(raw, position)
    end = position + 4 + length
    return raw[position + 4 : end] if end <= len(raw) else None
