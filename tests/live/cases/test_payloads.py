"""Payloads, headers and entries of every kind, on every way they may go (rules 2.6 and 4.1)."""

from __future__ import annotations

import base64
import json
import os
from typing import Any

import msgspec
import pytest

from surestream import Outcome, Subscriber, ack, retry, retry_after
from tests.live.cases.service import DEAD, DELAYED, GROUP, STREAM, Given, Service, source, zset
from tests.live.support import Look, StartChild, eventually, until

HANDLE = "tests.live.cases.programs:handle"
QUARANTINE = f"{STREAM}.undecodable"


def every_way(given: Given) -> Outcome:
    """A copy, a delay, and in the end a dead letter."""
    return retry() if given.attempt % 2 else retry_after(0.02)


async def through_every_way(look: Look, count: int, **settings: Any) -> Service:
    """Run until ``count`` messages, which are in the stream, are dead letters."""
    service = Service(look.url)
    service.on(zset(), every_way, max_attempts=4, dead_letter=DEAD, **settings)
    async with service.running():
        await eventually(lambda: look.length(DEAD) == count, why=lambda: look.length(DEAD))
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert look.parked(DELAYED) == 0
    return service


# ── payloads ────────────────────────────────────────────────────────────────

BODIES = {
    "msgpack": b"\x82\xa2id\x01",
    "every byte": bytes(range(256)),
    "random": os.urandom(256),
    "zeros": b"\0" * 64,
    "lone surrogate": b'{"id": "\\ud800"}',
    "line breaks": b"a\r\nb\n$5\r\nc\r\n",
    "empty": b"",
    "bom": b"\xef\xbb\xbf{}",
}


@pytest.mark.case("DE-02", "DE-03")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_bytes_stay_what_they_are(look: Look, body: bytes) -> None:
    look.add(STREAM, body)

    service = await through_every_way(look, 1)

    assert [given.payload for given in service.runs] == [body] * 4
    assert look.payloads(DEAD) == [body]


class Order(msgspec.Struct):
    id: int


@pytest.mark.case("DE-02", "DE-07")
async def test_what_a_typed_handler_cannot_read_is_kept_as_it_came(look: Look) -> None:
    seen: list[int] = []

    async def work(order: Order) -> Outcome:
        seen.append(order.id)
        return ack()

    service = Service(look.url)
    service.broker.include(Subscriber(source(), work), max_attempts=3, dead_letter=DEAD)
    broken = [b"[" * 30 + b"]" * 30, b'{"id": 1e400}', b'{"id": "1"}', b'{"id": 1', b"null"]
    bad = [*BODIES.values(), *broken]
    for body in bad:
        look.add(STREAM, body, kept="yes")
        look.add(STREAM, {"id": len(seen)})
    async with service.running():
        await eventually(lambda: len(seen) == len(bad))
        await eventually(lambda: not look.pending(STREAM, GROUP))
    assert look.payloads(QUARANTINE) == bad
    assert {entry[b"h:kept"] for entry in look.entries(QUARANTINE)} == {b"yes"}
    assert look.redis.exists(DEAD) == 0


@pytest.mark.case("DE-08")
async def test_a_large_payload_arrives_everywhere_whole(look: Look) -> None:
    body = os.urandom(1024 * 1024 - 1000)
    for _ in range(3):
        look.add(STREAM, body)

    service = await through_every_way(look, 3)

    assert [given.payload == body for given in service.runs] == [True] * 12
    assert [payload == body for payload in look.payloads(DEAD)] == [True] * 3


# ── entries ─────────────────────────────────────────────────────────────────


