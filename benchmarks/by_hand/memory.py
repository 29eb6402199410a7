"""A queue of the standard library, as a careful user reads one."""

from __future__ import annotations

import asyncio

import msgspec

from benchmarks.common import HEADERS, Job, Order, Tally, order


async def consume(job: Job, tally: Tally) -> None:
    """Payload and headers from an `asyncio.Queue`, decoded, handled, marked as done."""
    queue: asyncio.Queue[tuple[bytes, dict[str, str]]] = asyncio.Queue()
    decode = msgspec.json.Decoder(Order).decode
    for number in range(job.entries):
        queue.put_nowait((msgspec.json.encode(order(number)), HEADERS))

    async def handle(received: Order) -> None:
        tally.count(received)

    while tally.handled < job.entries:
        payload, _ = await queue.get()
        await handle(decode(payload))
        queue.task_done()
    await tally.settled()
