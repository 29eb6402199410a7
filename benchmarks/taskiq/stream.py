"""Taskiq's stream broker: a task for every order, up to 100 at a time, acknowledged each.

The receiver that its command line starts runs in this process. Arguments are validated by
pydantic, which alone it offers. After every read it looks for what was left behind, under a lock.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from taskiq import SimpleRetryMiddleware, TaskiqMessage
from taskiq.formatters.json_formatter import JSONFormatter
from taskiq.receiver import Receiver
from taskiq_redis import RedisStreamBroker

from benchmarks.common import (
    HEADERS,
    READ_COUNT,
    WORKERS,
    Job,
    Order,
    Stopwatch,
    Tally,
    order,
    publish_all,
)
from benchmarks.order_model import OrderModel
from benchmarks.wire import Argument

TASK = "bench:handle"
TOGETHER = 100
"""Its default."""


class UnavailableError(Exception):
    """What makes a message be tried again."""


def model(each: Order) -> OrderModel:
    return OrderModel(
        id=each.id,
        customer=each.customer,
        sku=each.sku,
        quantity=each.quantity,
        price_cents=each.price_cents,
        currency=each.currency,
        express=each.express,
    )


def frames(entries: int) -> list[tuple[Argument, ...]]:
    """The fields of the first entries as Taskiq itself writes them, headers as labels."""
    formatter = JSONFormatter()
    return [
        (
            "data",
            formatter.dumps(
                TaskiqMessage(
                    task_id=f"{number:032x}",
                    task_name=TASK,
                    labels=dict(HEADERS),
                    labels_types=dict.fromkeys(HEADERS, 3),
                    args=[model(order(number)).model_dump()],
                    kwargs={},
                )
            ).message,
        )
        for number in range(entries)
    ]


def _broker(job: Job) -> RedisStreamBroker:
    # What it logs of every failure is expensive.
    logging.getLogger("taskiq").setLevel(logging.CRITICAL)
    return RedisStreamBroker(
        job.url,
        queue_name=job.stream,
        consumer_group_name=job.group,
        xread_count=READ_COUNT,
    )


async def consume(job: Job, tally: Tally) -> None:
    broker = _broker(job)
    tally.order_type = OrderModel

    @broker.task(task_name=TASK)
    async def handle(received: OrderModel) -> None:
        tally.count(received)

    await _run(broker, tally, TOGETHER)


async def consume_retried(job: Job, tally: Tally) -> None:
    """Its retry middleware: what failed is sent again."""
    broker = _broker(job).with_middlewares(
        SimpleRetryMiddleware(default_retry_count=5, default_retry_label=True)
    )
    tally.order_type = OrderModel
    tried: set[int] = set()

    @broker.task(task_name=TASK)
    async def handle(received: OrderModel) -> None:
        if received.id not in tried:
            tried.add(received.id)
            tally.fail()
            raise UnavailableError
        tally.count(received)

    await _run(broker, tally, TOGETHER)


async def consume_by_workers(job: Job, tally: Tally) -> None:
    """Eight tasks at a time."""
    broker = _broker(job)
    tally.order_type = OrderModel

    @broker.task(task_name=TASK)
    async def handle(received: OrderModel) -> None:
        await asyncio.sleep(0)
        tally.count(received)

    await _run(broker, tally, WORKERS)


async def _run(broker: RedisStreamBroker, tally: Tally, together: int) -> None:
    await broker.startup()
    over = asyncio.Event()
    with ThreadPoolExecutor(1) as threads:
        receiver = Receiver(broker, threads, run_startup=False, max_async_tasks=together)
        receiving = asyncio.create_task(receiver.listen(over))
        await tally.settled()
        over.set()
        # Its last read now and then overlooks that it was cancelled.
        while not receiving.done():
            await asyncio.wait((receiving,), timeout=0.2)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
    await broker.shutdown()


async def publish(job: Job, watch: Stopwatch) -> None:
    """`task.kiq`, awaited."""
    broker = _broker(job)

    @broker.task(task_name=TASK, **HEADERS)
    async def handle(received: OrderModel) -> None: ...

    async def send(each: Order) -> None:
        await handle.kiq(model(each))

    await broker.startup()
    watch.start()
    await publish_all(job, send)
    watch.stop()
    await broker.shutdown()