@pytest.mark.case("DE-01")
def test_entries_that_are_gone_are_cleared_and_the_others_are_handled(
    start: StartChild, look: Look
) -> None:
    ids = [look.add(STREAM, b"%d" % number) for number in range(5)]
    first = start(HANDLE, url=look.url, takes={"0": 60})
    until(lambda: look.journal(), why=lambda: first.log)
    until(lambda: len(look.pending(STREAM, GROUP)) == 5, why=lambda: first.log)
    first.kill()
    look.redis.xdel(STREAM, ids[2], ids[4])
    look.redis.xtrim(STREAM, minid=ids[1], approximate=False)
    second = start(HANDLE, url=look.url, recover_after=0.3)

    until(lambda: not look.pending(STREAM, GROUP), why=lambda: second.log)
    assert second.stop() == 0
    assert [run["text"] for run in look.journal()] == ["0", "1", "3"]
    assert look.redis.exists(DEAD, QUARANTINE) == 0
    told = [line for line in second.log.splitlines() if "no longer in the stream" in line]
    assert len(told) == 1, second.log
    assert " 3 pending entries" in told[0]


FOREIGN: dict[str, tuple[list[bytes], bytes | None]] = {
    "one field": ([b"foo", b"bar"], b"bar"),
    "two fields": ([b"a b", b"1", b"c", "ü".encode()], '{"a b": "1", "c": "ü"}'.encode()),
    "one field of bytes": ([b"\xff\x00", b"\xfe"], b"\xfe"),
    "fields of bytes": ([b"\xff", b"1", b"b", b"\xfe"], None),
    "payload twice": ([b"_payload", b"first", b"_payload", b"second"], b"first"),
    "headers alone": ([b"h:a", b"1"], None),
    "empty name": ([b"", b"x"], b"x"),
}


@pytest.mark.case("DE-04")
@pytest.mark.parametrize(("fields", "body"), FOREIGN.values(), ids=FOREIGN)
async def test_entries_of_any_fields_are_read_or_set_aside(
    look: Look, fields: list[bytes], body: bytes | None
) -> None:
    look.redis.execute_command("XADD", STREAM, "*", *fields)
    look.add(STREAM, b"good")
    service = Service(look.url).on(source(), max_attempts=3, dead_letter=DEAD)
    async with service.running():
        await eventually(lambda: service.runs and service.runs[-1].payload == b"good")
        await eventually(lambda: not look.pending(STREAM, GROUP))
        await eventually(lambda: body is not None or look.length(QUARANTINE) == 1)
    if body is None:
        (kept,) = look.entries(QUARANTINE)
        assert kept == dict(zip(fields[::2], fields[1::2], strict=True))
        assert len(service.runs) == 1
    elif fields[0] == b"a b":
        assert json.loads(service.runs[0].payload) == json.loads(body)
    else:
        assert service.runs[0].payload == body


ENVELOPES: dict[str, list[bytes]] = {
    "FastStream": [b"__data__", b"\x89BIN\x0d\x0a\x1a\x0a\x00\x01\x00\x00\x00\x12" + b'{"id":1}'],
    "FastStream JSON": [b"__data__", b'{"data": "{\\"id\\":1}", "headers": {"a": "b"}}'],
    "Celery": [
        b"message",
        json.dumps(
            {"body": base64.b64encode(b'[[],{"id":1},{}]').decode(), "headers": {"task": "t"}}
        ).encode(),
    ],
    "taskiq": [b"data", b'{"task_id":"1","task_name":"t","labels":{},"args":[1],"kwargs":{}}'],
    "Sidekiq": [b"job", b'{"class":"Job","args":[1],"retry":true,"jid":"b4a5"}'],
    "Symfony": [b"message", b'{"body":"O:8:\\"stdClass\\":0:{}","headers":{"type":"T"}}'],
    "bare text": [b"text", b"hello"],
}


@pytest.mark.case("DE-05")
@pytest.mark.parametrize("fields", ENVELOPES.values(), ids=ENVELOPES)
async def test_foreign_envelopes_reach_a_bytes_handler_and_every_successor_unchanged(
    look: Look, fields: list[bytes]
) -> None:
    look.redis.execute_command("XADD", STREAM, "*", *fields)

    service = await through_every_way(look, 1)

    assert [given.payload for given in service.runs] == [fields[1]] * 4
    assert look.payloads(DEAD) == [fields[1]]


