"""What an argument of a handler's call can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from surestream.codec import Decode
from surestream.context import Attempt, Publisher
from surestream.delivery import Delivery
from surestream.message import Headers

__all__ = [
    "OFFERED",
    "Argument",
    "Fixed",
    "Meaning",
    "OwnPublisher",
    "Payload",
    "Read",
    "StateOf",
]


@dataclass(frozen=True)
class Payload:
    """The decoded payload."""

    decode: Decode


@dataclass(frozen=True)
class Read:
    """A fact of each delivery."""

    read: Callable[[Delivery], object]


@dataclass(frozen=True)
class StateOf:
    """A part of what the lifespan yielded."""

    type: Any


@dataclass(frozen=True)
class OwnPublisher:
    """The publisher of the broker that the handler is included on."""


@dataclass(frozen=True)
class Fixed:
    """The parameter's own default, passed only to reach the parameters after it."""

    value: object


Meaning = Payload | Read | StateOf | OwnPublisher | Fixed


@dataclass(frozen=True)
class Argument:
    """One argument of a handler's call."""

    name: str
    by_name: bool
    meaning: Meaning


def _attempt(delivery: Delivery) -> Attempt:
    origin = delivery.origin
    return Attempt(origin.attempt(delivery), origin.max_attempts)


def _headers(delivery: Delivery) -> Headers:
    return delivery.headers


def _itself(delivery: Delivery) -> Delivery:
    return delivery


OFFERED: Final[dict[object, Meaning]] = {
    Headers: Read(_headers),
    Delivery: Read(_itself),
    Attempt: Read(_attempt),
    Publisher: OwnPublisher(),
}
