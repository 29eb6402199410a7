"""A deque, decoding and awaiting: what the interpreter allows."""

from __future__ import annotations

from collections import deque

import msgspec

from benchmarks.common import Job, Order, Tally, order


async def consume(job: Job, tally: Tally) -> None:
    """Payloads from a `deque`, decoded and handled."""
    waiting = deque(msgspec.json.encode(order(number)) for number in range(job.entries))
    decode = msgspec.json.Decoder(Order).decode

    async def handle(received: Order) -> None:
        tally.count(received)

    while waiting:
        await handle(decode(waiting.popleft()))
    await tally.settled()
