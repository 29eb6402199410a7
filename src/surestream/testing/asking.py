"""What a test can ask of a run, and short assertions whose failures tell the story."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Final, cast, get_args

from surestream.app import App
from surestream.contract import Source
from surestream.errors import DeclarationError
from surestream.runtime.terms import Mounted
from surestream.subscriber import Subscriber, site_of
from surestream.testing.recorder import Recorder
from surestream.testing.records import (
    Call,
    Event,
    Message,
    OfDelivery,
    Settlement,
    Waiting,
    mount_of,
)
from surestream.testing.timeline import timeline
from surestream.testing.words import HowSettled, MessageKind, PlanWord

__all__ = ["Asking", "Handler"]

Handler = Callable[..., object]
"""A subscriber, or the function (object, method) that it calls."""

SHOWN = 60
"""Lines of the time line that a failure shows."""

_SETTLED: Final = (*get_args(PlanWord), "overtaken")
_KINDS: Final = get_args(MessageKind)


class Asking:
    """The questions. Every answer is a new list, in the order things happened."""

    def __init__(self, app: App, recorder: Recorder) -> None:
        self._app = app
        self._recorder = recorder

    def calls(self, handler: Handler) -> list[Call]:
        """What ``handler`` was called with, and how each call ended.

        ``handler`` is a subscriber (one that routers have put under prefixes: under all of them),
        or its function for everything that function is included as. Raises ``DeclarationError``
        for one that the app does not include.
        """
        wanted = self._mounts(handler, "calls")
        return [one for one in self._of(wanted) if isinstance(one, Call)]

    def settlements(self, handler: Handler) -> list[Settlement]:
        """How each delivery for ``handler`` was settled: attempt, outcome, headers, and
        :attr:`~Settlement.how` in words. Deliveries that never reached the handler (not
        decodable, attempts spent in crashes) are among them."""
        wanted = self._mounts(handler, "settlements")
        return [one for one in self._of(wanted) if isinstance(one, Settlement)]

    def published(
        self, address: str | None = None, *, kind: MessageKind | None = None
    ) -> list[Message]:
        """What was stored at ``address`` (everywhere), by whomever: the test, handlers, the
        runtime. ``kind`` keeps one of "publish", "reply", "copy", "delay", "dead letter",
        "quarantine", "hand-over"; ``DeclarationError`` for another word."""
        if kind is not None:
            _check_word(kind, _KINDS, f"kind={kind!r}")
        return [
            one
            for one in self._recorder.records
            if isinstance(one, Message)
            and (address is None or one.address == address)
            and (kind is None or one.kind == kind)
        ]

    def parked(self) -> list[Waiting]:
        """What waits for its time, and where: the first due first."""
        return self._recorder.waiting()

    def events(self) -> list[Event]:
        """Everything that happened, in order: each :class:`Call` of a handler, the :class:`Ended`
        of one that took time, each :class:`Settlement`, each :class:`Message` that was stored,
        and as :class:`Trouble` what could not be decoded or not be stored, and why."""
        return list(self._recorder.records)

    def timeline(self) -> str:
        """:meth:`events` for people, a line each, with virtual seconds."""
        return timeline(self._recorder.records)

    # -- assertions -----------------------------------------------------------------------

    def assert_called(self, handler: Handler, *, times: int = 1) -> None:
        """``handler`` was called ``times`` times, no more."""
        __tracebackhide__ = True
        calls = self.calls(handler)
        if len(calls) != times:
            self._fail(f"{_name(handler)} was called {len(calls)} times, not {times}", calls)

    def assert_settled(self, handler: Handler, *how: HowSettled) -> None:
        """The deliveries for ``handler`` were settled so, one after another, and no others:
        ``tb.assert_settled(process, "copy", "copy", "dead letter")``.

        Raises ``DeclarationError`` for a word that says no way of settling."""
        __tracebackhide__ = True
        for word in how:
            _check_word(word, _SETTLED, f"assert_settled(…, {word!r})")
        settlements = self.settlements(handler)
        found = [settlement.how for settlement in settlements]
        if found != list(how):
            self._fail(f"{_name(handler)}: settled {found}, not {list(how)}", settlements)

    def assert_published(
        self, address: str, *, times: int = 1, kind: MessageKind | None = None
    ) -> None:
        """``times`` messages were stored at ``address``, no more; with ``kind``, so many of
        that kind."""
        __tracebackhide__ = True
        messages = self.published(address, kind=kind)
        if len(messages) != times:
            what = "messages were" if kind is None else f'messages of kind "{kind}" were'
            self._fail(f"{len(messages)} {what} stored at {address}, not {times}", messages)

    def assert_nothing_waits(self) -> None:
        """No message waits for its time, and no handler is under way."""
        __tracebackhide__ = True
        parked, running = self.parked(), self._recorder.running()
        if parked or running:
            self._fail(
                f"{len(parked)} messages wait, {len(running)} handlers run", [*parked, *running]
            )

    # -- inside ---------------------------------------------------------------------------

    def _fail(self, what: str, found: Iterable[object]) -> None:
        __tracebackhide__ = True
        raise AssertionError("\n".join([what, *(f"  {one!r}" for one in found), self._story()]))

    def _story(self) -> str:
        return timeline(self._recorder.records, last=SHOWN)

    def _of(self, wanted: list[Mounted]) -> Iterable[OfDelivery]:
        for record in self._recorder.records:
            if isinstance(record, OfDelivery):
                mounted = mount_of(record.delivery)
                if any(mounted is one for one in wanted):
                    yield record

    def _mounts(self, handler: Handler, question: str) -> list[Mounted]:
        mounts = [mounted for broker in self._app.brokers for mounted in broker.mounts]
        found = [mounted for mounted in mounts if _is(handler, mounted)]
        if not found:
            found = [mounted for mounted in mounts if _is_prefixed(handler, mounted)]
        if not found:
            known = ", ".join(sorted({site_of(mounted.handler).handler for mounted in mounts}))
            raise DeclarationError(
                f"{question}({_name(handler)})",
                why=f"{self._app!r} does not include it",
                write=f"one of: {known or 'none is included'}",
            )
        return found


def _check_word(word: str, known: tuple[str, ...], what: str) -> None:
    """Refuse a word that no record carries, which would make a question that nothing answers."""
    if word in known:
        return
    begun = [one for one in known if word and one.startswith(str(word))]
    near = begun or difflib.get_close_matches(str(word), known, 1, 0.5)
    raise DeclarationError(
        what,
        why="there is no such word" + (f"; did you mean {near[0]!r}?" if near else ""),
        write=f"one of: {', '.join(map(repr, known))}",
    )


def _is(handler: Handler, mounted: Mounted) -> bool:
    if isinstance(handler, Subscriber):
        asked = cast("Subscriber[Source, ..., object]", handler)
        return mounted.handler == asked.handler and mounted.source == asked.source
    return mounted.handler == handler


def _is_prefixed(handler: Handler, mounted: Mounted) -> bool:
    """Whether it was included by routers with a prefix."""
    if not isinstance(handler, Subscriber) or mounted.handler != handler.handler:
        return False
    asked = cast("Subscriber[Source, ..., object]", handler).source
    name = mounted.source.name
    prefix = name.removesuffix(asked.name)
    if type(asked) is not type(mounted.source) or prefix in ("", name):
        return False
    return asked.prefixed(prefix) == mounted.source


def _name(handler: Handler) -> str:
    if isinstance(handler, Subscriber):
        return handler.site.handler
    return site_of(handler).handler if callable(handler) else repr(handler)
