"""Redis streams by a careful loop over redis-py with hiredis, acknowledging a batch at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol, cast

import msgspec
from redis.asyncio import Redis

from benchmarks.common import (
    BLOCK_MS,
    COUNT_FIELD,
    HEADERS,
    READ_COUNT,
    WORKERS,
    Job,
    Order,
    Stopwatch,
    Tally,
    publish_all,
)

Entry = tuple[bytes, dict[bytes, bytes]]
StreamReply = list[tuple[bytes, list[Entry]]]


class Pipeline(Protocol):
    """Commands that leave together; an error of any of them is raised."""

    def xadd(self, stream: str, fields: dict[bytes, bytes]) -> object: ...
    def xack(self, stream: str, group: str, *ids: bytes) -> object: ...
    def xdel(self, stream: str, *ids: bytes) -> object: ...
    async def execute(self) -> list[object]: ...


class Client(Protocol):
    """The few calls that are used, with the types they have here."""

    async def xreadgroup(
        self, group: str, consumer: str, streams: dict[str, str], count: int, block: int
    ) -> StreamReply: ...
    async def xack(self, stream: str, group: str, *ids: bytes) -> int: ...
    async def xadd(self, stream: str, fields: dict[str, str | bytes]) -> bytes: ...
    def pipeline(self, transaction: bool) -> Pipeline: ...
    async def ping(self) -> bool: ...
    async def aclose(self) -> None: ...


def connect(job: Job) -> Client:
    """Without the driver's own limit on replies, which costs 10 %: its reads block anyway."""
    return cast("Client", Redis(host=job.host, port=job.port, socket_timeout=None))


async def consume(job: Job, tally: Tally) -> None:
    """Read 100, decode and handle each, acknowledge all with one XACK."""
    client = connect(job)
    decode = msgspec.json.Decoder(Order).decode

    async def handle(received: Order) -> None:
        tally.count(received)

    while tally.handled < job.entries:
        reply = await client.xreadgroup(
            job.group, "by-hand", {job.stream: ">"}, READ_COUNT, BLOCK_MS
        )
        for _, entries in reply:
            ids: list[bytes] = []
            for entry_id, fields in entries:
                await handle(decode(fields[b"_payload"]))
                ids.append(entry_id)
            await client.xack(job.stream, job.group, *ids)
    await tally.settled()
    await client.aclose()


async def consume_retried(job: Job, tally: Tally) -> None:
    """Whatever fails is appended again with its count; once that is stored the original is
    acknowledged. Copies are deleted when they are done, so that the stream does not grow."""
    client = connect(job)
    decode = msgspec.json.Decoder(Order).decode

    async def handle(received: Order, attempt: int) -> bool:
        if attempt == 1:
            tally.fail()
            return False
        tally.count(received)
        return True

    while tally.handled < job.entries:
        reply = await client.xreadgroup(
            job.group, "by-hand", {job.stream: ">"}, READ_COUNT, BLOCK_MS
        )
        for _, entries in reply:
            ids: list[bytes] = []
            copies: list[bytes] = []
            storing = client.pipeline(transaction=False)
            failed = False
            for entry_id, fields in entries:
                attempt = int(fields.get(COUNT_FIELD, 0)) + 1
                ids.append(entry_id)
                if attempt > 1:
                    copies.append(entry_id)
                if not await handle(decode(fields[b"_payload"]), attempt):
                    storing.xadd(job.stream, {**fields, COUNT_FIELD: b"%d" % attempt})
                    failed = True
            if failed:
                await storing.execute()
            settling = client.pipeline(transaction=False)
            settling.xack(job.stream, job.group, *ids)
            if copies:
                settling.xdel(job.stream, *copies)
            await settling.execute()
    await tally.settled()
    await client.aclose()


async def consume_by_workers(job: Job, tally: Tally) -> None:
    """Eight coroutines share each batch; one XACK when all are done."""
    client = connect(job)
    decode = msgspec.json.Decoder(Order).decode

    async def handle(received: Order) -> None:
        await asyncio.sleep(0)
        tally.count(received)

    async def work(entries: Iterator[Entry]) -> None:
        for _, fields in entries:
            await handle(decode(fields[b"_payload"]))

    while tally.handled < job.entries:
        reply = await client.xreadgroup(
            job.group, "by-hand", {job.stream: ">"}, READ_COUNT, BLOCK_MS
        )
        for _, entries in reply:
            shared = iter(entries)
            await asyncio.gather(*(work(shared) for _ in range(WORKERS)))
            await client.xack(job.stream, job.group, *(entry_id for entry_id, _ in entries))
    await tally.settled()
    await client.aclose()


async def publish(job: Job, watch: Stopwatch) -> None:
    """One awaited XADD an entry, from the client's pool of connections."""
    client = connect(job)
    encode = msgspec.json.Encoder().encode
    headers = {f"h:{name}": value for name, value in HEADERS.items()}

    async def send(each: Order) -> None:
        await client.xadd(job.stream, {"_payload": encode(each), **headers})

    await client.ping()
    watch.start()
    await publish_all(job, send)
    watch.stop()
    await client.aclose()
