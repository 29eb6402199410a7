"""What every broker declaration shares: including handlers, publishing."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Generic, TypeVar, cast, overload

from surestream.codec import Codec, JsonCodec
from surestream.contract import RunContext, Source, Transport
from surestream.declaration import (
    UNSET,
    DetailLevel,
    ErrorRules,
    Redelivery,
    RetryTo,
    Unset,
    duration,
)
from surestream.delivery import Key
from surestream.errors import DeclarationError, DeclarationTypeError, NotRunning, Site
from surestream.message import HeaderValues
from surestream.outcome import Outcome
from surestream.runtime.calls.calling import compile_call
from surestream.runtime.failures import compile_errors
from surestream.runtime.lifecycle import Run, Solitary, current_run
from surestream.runtime.redelivery import Terms
from surestream.runtime.terms import ByKey, Mounted
from surestream.subscriber import Subscriber

__all__ = ["Broker"]

S = TypeVar("S", bound=Source)
V = TypeVar("V")


class Broker(ABC, Generic[S]):
    """A broker as declared: which handlers it feeds. Connects to nothing (rule 7.1)."""

    source_type: type[Source] = Source
    """The sources that can be included here."""
    known_keys: frozenset[Key[Any]] | None = None
    """The context keys its deliveries answer; ``None`` checks nothing."""

    def __init__(self, *, codec: Codec | None = None) -> None:
        self._codec: Codec = codec or JsonCodec()
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
        *,
        max_attempts: int | Unset = UNSET,
        dead_letter: str | Unset = UNSET,
        retry_to: RetryTo | Unset = UNSET,
        on_error: ErrorRules | Unset = UNSET,
        on_decode_error: Outcome | Unset = UNSET,
        quarantine: str | Unset | None = UNSET,
        dead_letter_details: DetailLevel | Unset = UNSET,
        hand_over: bool | Unset = UNSET,
        hold_limit: float | timedelta | Unset = UNSET,
        max_unsettled: int | Unset = UNSET,
        workers: int = 1,
        by_key: ByKey | None = None,
        timeout: float | timedelta | None = None,
    ) -> None:
        """Mount a handler here.

        The redelivery settings are those of :class:`Redelivery`, here or in ``policy``, one
        place each. ``workers``: how many deliveries are handled at a time (1). ``by_key``: a
        header's name or a function of the delivery; messages of one key are handled one after
        another. ``timeout``: seconds or ``timedelta`` a handler may run (no limit); running
        out is a ``HandlerTimeout`` (rule 2.5).

        Raises ``DeclarationError`` with the registration, the value, the reason and the line
        to write instead (rule 7.1).
        """
        site = _mount_site(subscriber)
        try:
            settings = Redelivery(
                max_attempts=max_attempts,
                dead_letter=dead_letter,
                retry_to=retry_to,
                on_error=on_error,
                on_decode_error=on_decode_error,
                quarantine=quarantine,
                dead_letter_details=dead_letter_details,
                hand_over=hand_over,
                hold_limit=hold_limit,
                max_unsettled=max_unsettled,
            )
            if policy is not None:
                settings = _policy(policy).joined(settings)
            self._mounts.append(self._mounted(subscriber, settings, site, workers, by_key, timeout))
        except DeclarationError as error:
            raise error.at(site) from None

    def _mounted(
        self,
        subscriber: Subscriber[S, ..., Any],
        settings: Redelivery,
        site: Site,
        workers: int,
        by_key: ByKey | None,
        timeout: float | timedelta | None,
    ) -> Mounted:
        _check_subscriber(subscriber)
        source = subscriber.source
        if not isinstance(source, self.source_type):
            raise DeclarationTypeError(
                f"{source!r} on {type(self).__name__}",
                why=f"this broker reads {self.source_type.__name__}, not {type(source).__name__}",
                write="include it on the broker it belongs to",
            )
        call = compile_call(
            subscriber.handler, source, site, self._codec, known_keys=self.known_keys
        )
        default_quarantine = source.quarantine
        return Mounted(
            source=source,
            abilities=source.abilities,
            site=site,
            handler=subscriber.handler,
            call=call,
            terms=Terms(
                _or(settings.max_attempts, None),
                _or(settings.dead_letter, None),
                settings.retry_to is not UNSET,
            ),
            errors=compile_errors(_or(settings.on_error, None)),
            retry_to=_or(settings.retry_to, None),
            on_decode_error=_or(settings.on_decode_error, None),
            quarantine=_or(settings.quarantine, default_quarantine),
            details=_or(settings.dead_letter_details, "short"),
            hand_over=_or(settings.hand_over, True),
            hold_limit=duration("hold_limit", _or(settings.hold_limit, 3600.0)),
            max_unsettled=_or(settings.max_unsettled, 1000),
            workers=_whole("workers", workers),
            by_key=by_key,
            timeout=None if timeout is None else duration("timeout", timeout),
        )

    # -- publishing -----------------------------------------------------------------------

    @overload
    async def publish(
        self, destination: str, value: object, /, *, headers: HeaderValues | None = None
    ) -> None: ...
    @overload
    async def publish(self, value: object, /, *, headers: HeaderValues | None = None) -> None: ...

    async def publish(
        self,
        destination: object,
        value: object = UNSET,
        /,
        *,
        headers: HeaderValues | None = None,
    ) -> None:
        """Publish ``value`` to ``destination``, or to the one its type declares.

        Returns when the broker has confirmed. Works in handlers, inside ``app.running()`` and
        inside ``broker.connected()``. Raises ``NotRunning`` elsewhere, ``EncodeError``,
        ``DeclarationError``, ``ConnectionLost`` or ``BrokerRefused``.
        """
        await self._live_run().publish(self, destination, value, headers)

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


def _or(value: V | Unset, default: V) -> V:
    return default if isinstance(value, Unset) else value


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DeclarationTypeError(
            f"{name}={value!r}", why="it is a whole number", write=f"{name}=8"
        )
    if value < 1:
        raise DeclarationError(f"{name}={value}", why="at least one is needed", write=f"{name}=8")
    return value


def _policy(value: object) -> Redelivery:
    if isinstance(value, Redelivery):
        return value
    if isinstance(value, Mapping):
        write = f"Redelivery(**{cast(object, value)!r})"
    else:
        write = "include(handler, Redelivery(max_attempts=5, …))"
    raise DeclarationTypeError(
        f"include(handler, {value!r})",
        why="the second argument is a Redelivery; everything else is told by keyword",
        write=write,
    )


def _check_subscriber(value: object) -> None:
    if isinstance(value, Subscriber):
        return
    name = getattr(value, "__qualname__", repr(value))
    raise DeclarationTypeError(
        f"include({name})",
        why="it is no subscriber: nothing says what it reads",
        write=f"@subscriber(…) above {name}, or include(Subscriber(source, {name}))",
    )


def _mount_site(subscriber: object) -> Site:
    """Where ``include`` was called."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("surestream."):
        frame = frame.f_back
    handler = getattr(subscriber, "site", None)
    name = handler.handler if isinstance(handler, Site) else repr(subscriber)
    if frame is None:
        return Site(name, "<unknown>", 0)
    file = frame.f_code.co_filename
    path = Path(file)
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return Site(name, str(here), frame.f_lineno)
