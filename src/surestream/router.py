"""Handlers grouped in a module, included together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar, Unpack

from surestream.contract import Source
from surestream.declaration import Redelivery, check_address
from surestream.errors import DeclarationError, DeclarationTypeError, Site
from surestream.middleware import Middleware, checked
from surestream.mounting import (
    MountOptions,
    check_defaults,
    check_policy,
    check_subscriber,
    mount_site,
    with_policy,
)
from surestream.subscriber import Subscriber

__all__ = ["Registration", "Registrations", "Router", "check_router"]

S = TypeVar("S", bound=Source)
S_co = TypeVar("S_co", bound=Source, covariant=True)

_ADDRESSES = ("dead_letter", "retry_to", "quarantine")


@dataclass(frozen=True, slots=True)
class Registration(Generic[S_co]):
    """One handler in a router, with everything that is set for it."""

    subscriber: Subscriber[S_co, ..., Any]
    policy: Redelivery
    options: Mapping[str, Any]
    site: Site


class Registrations(Protocol[S_co]):
    """What can be included together: a :class:`Router`."""

    def entries(self) -> Iterator[Registration[S_co]]: ...


class Router(Generic[S]):
    """A group of handlers with a prefix and settings of their own.

    ``router = Router[RedisStream](prefix="eu.", policy=Redelivery(max_attempts=5))`` in one
    module, ``broker.include_router(router)`` in another. The prefix stands before every address
    that the group declares: what is read, delay sets, ``dead_letter``, ``retry_to``,
    ``quarantine`` and ``reply_to`` (functions are left alone). ``policy`` holds for every handler;
    setting the same thing again at one of them is refused. ``workers``, ``timeout`` and
    ``middleware`` given here are what a handler gets that sets none (middleware: the router's
    around its own).

    What stands between the brackets is what its handlers may read, for type checkers. A router
    can be included several times; once it was, handlers can be added no more.

    Raises ``DeclarationError`` (a ``ValueError``) or ``DeclarationTypeError`` (a ``TypeError``).
    """

    def __init__(
        self,
        *,
        prefix: str = "",
        policy: Redelivery | None = None,
        workers: int | None = None,
        timeout: float | timedelta | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self._prefix = _checked_prefix(prefix)
        self._policy = Redelivery() if policy is None else check_policy(policy)
        given = {"workers": workers, "timeout": timeout}
        self._defaults: dict[str, Any] = {
            name: value for name, value in given.items() if value is not None
        }
        check_defaults(self._defaults)
        self._middleware = checked("middleware", middleware, "delivery, call_next")
        self._entries: list[Registration[S]] = []
        self._included: Site | None = None

    def include(
        self,
        subscriber: Subscriber[S, ..., Any],
        policy: Redelivery | None = None,
        **options: Unpack[MountOptions],
    ) -> None:
        """Add a handler; the settings are those of ``broker.include``.

        Raises ``DeclarationError`` as that does; what depends on the broker is checked when the
        router is included there.
        """
        site = mount_site(subscriber)
        try:
            check_subscriber(subscriber)
            self._check_open()
            settings = self._policy.joined(with_policy(policy, options))
            own = checked("middleware", options.get("middleware", ()), "delivery, call_next")
            rest = {name: value for name, value in options.items() if not hasattr(settings, name)}
            self._add(Registration(subscriber, settings, rest | {"middleware": own}, site))
        except DeclarationError as error:
            raise error.at(site) from None

    def include_router(self, router: Registrations[S]) -> None:
        """Add the handlers of another router; prefixes add up, this one first.

        Raises ``DeclarationError`` where both set the same thing.
        """
        site = mount_site(router)
        try:
            check_router(router)
            self._check_open()
            if router is self:
                raise DeclarationError(
                    f"{self!r} in itself", why="it has no end", write="two routers"
                )
        except DeclarationError as error:
            raise error.at(site) from None
        for entry in router.entries():
            try:
                settings = self._policy.joined(entry.policy)
                self._add(replace(entry, policy=settings))
            except DeclarationError as error:
                raise error.at(entry.site) from None

    def entries(self) -> Iterator[Registration[S]]:
        """Every handler with prefix and settings applied; the router is complete from now on."""
        self._included = self._included or mount_site(self)
        return iter(self._entries)

    def _check_open(self) -> None:
        if self._included is not None:
            raise DeclarationError(
                f"another handler for {self!r}",
                why=f"it was included before, at {self._included.file}:{self._included.line}, and "
                "nothing would read for this one",
                write="include_router(router) after the router's last handler",
            )

    def _add(self, entry: Registration[S]) -> None:
        prefix = self._prefix
        options: dict[str, Any] = {**self._defaults, **entry.options}
        options["middleware"] = (*self._middleware, *options["middleware"])
        if isinstance(options.get("reply_to"), str):
            options["reply_to"] = prefix + options["reply_to"]
        changes: dict[str, Any] = {}
        for name in _ADDRESSES:
            address: object = getattr(entry.policy, name)
            if isinstance(address, str):
                changes[name] = prefix + address
        subscriber = entry.subscriber
        if prefix:
            subscriber = Subscriber(subscriber.source.prefixed(prefix), subscriber.handler)
        self._entries.append(
            Registration(subscriber, replace(entry.policy, **changes), options, entry.site)
        )

    def __repr__(self) -> str:
        return f"Router(prefix={self._prefix!r})" if self._prefix else "Router()"


def check_router(value: object) -> None:
    """Refuse what is no router."""
    if not isinstance(value, Router):
        raise DeclarationTypeError(
            f"include_router({getattr(value, '__qualname__', repr(value))})",
            why="it is no router",
            write="include_router(Router(…)), or include(…) for one handler",
        )


def _checked_prefix(prefix: object) -> str:
    if prefix == "":
        return ""
    try:
        return check_address(prefix, "prefix")
    except DeclarationError as error:
        raise type(error)(error.what, why=error.why, write='Router(prefix="eu.")') from None
