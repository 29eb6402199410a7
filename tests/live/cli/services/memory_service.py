"""A service without a server."""

from __future__ import annotations

import time

from work import lifespan, work

from surestream import App, Outcome, Subscriber, ack, subscriber
from surestream.memory import MemoryBroker, MemoryTopic


async def publish(text: str) -> None:
    """To the topic that the text begins with, else to ``work``."""
    topic, _, rest = text.rpartition(":")
    await broker.publish(topic or "work", rest)


@subscriber(MemoryTopic("threads"))
def in_thread(text: str) -> Outcome:
    """A plain ``def`` that does not end."""
    print("began in a thread", flush=True)
    time.sleep(1000)
    return ack()


app = App("demo", version="1.2.3", lifespan=lifespan(publish))
broker = app.add(MemoryBroker())
broker.include(Subscriber(MemoryTopic("work"), work), max_attempts=5, workers=5)
broker.include(in_thread)


def create_app() -> App:
    """For ``--factory``."""
    return app
