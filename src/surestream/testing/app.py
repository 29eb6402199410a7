"""``TestApp``: the production app in a test (rules 8.1 to 8.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from traceback import format_exception
from types import TracebackType
from typing import Any, Final, Self, overload

from surestream.app import App
from surestream.broker import Broker
from surestream.declaration import UNSET, Unset
from surestream.errors import DeclarationTypeError, NotRunning
from surestream.message import HeaderValues
from surestream.runtime.lifecycle import Run
from surestream.testing.addresses import Live, addresses_of, broker_for
from surestream.testing.asking import Asking
from surestream.testing.patience import NotSettled
from surestream.testing.recorder import Recorder
from surestream.testing.service import ServiceUnderTest
from surestream.testing.timeline import TITLE

__all__ = ["TestApp"]

PATIENCE: Final = 20.0
LIVE_PATIENCE: Final = 10.0


class TestApp(Asking):
    """Runs an app in process, its time standing still::

        async with TestApp(app, state=Processor()) as tb:
            await tb.publish("refunds", Refund(id=1, card="busy", amount_cents=500))
            await tb.advance(BACKOFF)
            tb.assert_called(process_refund, times=2)

    Handlers, descriptors and runtime are those of production; the brokers are answered by
    in-process servers of this test alone. ``state`` is given to handlers instead of what the
    lifespan would yield (which is then not opened).

    ``live=True`` runs the same test against the real servers the app declares, and
    ``live={redis: "redis://127.0.0.1:6380"}`` against that one instead of the declared one, with
    the user, password and database declared unless the URL names its own. ``advance`` then
    waits, :meth:`settle` watches until nothing happens any more.

    ``patience``: real seconds that a publish, advance, settle, start or stop may take before it
    raises :class:`NotSettled` with what is still at work (20; live 10).

    A fault that stops the service (``fail_fast``, a subscription that dies) is raised as
    ``ServiceFailed`` by the next call, at the latest at the end. An assertion that fails inside
    the block is shown with the time line. Any number of tests may run at once, of one app too;
    those on one event loop share its clock.
    """

    __test__ = False

    def __init__(
        self,
        app: App,
        *,
        state: object | Unset = UNSET,
        live: Live = False,
        patience: float | None = None,
    ) -> None:
        _check_app(app)
        super().__init__(app, Recorder())
        self._state = state
        self._live = live
        self._addresses = addresses_of(app, live)
        self._patience = patience or (PATIENCE if live is False else LIVE_PATIENCE)
        self._service: ServiceUnderTest | None = None

    # -- time and messages ------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Virtual seconds since the block was entered (live: real ones)."""
        return self._entered().pace.now()

    @property
    def run(self) -> Run:
        """The run under test: ``tb.run.context.servers[broker]`` is a broker's in-process
        server, ``tb.run.health`` how the service is."""
        return self._entered().run

    @overload
    async def publish(
        self,
        destination: str,
        value: object,
        /,
        *,
        headers: HeaderValues | None = None,
        broker: Broker[Any] | None = None,
    ) -> None: ...
    @overload
    async def publish(
        self,
        value: object,
        /,
        *,
        headers: HeaderValues | None = None,
        broker: Broker[Any] | None = None,
    ) -> None: ...

    async def publish(
        self,
        destination: object,
        value: object = UNSET,
        /,
        *,
        headers: HeaderValues | None = None,
        broker: Broker[Any] | None = None,
    ) -> None:
        """Publish as somebody outside the service would, and settle.

        ``broker`` may be left out where the app has one, or only one reads the address. Raises
        what ``broker.publish`` raises, and :class:`NotSettled`.
        """
        self._check()
        broker = broker or broker_for(self._app, destination, value)
        await self.run.publish(broker, destination, value, headers)
        await self._settle()
        self._check()

    async def publish_many(
        self,
        destination: str,
        values: Iterable[object],
        /,
        *,
        headers: HeaderValues | None = None,
        broker: Broker[Any] | None = None,
    ) -> None:
        """Publish all ``values``, in their order, before the service sees the first; then settle.

        Raises what :meth:`publish` raises, for the first that could not be published, once the
        others are.
        """
        self._check()
        chosen = broker or broker_for(self._app, destination, values)
        work = (self.run.publish(chosen, destination, value, headers) for value in values)
        done = await asyncio.gather(*work, return_exceptions=True)
        await self._settle()
        for failure in done:
            if failure is not None:
                raise failure
        self._check()

    async def advance(self, duration: float | timedelta) -> None:
        """Let ``duration`` (seconds, or a ``timedelta``) pass, then settle: delays, claims,
        deadlines, the servers' clocks, the handlers' own sleeps and timeouts. Live: wait."""
        self._check()
        await self._with_story(self._entered().pace.advance(duration))
        self._check()

    async def settle(self, *, linger: float = 0.0) -> None:
        """Return when nothing can move without time passing; threads are waited for.

        Handlers that do I/O through real sockets cannot be seen waiting for it: ``linger`` is
        for how many real seconds everything has to stay quiet.
        """
        self._check()
        await self._settle(linger)
        self._check()

    # -- life -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start as production does: what it refuses is refused here, with the same error."""
        if self._service is not None:
            raise NotRunning("a TestApp is for one test: make a new TestApp(app)")
        self._service = ServiceUnderTest(
            self._app,
            self._recorder,
            state=self._state,
            live=self._live is not False,
            addresses=self._addresses,
            patience=self._patience,
        )
        await self._with_story(self._service.start())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop as production does. Raises what went wrong in the service and was not raised
        yet; beside an error of the block it becomes a note of that."""
        if isinstance(exc, AssertionError) and TITLE not in str(exc):
            exc.add_note(self._story())
        fault = await self._entered().stop()
        if fault is None:
            return
        if isinstance(fault, NotSettled):
            fault = NotSettled(f"{fault}\n{self._story()}")
        if exc is None:
            raise fault
        exc.add_note("the service failed too:\n" + "".join(format_exception(fault)))

    # -- inside -----------------------------------------------------------------------------

    def _entered(self) -> ServiceUnderTest:
        if self._service is None:
            raise NotRunning(f"{self!r} is not entered: async with TestApp(app) as tb: ...")
        return self._service

    def _check(self) -> None:
        self._entered().check(self._story)

    async def _settle(self, linger: float = 0.0) -> None:
        await self._with_story(self._entered().pace.settle(linger))

    async def _with_story(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except NotSettled as error:
            raise NotSettled(f"{error}\n{self._story()}") from None

    def __repr__(self) -> str:
        return f"TestApp({self._app!r})"


def _check_app(app: object) -> None:
    if not isinstance(app, App):
        raise DeclarationTypeError(
            f"TestApp({app!r})", why="it tests an App", write='TestApp(App("refunds"))'
        )
