"""Including a handler: what a mount site may set, and how it becomes a checked mount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final, TypedDict, TypeVar, cast

from surestream.codec import Codec, check_codec
from surestream.contract import Source
from surestream.declaration import (
    UNSET,
    DetailLevel,
    ErrorRules,
    Redelivery,
    RetryTo,
    Unset,
    check_address,
    check_of_delivery,
    duration,
)
from surestream.delivery import Key
from surestream.errors import DeclarationError, DeclarationTypeError, Site, calling_site
from surestream.middleware import Middleware, checked
from surestream.outcome import Outcome
from surestream.runtime.calls.calling import compile_call
from surestream.runtime.failures import compile_errors
from surestream.runtime.publishing import BoundPublisher
from surestream.runtime.redelivery import Terms
from surestream.runtime.terms import ByKey, Mounted
from surestream.subscriber import Subscriber

__all__ = [
    "MountOptions",
    "check_defaults",
    "check_policy",
    "check_subscriber",
    "mount",
    "mount_site",
    "with_policy",
]

V = TypeVar("V")


class MountOptions(TypedDict, total=False):
    """The keywords of ``include``. The redelivery settings are those of
    :class:`~surestream.declaration.Redelivery`."""

    max_attempts: int
    dead_letter: str
    retry_to: RetryTo
    on_error: ErrorRules
    on_decode_error: Outcome
    quarantine: str | None
    dead_letter_details: DetailLevel
    hand_over: bool
    hold_limit: float | timedelta
    max_unsettled: int
    workers: int
    by_key: ByKey
    timeout: float | timedelta
    reply_to: RetryTo
    middleware: Sequence[Middleware]
    codec: Codec


_REDELIVERY: Final = frozenset(field.name for field in fields(Redelivery))
_OWN: Final = frozenset(MountOptions.__annotations__) - _REDELIVERY


def mount(
    subscriber: Subscriber[Any, ..., Any],
    policy: Redelivery | None,
    options: Mapping[str, Any],
    *,
    site: Site,
    source_type: type[Source],
    broker: str,
    codec: Codec,
    known_keys: frozenset[Key[Any]] | None,
    publisher: type[BoundPublisher],
    middleware: Sequence[Middleware] = (),
) -> Mounted:
    """Check everything that is declared about one handler.

    ``codec`` is the broker's; ``middleware`` of the broker goes around that of the mount.
    Raises ``DeclarationError`` without a place; whoever knows it adds it.
    """
    source = check_subscriber(subscriber).source
    if not isinstance(source, source_type):
        raise DeclarationTypeError(
            f"{source!r} on {broker}",
            why=f"this broker reads {source_type.__name__}, not {type(source).__name__}",
            write="include it on the broker it belongs to",
        )
    settings = with_policy(policy, options)
    reply_to = _reply_to(options.get("reply_to"))
    workers, timeout = check_defaults(options)
    codec = check_codec(options.get("codec", codec))
    call = compile_call(
        subscriber.handler,
        source,
        site,
        codec,
        known_keys=known_keys,
        publisher=publisher,
        replies=reply_to is not None,
    )
    own = checked("middleware", options.get("middleware", ()), "delivery, call_next")
    return Mounted(
        source=source,
        abilities=source.abilities,
        site=site,
        handler=subscriber.handler,
        call=call,
        codec=codec,
        terms=Terms(
            _or(settings.max_attempts, None),
            _or(settings.dead_letter, None),
            settings.retry_to is not UNSET,
        ),
        errors=compile_errors(_or(settings.on_error, None)),
        retry_to=_or(settings.retry_to, None),
        reply_to=reply_to,
        on_decode_error=_or(settings.on_decode_error, None),
        quarantine=_or(settings.quarantine, source.quarantine),
        details=_or(settings.dead_letter_details, "short"),
        hand_over=_or(settings.hand_over, True),
        hold_limit=duration("hold_limit", _or(settings.hold_limit, 3600.0)),
        max_unsettled=_or(settings.max_unsettled, 1000),
        workers=workers,
        by_key=_by_key(options.get("by_key")),
        timeout=timeout,
        middleware=(*middleware, *own),
    )


def with_policy(policy: Redelivery | None, options: Mapping[str, Any]) -> Redelivery:
    """The redelivery settings among ``options``, and those of ``policy``; one place each."""
    for name in options:
        if name not in _REDELIVERY and name not in _OWN:
            raise _unknown(name)
    chosen = {name: value for name, value in options.items() if name in _REDELIVERY}
    settings = Redelivery(**chosen)
    return settings if policy is None else check_policy(policy).joined(settings)


def check_defaults(options: Mapping[str, Any]) -> tuple[int, float | None]:
    """``workers`` and ``timeout`` among ``options``, checked."""
    timeout: object = options.get("timeout")
    return (
        _whole("workers", options.get("workers", 1)),
        None if timeout is None else duration("timeout", timeout),
    )


def check_policy(value: object) -> Redelivery:
    """Redelivery settings, or a refusal."""
    if isinstance(value, Redelivery):
        return value
    raise DeclarationTypeError(
        f"policy {value!r}",
        why="a policy is a Redelivery; everything else is told by keyword",
        write="Redelivery(max_attempts=5, …)",
    )


def check_subscriber(value: object) -> Subscriber[Any, ..., Any]:
    """A subscriber, or a refusal that says how a handler becomes one."""
    if isinstance(value, Subscriber):
        return cast("Subscriber[Any, ..., Any]", value)
    name = getattr(value, "__qualname__", repr(value))
    if hasattr(value, "include_router"):
        raise DeclarationTypeError(
            f"include({name})", why="it is a group of handlers", write="include_router(…)"
        )
    raise DeclarationTypeError(
        f"include({name})",
        why="it is no subscriber: nothing says what it reads",
        write=f"@subscriber(…) above {name}, or include(Subscriber(source, {name}))",
    )


def mount_site(subscriber: object) -> Site:
    """Where in the user's program ``include`` was called."""
    site: object = getattr(subscriber, "site", None)
    if isinstance(site, Site):
        return calling_site(site.handler)
    name: object = getattr(subscriber, "__qualname__", None)
    return calling_site(name if isinstance(name, str) else repr(subscriber))


def _unknown(name: str) -> DeclarationError:
    import difflib  # only for who mistypes

    near = difflib.get_close_matches(name, _REDELIVERY | _OWN, 1)
    write = f"{near[0]}=…" if near else ", ".join(sorted(_REDELIVERY | _OWN))
    return DeclarationTypeError(
        f"include(…, {name}=…)", why="there is no such setting", write=write
    )


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


def _by_key(value: object) -> ByKey | None:
    if callable(value):
        check_of_delivery(value, "by_key")
    if value is None or (isinstance(value, str) and value) or callable(value):
        return cast("ByKey | None", value)
    raise DeclarationTypeError(
        f"by_key={value!r}",
        why="it is a header's name, or a function of the delivery",
        write='by_key="customer" or by_key=lambda delivery: …',
    )


def _reply_to(value: object) -> RetryTo | None:
    if callable(value):
        check_of_delivery(value, "reply_to")
        return cast("RetryTo", value)
    return None if value is None else check_address(value, "reply_to")
