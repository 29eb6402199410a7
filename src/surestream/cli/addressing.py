"""Where a message for ``surestream publish`` goes: the broker, and doubts about the address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from surestream.app import App
from surestream.broker import Broker
from surestream.cli.faults import UseError
from surestream.cli.suggestions import close_to
from surestream.cli.text import one_line, without_secrets
from surestream.memory import MemoryBroker
from surestream.runtime.terms import Mounted

__all__ = ["chosen_broker", "doubts", "readers", "shown_broker"]


def chosen_broker(app: App, wanted: str | None, address: str) -> Broker[Any]:
    """The broker that ``wanted`` names, by its number or a part of how it is shown; where it
    names none, the only one, or the only one that has ``address``.

    Raises ``UseError``.
    """
    brokers = app.brokers
    if not brokers:
        raise UseError(f"{app.title} has no broker", "write `app.add(RedisBroker(…))`")
    found = list(brokers)
    if wanted is not None:
        found = _named(wanted, brokers)
        if len(found) != 1:
            how = "names no broker" if not found else f"names {len(found)} brokers"
            raise UseError(f"--broker {wanted} {how} of {app.title}", *_choices(brokers))
    elif len(brokers) > 1:
        found = [broker for broker in brokers if address in _addresses(broker)]
        if len(found) != 1:
            raise UseError(
                f"{app.title} has {len(brokers)} brokers: which one?", *_choices(brokers)
            )
    if isinstance(found[0], MemoryBroker):
        raise UseError(
            "a MemoryBroker lives inside the process of its service: nothing can be published to "
            "it from here",
            "publish in the service itself, or in a test: `await tb.publish(…)` of TestApp",
        )
    return found[0]


def readers(broker: Broker[Any], address: str) -> list[Mounted]:
    """The subscriptions that get what is published to ``address``."""
    return [mounted for mounted in broker.mounts if mounted.source.reads(address)]


def doubts(app: App, broker: Broker[Any], address: str, payload: bytes) -> Iterator[str]:
    """What may not be meant, and is done all the same."""
    reading = readers(broker, address)
    known = _addresses(broker)
    if not reading and address not in known:
        near = close_to(address, known)
        if near is not None:
            yield f"nothing in {app.title} reads {address!r}; did you mean {near!r}?"
    for mounted in reading:
        call = mounted.call
        if not call.takes_payload:
            continue
        try:
            call.decode(payload)
        except call.decode_errors as error:
            yield f"{mounted.site.handler} cannot decode it: {call.as_decode_error(error)}"


def shown_broker(broker: Broker[Any]) -> str:
    """A broker as it is printed."""
    return one_line(without_secrets(repr(broker)))


def _named(wanted: str, brokers: Sequence[Broker[Any]]) -> list[Broker[Any]]:
    if wanted.isdecimal():
        return list(brokers[int(wanted) - 1 : int(wanted)]) if int(wanted) > 0 else []
    return [one for one in brokers if wanted.lower() in shown_broker(one).lower()]


def _choices(brokers: Sequence[Broker[Any]]) -> list[str]:
    return [f"--broker {number}: {shown_broker(one)}" for number, one in enumerate(brokers, 1)]


def _addresses(broker: Broker[Any]) -> set[str]:
    """What the declarations name on this broker."""
    names: set[str] = set()
    for mounted in broker.mounts:
        names.add(mounted.source.name)
        more = (mounted.terms.dead_letter, mounted.quarantine, mounted.retry_to, mounted.reply_to)
        names.update(name for name in more if isinstance(name, str))
    return names
