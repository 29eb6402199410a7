"""One worker: take a delivery, decode, call the handler, settle. The hot path."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Protocol

from surestream.delivery import Delivery
from surestream.outcome import ack
from surestream.runtime.intake import Intake
from surestream.runtime.observe import Observer
from surestream.runtime.running import limited, resume
from surestream.runtime.settling import BUSY, FLUSH_AT, Settling
from surestream.runtime.terms import Mounted
from surestream.runtime.verdicts import Verdicts

__all__ = ["Worker"]

log = logging.getLogger("surestream.dispatch")

LATEST = 0.002
"""Acknowledgements are written this many seconds after their handler at the latest (7.6)."""
SLOW = 0.0002
"""A handler that takes longer than this has its acknowledgement written at once: the next one
could be as slow."""

ACK = ack()


class Workplace(Protocol):
    """What a worker needs of its subscription."""

    mounted: Mounted
    intake: Intake
    settling: Settling
    verdicts: Verdicts
    observer: Observer | None
    invoke: Callable[[Delivery, object], Coroutine[Any, Any, object]]
    attention: bool

    @property
    def ending(self) -> bool: ...
    def attempt(self, delivery: Delivery) -> int: ...
    async def next_delivery(
        self, worker: Worker, lane: int, queue: deque[Delivery]
    ) -> Delivery | None: ...
    async def breathe(self) -> None: ...
    def admit(self, worker: Worker, delivery: Delivery) -> bool: ...
    async def interrupted(self, delivery: Delivery) -> None: ...
    def failed(self, error: BaseException) -> None: ...
    def redelivered_ended(self) -> None: ...


class Worker:
    """A long-lived coroutine that handles one delivery at a time."""

    __slots__ = ("_consumer", "_lane", "_queue", "redelivered", "running", "since")

    def __init__(self, consumer: Workplace, number: int) -> None:
        self._consumer = consumer
        self._lane = consumer.intake.lane(number)
        self._queue: deque[Delivery] = consumer.intake.lanes[self._lane]
        self.running: Delivery | None = None
        """What the handler works on now."""
        self.since = 0.0
        """When it was started, by the loop's clock."""
        self.redelivered = False
        """It was taken over from a dead worker (rule 3.6)."""

    async def run(self) -> None:
        """Work until the consumer stops. A handler that cancels its own task ends nothing."""
        while True:
            try:
                return await self._work()
            except asyncio.CancelledError:
                if self._consumer.ending:
                    raise
                _stay_alive()

    async def _work(self) -> None:
        consumer = self._consumer
        mounted = consumer.mounted
        queue = self._queue
        settling = consumer.settling
        verdicts = consumer.verdicts
        observer = consumer.observer
        invoke: Callable[[Delivery, object], Coroutine[Any, Any, object]] = consumer.invoke
        takes_payload = mounted.call.takes_payload
        decode = mounted.call.decode
        decode_errors = mounted.call.decode_errors
        none_acks = mounted.call.none_acks
        timeout = mounted.timeout
        time = asyncio.get_running_loop().time
        first = previous = breathed = time()
        value: object = None
        done = settling.done
        turns = 0
        while True:
            if turns >= FLUSH_AT:
                turns = 0
                await consumer.breathe()
                previous = breathed = time()
            if queue and not consumer.attention:
                delivery = queue.popleft()
            else:
                settling.flush()
                done = settling.done  # not the last ones: they may go while this waits
                taken = await consumer.next_delivery(self, self._lane, queue)
                if taken is None:
                    return
                delivery = taken
                previous = breathed = time()
            self.running = delivery
            if observer is not None:
                observer.arrived(delivery)
            if delivery.special and not consumer.admit(self, delivery):
                self._ended()
                turns += 1
                continue
            if takes_payload:
                try:
                    value = decode(delivery.payload)
                except decode_errors as error:
                    verdicts.undecodable(delivery, error)
                    self._ended()
                    turns += 1
                    continue
            if observer is not None:
                observer.called(delivery, consumer.attempt(delivery), value)
            self.since = previous
            failure: BaseException | None = None
            result: object = None
            try:
                context = copy_context()
                coroutine = invoke(delivery, value)
                try:
                    waited = context.run(coroutine.send, None)
                except StopIteration as stop:
                    result = stop.value
                else:
                    settling.flush_soon()
                    if timeout is None:
                        result = await resume(coroutine, context, waited)
                    else:
                        limit = previous + timeout
                        result = await limited(coroutine, context, waited, limit, timeout)
                    first = previous = breathed = time()
            except asyncio.CancelledError as error:
                if consumer.ending:
                    await consumer.interrupted(delivery)
                    self._ended()
                    raise
                _stay_alive()
                failure = error
            except (KeyboardInterrupt, SystemExit) as error:
                self._ended()
                consumer.failed(error)
                return
            except BaseException as error:
                failure = error
            if failure is None and (result is ACK or (result is None and none_acks)):
                if observer is not None:
                    observer.returned(delivery, ACK, None)
                if self.redelivered:
                    self._ended()
                self.running = None
                done = settling.done
                done.append(delivery)
                now = time()
                if len(done) == 1:
                    first = now
                if len(done) >= FLUSH_AT or now - first >= LATEST or now - previous >= SLOW:
                    settling.flush()
                    consumer.intake.check_hunger()
                    await consumer.breathe()
                    now = breathed = time()
                previous = now
            else:
                verdicts.decided(delivery, result, failure)
                self._ended()
                turns += 1
                now = time()
                if settling.storing >= BUSY or now - breathed >= LATEST:
                    await consumer.breathe()
                    now = breathed = time()
                previous = now

    def _ended(self) -> None:
        self.running = None
        if self.redelivered:
            self.redelivered = False
            self._consumer.redelivered_ended()


def _stay_alive() -> None:
    """A handler that cancelled its own task does not end the worker (rule 2.4)."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
