"""Taskiq's broker for tests."""

from __future__ import annotations

from taskiq import InMemoryBroker

from benchmarks.common import Job, Tally, order
from benchmarks.order_model import OrderModel
from benchmarks.taskiq.stream import TASK, model


async def test_memory(job: Job, tally: Tally) -> None:
    """`InMemoryBroker`: no queue; what is sent is run in a task of its own."""
    broker = InMemoryBroker()
    tally.order_type = OrderModel

    @broker.task(task_name=TASK)
    async def handle(received: OrderModel) -> None:
        tally.count(received)

    await broker.startup()
    tally.begin()
    for number in range(job.entries):
        await handle.kiq(model(order(number)))
    await broker.wait_all()
    await tally.settled()
    await broker.shutdown()
