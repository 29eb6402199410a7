"""What every broker declaration shares: including handlers, publishing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar, Unpack

from surestream.codec import Codec, JsonCodec, check_codec
from surestream.contract import RunContext, Source, Transport
from surestream.declaration import UNSET, Redelivery
from surestream.delivery import Key
from surestream.errors import DeclarationError, NotRunning, Site, calling_site
from surestream.message import HeaderValues
from surestream.middleware import Middleware, PublishMiddleware, checked
from surestream.mounting import MountOptions, mount, mount_site
from surestream.router import Registrations, check_router
from surestream.runtime.lifecycle import Run, Solitary, current_run
from surestream.runtime.publishing import BoundPublisher, Publishing
from surestream.runtime.terms import Mounted
from surestream.subscriber import Subscriber

__all__ = ["Broker"]

S = TypeVar("S", bound=Source)


class Broker(Publishing, Generic[S]):
    """A broker as declared: which handlers it feeds. Connects to nothing (rule 7.1)."""

    source_type: type[Source] = Source
    """The sources that can be included here."""
    known_keys: frozenset[Key[Any]] | None = None
    """The context keys its deliveries answer; ``None`` checks nothing."""
    publisher_type: type[BoundPublisher] = BoundPublisher
    """What a handler gets that asks for a publisher."""

    def __init__(
        self,
        *,
        codec: Codec | None = None,
        middleware: Sequence[Middleware] = (),
        publish_middleware: Sequence[PublishMiddleware] = (),
    ) -> None:
        try:
            self._codec: Codec = JsonCodec() if codec is None else check_codec(codec)
            self._middleware = checked("middleware", middleware, "delivery, call_next")
            self.publish_middleware: Sequence[PublishMiddleware] = checked(
                "publish_middleware", publish_middleware, "message, send"
            )
        except DeclarationError as error:
            raise error.at(calling_site(f"{type(self).__name__}(…)")) from None
        self._mounts: list[Mounted] = []
        self._runs: list[Run] = []

    @abstractmethod
    def transport(self, context: RunContext) -> Transport:
        """A new transport for one run; in process where the context asks for it."""

    @property
    def codec(self) -> Codec:
        """How payloads are read and written; JSON unless given."""
        return self._codec

    @property
    def mounts(self) -> tuple[Mounted, ...]:
        """The handlers included so far."""
        return tuple(self._mounts)

    def include(
        self,
        subscriber: Subscriber[S, ..., Any],
        policy: Redelivery | None = None,
        **options: Unpack[MountOptions],
    ) -> None:
        """Mount a handler here.

        The redelivery settings are those of :class:`Redelivery` (``max_attempts``,
        ``dead_letter``, ``retry_to``, ``on_error`` …), here or in ``policy``, one place each.
        ``workers``: how many deliveries are handled at a time (1). ``by_key``: a header's name
        or a function of the delivery; messages of one key are handled one after another.
        ``timeout``: seconds or ``timedelta`` a handler may run (no limit); running out is a
        ``HandlerTimeout`` (rule 2.5). ``reply_to``: where a value that the handler returns is
        published, an address or a function of the delivery; it is stored before the message is
        acknowledged. ``middleware``: async functions around the handler, outermost first.
        ``codec``: how payloads (and replies) of this handler are read and written, where that
        differs from the broker's.

        Raises ``DeclarationError`` with the registration, the value, the reason and the line
        to write instead (rule 7.1).
        """
        self.mount(subscriber, policy, options, site=mount_site(subscriber))

    def include_router(self, router: Registrations[S]) -> None:
        """Mount every handler of a :class:`Router`, with its prefix and settings.

        Raises ``DeclarationError`` with the line in the router that it is about.
        """
        try:
            check_router(router)
        except DeclarationError as error:
            raise error.at(mount_site(router)) from None
        for entry in router.entries():
            self.mount(entry.subscriber, entry.policy, entry.options, site=entry.site)

    def mount(
        self,
        subscriber: Subscriber[S, ..., Any],
        policy: Redelivery | None,
        options: Mapping[str, Any],
        *,
        site: Site,
    ) -> None:
        """What :meth:`include` does, for a registration that stands at ``site``."""
        try:
            mounted = mount(
                subscriber,
                policy,
                options,
                site=site,
                source_type=self.source_type,
                broker=type(self).__name__,
                codec=self._codec,
                known_keys=self.known_keys,
                publisher=self.publisher_type,
                middleware=self._middleware,
            )
        except DeclarationError as error:
            raise error.at(site) from None
        self._mounts.append(mounted)

    # -- publishing -----------------------------------------------------------------------

    def _publish(
        self,
        destination: object,
        value: object = UNSET,
        headers: HeaderValues | None = None,
        options: object | None = None,
    ) -> Coroutine[Any, Any, None]:
        return self._live_run().publish(self, destination, value, headers, options)

    def _live_run(self) -> Run:
        run = current_run.get()
        if run is not None and self in run.app.brokers and run.live:
            return run
        live = [run for run in self._runs if run.live]
        if len(live) == 1:
            return live[0]
        if live:
            raise NotRunning(
                f"{self!r} runs {len(live)} times in this process: publish through the run, "
                "`await run.publish(broker, …)`"
            )
        raise NotRunning(
            f"{self!r} is not running: publish inside `async with app.running():` "
            "or `async with broker.connected():`"
        )

    def joined(self, run: Run) -> None:
        """A run of this broker begins (called by the run)."""
        self._runs.append(run)

    def left(self, run: Run) -> None:
        """A run of this broker is over (called by the run)."""
        if run in self._runs:
            self._runs.remove(run)

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Run, None]:
        """Connect to publish only: no handler runs.

        ``async with broker.connected(): await broker.publish(...)``
        """
        run = Run(Solitary(self), consume=False)
        await run.start()
        try:
            yield run
        finally:
            await run.stop()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
