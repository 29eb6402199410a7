"""Redis streams by a careful loop over redis-py with hiredis, acknowledging a batch at a time."""

from __future__ import annotations

from typing import Protocol, cast

import msgspec
from redis.asyncio import Redis

from benchmarks.common import (
    BLOCK_MS,
    HEADERS,
    READ_COUNT,
    Job,
    Order,
    Stopwatch,
    Tally,
    publish_all,
)

StreamReply = list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]


class Client(Protocol):
    """The few calls that are used, with the types they have here."""

    async def xreadgroup(
        self, group: str, consumer: str, streams: dict[str, str], count: int, block: int
    ) -> StreamReply: ...
    async def xack(self, stream: str, group: str, *ids: bytes) -> int: ...
    async def xadd(self, stream: str, fields: dict[str, str | bytes]) -> bytes: ...
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
