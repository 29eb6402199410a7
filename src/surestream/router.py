"""Handlers grouped in a module, included together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, Unpack

from surestream.contract import Source
from surestream.declaration import Redelivery
from surestream.errors import DeclarationError, DeclarationTypeError, Site
from surestream.middleware import Middleware, checked
from surestream.mounting import MountOptions, check_subscriber, mount_site, with_policy
from surestream.subscriber import Subscriber

__all__ = ["Registration", "Router"]

S = TypeVar("S", bound=Source)

_ADDRESSES = ("dead_letter", "retry_to", "quarantine")


@dataclass(frozen=True, slots=True)
class Registration(Generic[S]):
    """One handler in a router, with everything that is set for it."""

    subscriber: Subscriber[S, ..., Any]
    policy: Redelivery
    options: Mapping[str, Any]
    site: Site


class Router(Generic[S]):
    """A group of handlers with a prefix and settings of their own.

    ``router = Router(prefix="eu.", policy=Redelivery(max_attempts=5))`` in one module,
    ``broker.include_router(router)`` in another. The prefix stands before every address that
    the group declares: what is read, delay sets, ``dead_letter``, ``retry_to``, ``quarantine``
    and ``reply_to`` (functions are left alone). ``policy`` holds for every handler; setting the
    same thing again at one of them is refused. ``workers``, ``timeout`` and ``middleware`` given
    here are what a handler gets that sets none (middleware: the router's around its own).
    """

    def __init__(
        self,
        *,
        prefix: str = "",
        policy: Redelivery | None = None,
        workers: int = 1,
        timeout: float | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        if not isinstance(prefix, str):
            raise DeclarationTypeError(
                f"prefix={prefix!r}", why="a prefix is text", write='Router(prefix="eu.")'
            )
        self._prefix = prefix
        self._policy = policy or Redelivery()
        self._defaults: dict[str, Any] = {"workers": workers}
        if timeout is not None:
            self._defaults["timeout"] = timeout
        self._middleware = checked("middleware", middleware, "delivery, call_next")
        self._entries: list[Registration[S]] = []

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
            settings = self._policy.joined(with_policy(policy, options))
        except DeclarationError as error:
            raise error.at(site) from None
        rest = {name: value for name, value in options.items() if not hasattr(settings, name)}
        self._add(Registration(subscriber, settings, rest, site))

    def include_router(self, router: Router[S]) -> None:
        """Add the handlers of another router; prefixes add up, this one first."""
        for entry in router.entries():
            try:
                settings = self._policy.joined(entry.policy)
            except DeclarationError as error:
                raise error.at(entry.site) from None
            self._add(replace(entry, policy=settings))

    def entries(self) -> Iterator[Registration[S]]:
        """Every handler with prefix and settings applied."""
        return iter(self._entries)

    def _add(self, entry: Registration[S]) -> None:
        options = {**self._defaults, **entry.options}
        own = options.get("middleware", ())
        if self._middleware:
            options["middleware"] = (*self._middleware, *own)
        prefix = self._prefix
        if isinstance(options.get("reply_to"), str):
            options["reply_to"] = prefix + options["reply_to"]
        changes: dict[str, Any] = {}
        for name in _ADDRESSES:
            address: object = getattr(entry.policy, name)
            if isinstance(address, str):
                changes[name] = prefix + address
        subscriber = entry.subscriber
        if prefix:
            try:
                source = subscriber.source.prefixed(prefix)
            except DeclarationError as error:
                raise error.at(entry.site) from None
            subscriber = Subscriber(source, subscriber.handler)
        self._entries.append(
            Registration(subscriber, replace(entry.policy, **changes), options, entry.site)
        )
