"""Redis streams over `hiredis.Reader` and nothing else: what the wire and the server allow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import cast

import hiredis
import msgspec

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
from benchmarks.wire import Argument, pack

Entry = tuple[bytes, list[bytes]]
StreamReply = list[tuple[bytes, list[Entry]]]


class Connection(asyncio.Protocol):
    """Commands are answered in order; those of one loop turn leave in one write."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[object]] = deque()
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := cast("object", self._reader.gets())) is not False:
            waiting = self._waiting.popleft()
            if waiting.cancelled():
                continue
            if isinstance(reply, Exception):
                waiting.set_exception(reply)
            else:
                waiting.set_result(reply)

    def send(self, *command: Argument) -> asyncio.Future[object]:
        """The future reply to a command."""
        if not self._unsent:
            self._loop.call_soon(self._write)
        self._unsent.append(pack(command))
        waiting = self._loop.create_future()
        self._waiting.append(waiting)
        return waiting

    def _write(self) -> None:
        self.transport.write(b"".join(self._unsent))
        self._unsent.clear()


async def connect(job: Job) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(
        Connection, job.host, job.port
    )
    return connection


async def consume(job: Job, tally: Tally) -> None:
    """One read in flight; the acknowledgement of 100 and the next read leave together."""
    connection = await connect(job)
    decode = msgspec.json.Decoder(Order).decode

    async def handle(received: Order) -> None:
        tally.count(received)

    read = ("XREADGROUP", "GROUP", job.group, "bare", "COUNT", READ_COUNT, "BLOCK", BLOCK_MS)
    reading = connection.send(*read, "STREAMS", job.stream, ">")
    while tally.handled < job.entries:
        reply = cast("StreamReply | None", await reading)
        ids: list[bytes] = []
        for entry_id, fields in reply[0][1] if reply else ():
            await handle(decode(fields[fields.index(b"_payload") + 1]))
            ids.append(entry_id)
        acknowledged = connection.send("XACK", job.stream, job.group, *ids) if ids else None
        if tally.handled < job.entries:
            reading = connection.send(*read, "STREAMS", job.stream, ">")
        elif acknowledged:
            await acknowledged
    await tally.settled()
    connection.transport.close()


async def consume_retried(job: Job, tally: Tally) -> None:
    """The copies of a batch in one write; once they are stored, one XACK for it, and one XDEL for
    the copies that are done, with the next read."""
    connection = await connect(job)
    decode = msgspec.json.Decoder(Order).decode

    async def handle(received: Order, attempt: int) -> bool:
        if attempt == 1:
            tally.fail()
            return False
        tally.count(received)
        return True

    read = ("XREADGROUP", "GROUP", job.group, "bare", "COUNT", READ_COUNT, "BLOCK", BLOCK_MS)
    reading = connection.send(*read, "STREAMS", job.stream, ">")
    while tally.handled < job.entries:
        reply = cast("StreamReply | None", await reading)
        ids: list[bytes] = []
        done: list[bytes] = []
        storing: list[asyncio.Future[object]] = []
        for entry_id, fields in reply[0][1] if reply else ():
            attempt = 1
            if COUNT_FIELD in fields:
                attempt += int(fields[fields.index(COUNT_FIELD) + 1])
                done.append(entry_id)
            ids.append(entry_id)
            if not await handle(decode(fields[fields.index(b"_payload") + 1]), attempt):
                copy = (*fields, COUNT_FIELD, b"%d" % attempt)
                storing.append(connection.send("XADD", job.stream, "*", *copy))
        for stored in storing:
            await stored
        if ids:
            acknowledged = connection.send("XACK", job.stream, job.group, *ids)
            if done:
                acknowledged = connection.send("XDEL", job.stream, *done)
            if tally.handled == job.entries:
                await acknowledged
        if tally.handled < job.entries:
            reading = connection.send(*read, "STREAMS", job.stream, ">")
    await tally.settled()
    connection.transport.close()


async def consume_by_workers(job: Job, tally: Tally) -> None:
    """Eight coroutines share each batch."""
    connection = await connect(job)
    decode = msgspec.json.Decoder(Order).decode

    async def handle(received: Order) -> None:
        await asyncio.sleep(0)
        tally.count(received)

    async def work(entries: Iterator[Entry]) -> None:
        for _, fields in entries:
            await handle(decode(fields[fields.index(b"_payload") + 1]))

    read = ("XREADGROUP", "GROUP", job.group, "bare", "COUNT", READ_COUNT, "BLOCK", BLOCK_MS)
    reading = connection.send(*read, "STREAMS", job.stream, ">")
    while tally.handled < job.entries:
        reply = cast("StreamReply | None", await reading)
        entries = reply[0][1] if reply else []
        shared = iter(entries)
        await asyncio.gather(*(work(shared) for _ in range(WORKERS)))
        ids = [entry_id for entry_id, _ in entries]
        acknowledged = connection.send("XACK", job.stream, job.group, *ids) if ids else None
        if tally.handled < job.entries:
            reading = connection.send(*read, "STREAMS", job.stream, ">")
        elif acknowledged:
            await acknowledged
    await tally.settled()
    connection.transport.close()


async def publish(job: Job, watch: Stopwatch) -> None:
    """A future for every entry, one write for those of one loop turn."""
    connection = await connect(job)
    encode = msgspec.json.Encoder().encode
    headers = [text for name, value in HEADERS.items() for text in (f"h:{name}", value)]

    async def send(each: Order) -> None:
        await connection.send("XADD", job.stream, "*", "_payload", encode(each), *headers)

    watch.start()
    await publish_all(job, send)
    watch.stop()
    connection.transport.close()
