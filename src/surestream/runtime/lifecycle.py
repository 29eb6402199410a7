"""One run of a service: start, stop, failure (section 7)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from surestream.codec import Codec
from surestream.contract import RunContext, Stored, Transport
from surestream.declaration import UNSET, Unset
from surestream.errors import DeclarationError, NotRunning, ServiceFailed
from surestream.message import HeaderValues, Outgoing
from surestream.middleware import Middleware, PublishMiddleware, around_publish
from surestream.runtime.calls.state import resolve_state
from surestream.runtime.calls.threads import HandlerThreads
from surestream.runtime.consumer import Consumer
from surestream.runtime.health import Health, Phase
from surestream.runtime.observe import Observer
from surestream.runtime.publishing import (
    BoundPublisher,
    finished,
    in_handler,
    prepare,
    unreserved,
)
from surestream.runtime.terms import Mounted
from surestream.runtime.topology import check_topology

__all__ = ["BrokerDeclaration", "Run", "Service", "Solitary", "current_run"]

log = logging.getLogger("surestream")

current_run: ContextVar[Run | None] = ContextVar("surestream_run", default=None)
"""The run in whose handlers or ``running()`` block this code is."""


class BrokerDeclaration(Protocol):
    """What a run needs of a broker."""

    @property
    def mounts(self) -> Sequence[Mounted]: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def publish_middleware(self) -> Sequence[PublishMiddleware]: ...
    @property
    def publisher_type(self) -> type[BoundPublisher]: ...
    def transport(self, context: RunContext) -> Transport: ...
    def joined(self, run: Run) -> None: ...
    def left(self, run: Run) -> None: ...


class Service(Protocol):
    """What a run needs of an app."""

    @property
    def title(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def strict(self) -> bool: ...
    @property
    def connect_timeout(self) -> float: ...
    @property
    def shutdown_timeout(self) -> float: ...
    @property
    def middleware(self) -> Sequence[Middleware]: ...
    @property
    def publish_middleware(self) -> Sequence[PublishMiddleware]: ...
    @property
    def brokers(self) -> Sequence[BrokerDeclaration]: ...
    def open_lifespan(self) -> AbstractAsyncContextManager[object] | None: ...


@dataclass(frozen=True)
class Solitary:
    """The service that one broker alone makes, to publish only."""

    broker: BrokerDeclaration
    title: str = "publisher"
    version: str = "0"
    strict: bool = False
    connect_timeout: float = 30.0
    shutdown_timeout: float = 30.0
    middleware: Sequence[Middleware] = ()
    publish_middleware: Sequence[PublishMiddleware] = ()

    @property
    def brokers(self) -> Sequence[BrokerDeclaration]:
        return (self.broker,)

    def open_lifespan(self) -> None:
        return None


class Run:
    """Holds everything that lives; the app and its brokers are declarations (rule 7.1)."""

    def __init__(
        self,
        app: Service,
        *,
        in_process: bool = False,
        consume: bool = True,
        state: object | Unset = UNSET,
        observer: Observer | None = None,
        chance: random.Random | None = None,
        threads_idle: Callable[[], None] | None = None,
        shutdown_timeout: float | None = None,
    ) -> None:
        self.app = app
        self.observer = observer
        self.context = RunContext(
            service=f"{app.title}/{app.version}",
            chance=chance or random.Random(),
            warn=self._warn,
            in_process=in_process,
        )
        self.shutdown_timeout = (
            app.shutdown_timeout if shutdown_timeout is None else shutdown_timeout
        )
        """Seconds that a graceful stop may take: the app's, unless given."""
        self.failure: BaseException | None = None
        """What made the service stop, where a fault did."""
        self.subscriptions: list[Consumer] = []
        self._state, self._state_given = state, state is not UNSET
        self._consume = consume
        self._phase = Phase.NEW
        self._stack = AsyncExitStack()
        self._transports: dict[int, Transport] = {}
        threaded = (
            mounted.workers
            for broker in app.brokers
            for mounted in broker.mounts
            if not mounted.call.is_async
        )
        self._threads = HandlerThreads(sum(threaded), changed=threads_idle)
        self._ending: asyncio.Event | None = None
        self._over = asyncio.Event()

    # -- start ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Check, open the lifespan, connect, subscribe, dispatch (rule 7.2).

        Raises ``DeclarationError`` before anything is connected, ``ConnectFailed`` when a
        broker cannot be reached in ``connect_timeout``; a failure unwinds in reverse.
        """
        if self._phase is not Phase.NEW:
            raise NotRunning("this run was started before: make a new one with app.running()")
        self._phase = Phase.STARTING
        self._ending = asyncio.Event()
        current_run.set(self)
        try:
            await self._start()
        except BaseException as error:
            self._phase = Phase.FAILED
            self.failure = error
            await self._safely("closing after the failed start", self._stack.aclose)
            raise
        self._phase = Phase.RUNNING
        log.info("%s: running", self.context.service)

    async def _start(self) -> None:
        if self._consume:
            for broker in self.app.brokers:
                check_topology(broker.mounts, self.context.warn)
            if not any(broker.mounts for broker in self.app.brokers):
                self.context.warn(
                    f"{self.context.service}: no handler is included, so nothing is read: is "
                    "include(…) or include_router(…) missing?"
                )
        await self._open_lifespan()
        mounts: list[tuple[BrokerDeclaration, Consumer, Callable[..., Any]]] = []
        if self._consume:
            for broker in self.app.brokers:
                for mounted in broker.mounts:
                    mounts.append(
                        (broker, self._consumer(mounted, broker), self._bind(mounted, broker))
                    )
        for broker in self.app.brokers:
            transport = broker.transport(self.context)
            broker.joined(self)
            self._stack.callback(broker.left, self)
            self._transports[id(broker)] = transport
            self._stack.push_async_callback(self._safely, "closing a broker", transport.close)
            await transport.connect(self.app.connect_timeout)
        self._stack.push_async_callback(self._stop_threads)
        for broker, consumer, _ in mounts:
            await consumer.open(self._transports[id(broker)])
            self._stack.push_async_callback(self._safely, "closing", consumer.close)
            self.subscriptions.append(consumer)
        for _, consumer, call in mounts:
            consumer.start(call)

    async def _open_lifespan(self) -> None:
        if self._state is not UNSET:
            return
        lifespan = self.app.open_lifespan()
        if lifespan is not None:
            self._state = await self._stack.enter_async_context(lifespan)

    def _consumer(self, mounted: Mounted, broker: BrokerDeclaration) -> Consumer:
        # Rivals share their claims: the smallest lease among them counts (rule 6.2).
        rivals = (one for one in broker.mounts if one.source.rivals == mounted.source.rivals)
        leases = [one.abilities.lease for one in rivals if one.abilities.lease is not None]
        return Consumer(
            mounted,
            service=self.context.service,
            chance=self.context.chance,
            observer=self.observer,
            threads=self._threads,
            lease=min(leases, default=None),
            middleware=self.app.middleware,
            publish_middleware=self._publish_middleware(broker),
            fatal=self.fail,
        )

    def _bind(self, mounted: Mounted, broker: BrokerDeclaration) -> Callable[..., Any]:
        state = partial(resolve_state, self._state, given=self._state_given)

        async def publish(
            destination: object,
            value: object = UNSET,
            headers: HeaderValues | None = None,
            options: object | None = None,
        ) -> None:
            # Wherever it is used: the handler may have handed it on (rule 4.10).
            await self.publish(broker, destination, value, unreserved(headers), options)

        return mounted.call.bind(state, broker.publisher_type(publish))

    def _warn(self, message: str) -> None:
        if self.app.strict:
            raise DeclarationError(
                message, why="App(strict=True) refuses what it would otherwise warn of"
            )
        log.warning("%s", message)

    # -- while it runs --------------------------------------------------------------------

    async def publish(
        self,
        broker: BrokerDeclaration,
        destination: object,
        value: object = UNSET,
        headers: HeaderValues | None = None,
        options: object | None = None,
    ) -> None:
        """Publish on ``broker``; returns when the broker has confirmed. ``options`` are what
        the broker's own ``publish`` builds for its transport."""
        message = prepare(broker.codec, destination, value, headers, options)
        if not self.app.publish_middleware and not broker.publish_middleware:
            await self.send(broker, message)
            return
        middleware = self._publish_middleware(broker)
        clean = in_handler.get()

        async def send(message: Outgoing) -> None:
            await self.send(broker, finished(message, clean=clean))

        await around_publish(middleware, send)(message)

    def _publish_middleware(self, broker: BrokerDeclaration) -> Sequence[PublishMiddleware]:
        return (*self.app.publish_middleware, *broker.publish_middleware)

    async def send(self, broker: BrokerDeclaration, message: Outgoing) -> Stored:
        """Publish a finished message, past all middleware."""
        transport = self._transports.get(id(broker))
        if transport is None or not self.live:
            raise NotRunning(
                f"{broker!r} is not connected in this run: publish between start and stop"
            )
        stored = await transport.publish(message)
        if self.observer is not None:
            self.observer.published(message, "publish")
        return stored

    @property
    def health(self) -> Health:
        """How the service is."""
        reasons = [t.trouble for t in self._transports.values()]
        for consumer in self.subscriptions:
            reasons.append(consumer.trouble)
        if self.failure is not None:
            reasons.append(repr(self.failure))
        return Health(self._phase, tuple(reason for reason in reasons if reason))

    @property
    def live(self) -> bool:
        """Whether something can be published through this run."""
        return self._phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)

    @property
    def threads_busy(self) -> int:
        """How many ``def`` handlers are under way in worker threads."""
        return self._threads.busy

    def fail(self, error: BaseException) -> None:
        """Something cannot heal: ask the service to stop, loudly."""
        if self.failure is None:
            self.failure = error
            if not isinstance(error, KeyboardInterrupt | SystemExit):
                log.critical("%s: stopping: %r", self.context.service, error, exc_info=error)
        for consumer in self.subscriptions:
            consumer.halt()
        self.ask_to_stop()

    def ask_to_stop(self) -> None:
        """Let :meth:`until_asked` return."""
        if self._ending is not None:
            self._ending.set()

    async def until_asked(self) -> None:
        """Wait until something asks the service to stop."""
        if self._ending is None:
            raise NotRunning("the run was not started")
        await self._ending.wait()

    # -- stop -----------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop gracefully within ``shutdown_timeout`` (rule 7.3). Never raises for a broker
        that fails to close. Raises ``ServiceFailed`` where a fault made the service stop."""
        if self._phase is Phase.STOPPING:
            await self._over.wait()
        elif self._phase is not Phase.STOPPED:
            await self._stop()
        if self.failure is not None:
            if isinstance(self.failure, KeyboardInterrupt | SystemExit):
                raise self.failure
            raise ServiceFailed(
                f"{self.context.service} failed: {self.failure!r}"
            ) from self.failure

    async def _stop(self) -> None:
        running = self._phase is Phase.RUNNING
        self._phase = Phase.STOPPING
        try:
            if running:
                log.info("%s: stopping", self.context.service)
                await self._drain()
        finally:
            # Also where the stop itself is cancelled: nothing stays open.
            self.ask_to_stop()
            try:
                await self._stack.aclose()
            except Exception as error:
                if self.failure is None:
                    self.failure = error
                    raise
                log.exception("%s: closing failed", self.context.service)
            finally:
                self._phase = Phase.STOPPED if self.failure is None else Phase.FAILED
                self._over.set()
                log.info("%s: %s", self.context.service, self._phase.value)

    async def _drain(self) -> None:
        limit = asyncio.get_running_loop().time() + self.shutdown_timeout
        if not await self._within(limit, [consumer.stop() for consumer in self.subscriptions]):
            cuts = await asyncio.gather(*(consumer.cut() for consumer in self.subscriptions))
            for name in (name for names in cuts for name in names):
                log.warning("%s: still running at shutdown_timeout, cut off", name)
        limit = max(limit, asyncio.get_running_loop().time() + 1.0)
        finishing = [consumer.finish() for consumer in self.subscriptions]
        if not await self._within(limit, finishing):
            log.warning("%s: settlements under way at shutdown_timeout", self.context.service)

    async def _within(self, limit: float, work: Sequence[Any]) -> bool:
        """Run all of ``work``; whether it ended in time. What did not is cancelled."""
        tasks = [asyncio.ensure_future(part) for part in work]
        if not tasks:
            return True
        left = max(limit - asyncio.get_running_loop().time(), 0.0)
        _, pending = await asyncio.wait(tasks, timeout=left)
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending)
        for task in tasks:
            if not task.cancelled() and task.exception() is not None:
                log.error("while stopping", exc_info=task.exception())
        return not pending

    async def _stop_threads(self) -> None:
        await self._threads.stop(0.0)

    async def _safely(self, what: str, close: Callable[[], Any]) -> None:
        """One part that fails to close does not keep the others open (rule 7.3)."""
        try:
            await close()
        except Exception:
            log.exception("%s: %s failed", self.context.service, what)
