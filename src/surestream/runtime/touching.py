"""Keeps claims alive while the worker lives (rule 6.2): one sweep a subscription."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from surestream.contract import Subscription
from surestream.delivery import Delivery
from surestream.errors import SureStreamError
from surestream.runtime.terms import Mounted

__all__ = ["Touching"]

log = logging.getLogger("surestream.dispatch")


class Working(Protocol):
    """A worker, as far as its claim goes."""

    @property
    def running(self) -> Delivery | None: ...
    @property
    def since(self) -> float: ...


class Touching:
    """Every third of the lease, touches what the process holds.

    A handler that runs longer than ``hold_limit`` loses its claim; what waits for a successor
    or a timer is touched as long as it waits.
    """

    def __init__(
        self,
        mounted: Mounted,
        live: Subscription,
        lease: float | None,
        *,
        held: Callable[[], Iterable[Delivery]],
        workers: Sequence[Working],
    ) -> None:
        self._name = mounted.name
        self._held = held
        self._workers = workers
        self._live = live
        self._lease = lease
        self._hold_limit = mounted.hold_limit
        self._warned: set[Delivery] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sweep, where the source has a lease."""
        if self._lease is not None:
            self._task = asyncio.get_running_loop().create_task(self._sweep(self._lease / 3))

    def stop(self) -> None:
        """Touch nothing any more."""
        if self._task is not None:
            self._task.cancel()

    async def _sweep(self, every: float) -> None:
        seen: set[Delivery] = set()
        while True:
            await asyncio.sleep(every)
            held = set(self._claims())
            old = [delivery for delivery in held if delivery in seen]
            seen = held
            if not old:
                continue
            try:
                await self._live.touch(old)
            except SureStreamError as error:
                log.debug("%s: claims not renewed: %s", self._name, error)
            except Exception:
                # The next sweep tries again: without it every claim would be lost in silence.
                log.exception("%s: renewing claims failed", self._name)

    def _claims(self) -> Iterator[Delivery]:
        now = asyncio.get_running_loop().time()
        too_long: set[Delivery] = set()
        for worker in self._workers:
            running = worker.running
            if running is not None and now - worker.since > self._hold_limit:
                too_long.add(running)
                if running not in self._warned:
                    log.warning(
                        "%s %s: its handler has run longer than hold_limit=%g s; another worker "
                        "may take it over (timeout= is the better tool)",
                        self._name,
                        running.id,
                        self._hold_limit,
                    )
        self._warned = too_long
        for delivery in self._held():
            if delivery not in too_long:
                yield delivery