@pytest.mark.case("DE-05")
async def test_an_envelope_of_several_fields_is_a_json_object_of_them(look: Look) -> None:
    """Watermill's: where its metadata is no text, the entry is set aside as it came."""
    text = [b"_watermill_message_uuid", b"1", b"payload", b'{"id":1}', b"metadata", b"{}"]
    packed = [*text[:-1], b"\x81\xa1a\xa1b\xff"]
    look.redis.execute_command("XADD", STREAM, "*", *text)
    look.redis.execute_command("XADD", STREAM, "*", *packed)

    service = await through_every_way(look, 1)

    (body,) = set(look.payloads(DEAD))
    assert json.loads(body) == {text[i].decode(): text[i + 1].decode() for i in (0, 2, 4)}
    assert {given.payload for given in service.runs} == {body}
    assert look.entries(QUARANTINE) == [dict(zip(packed[::2], packed[1::2], strict=True))]


# ── headers and other fields ────────────────────────────────────────────────

ODD_HEADERS = {
    "größe": "Straße",
    "emoji-🐘": "🐘🐘",
    "empty": "",
    "spaces": "  both sides  ",
    "colon:in:name": "a: b",
    "line": "a\r\nx-ruststream-retry-count: 99\r\n",
    "UPPER": "Kept As It Is",
    **{f"many-{number}": str(number) for number in range(200)},
}


def users(headers: tuple[tuple[str, bytes], ...]) -> dict[str, str]:
    """Without those that belong to the package."""
    return {
        name: value.decode()
        for name, value in headers
        if not name.startswith(("x-surestream-", "x-ruststream-"))
    }


def headers_of(entry: dict[bytes, bytes]) -> tuple[tuple[str, bytes], ...]:
    return tuple((k[2:].decode(), v) for k, v in entry.items() if k.startswith(b"h:"))


@pytest.mark.case("HC-04", "SE-01")
@pytest.mark.parametrize("by_hand", [True, False], ids=["by hand", "published"])
async def test_odd_headers_are_the_same_on_every_way(look: Look, by_hand: bool) -> None:
    service = Service(look.url)
    service.on(zset(), every_way, max_attempts=4, dead_letter=DEAD)
    if by_hand:
        look.add(STREAM, b"x", **ODD_HEADERS)
    else:
        # A line break in a name is refused; in a value it is just a byte here.
        async with service.broker.connected():
            await service.broker.publish(STREAM, b"x", headers=ODD_HEADERS)
    async with service.running():
        await eventually(lambda: look.length(DEAD) == 1)
        await eventually(lambda: not look.pending(STREAM, GROUP))

    assert service.attempts() == [1, 2, 3, 4]
    for given in service.runs:
        assert users(given.headers) == ODD_HEADERS
    (dead,) = look.entries(DEAD)
    assert users(headers_of(dead)) == ODD_HEADERS
    assert dead[b"h:x-ruststream-retry-count"] == b"4"


@pytest.mark.case("HC-05")
async def test_very_long_names_and_values_are_carried_whole(look: Look) -> None:
    headers = {"n" * 65_535: "a", "m" * 70_000: "b", "value": "v" * 1024 * 1024}
    service = Service(look.url)
    async with service.broker.connected():
        await service.broker.publish(STREAM, b"x", headers=headers)
    assert users(headers_of(look.entries(STREAM)[0])) == headers

    service = await through_every_way(look, 1)

    for given in service.runs:
        assert users(given.headers) == headers
    assert users(headers_of(look.entries(DEAD)[0])) == headers


@pytest.mark.case("HC-10")
async def test_fields_that_are_neither_payload_nor_header_survive(look: Look) -> None:
    """On copies and dead letters; a delay set has room for payload and headers only."""
    fields = [b"before", b"1", b"_payload", b"x\xff", b"h:a", b"b\xfe", b"after \xff", b"\x00"]
    look.redis.execute_command("XADD", STREAM, "*", *fields)
    service = Service(look.url)
    service.on(source(), lambda given: retry(), max_attempts=3, dead_letter=DEAD)
    service.on(source(key=DEAD, group="review"))
    async with service.running():
        await eventually(lambda: len(service.runs) == 4)
    (dead,) = look.entries(DEAD)
    assert {name: dead[name] for name in fields[::2]} == dict(
        zip(fields[::2], fields[1::2], strict=True)
    )
    assert [given.payload for given in service.runs] == [b"x\xff"] * 4
