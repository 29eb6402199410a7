"""SureStream on Redis streams, as its guide writes it and with its defaults."""

from __future__ import annotations

from benchmarks.common import HEADERS, Job, Order, Stopwatch, Tally, publish_all
from surestream import App, subscriber
from surestream.redis import RedisBroker, RedisStream


async def consume(job: Job, tally: Tally) -> None:
    """One sequential subscription of a consumer group."""

    @subscriber(RedisStream(job.stream, group=job.group))
    async def handle(received: Order) -> None:
        tally.count(received)

    app = App("bench")
    app.add(RedisBroker(job.url)).include(handle)
    async with app.running():
        await tally.settled()


async def publish(job: Job, watch: Stopwatch) -> None:
    """`broker.publish`, which answers when the server has."""
    app = App("bench")
    broker = app.add(RedisBroker(job.url))

    async def send(each: Order) -> None:
        await broker.publish(job.stream, each, headers=HEADERS)

    async with app.running():
        watch.start()
        await publish_all(job, send)
        watch.stop()
