"""A source, a delivery and a codec that are enough to mount a handler and call it once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from surestream.codec import JsonCodec
from surestream.contract import Abilities, Counter, DelayMeans, RetryMeans, Source
from surestream.delivery import Delivery, Key
from surestream.message import HeaderPairs, HeaderValues
from surestream.runtime.calls.calling import Call, CallPlan, compile_call
from surestream.runtime.calls.state import resolve_state
from surestream.subscriber import Subscriber

Topic = Key("Topic", str)
Sequence = Key("Sequence", int)


@dataclass(frozen=True)
class Shelf(Source):
    """Something to read."""

    key: str = "refunds"

    @property
    def name(self) -> str:
        return self.key

    @property
    def family(self) -> str:
        return "shelf"

    @property
    def abilities(self) -> Abilities:
        return Abilities(
            retry=RetryMeans.COPY,
            capped_retry=RetryMeans.COPY,
            delay=DelayMeans.TIMER,
            counter=Counter.HEADER,
            address=self.key,
        )

    @property
    def rivals(self) -> object:
        return self.key


@dataclass
class Through:
    """The subscription that a delivery came through."""

    number: int = 1
    max_attempts: int | None = None
    subscription: str = "refunds"

    def attempt(self, delivery: Delivery) -> int:
        return self.number


class Parcel(Delivery):
    """A delivery with headers and two facts."""

    def __init__(
        self,
        payload: bytes = b"{}",
        headers: HeaderPairs = (),
        *,
        number: int = 1,
        maximum: int | None = None,
    ) -> None:
        super().__init__(payload, Through(number, maximum))
        self._pairs = headers

    def read_headers(self) -> HeaderPairs:
        return self._pairs

    def fact(self, key: Key[Any]) -> object:
        return {Topic: "devices/7", Sequence: 12}[key]


@dataclass
class Outbox:
    """A publisher that keeps what it is given."""

    sent: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])

    async def publish(
        self, destination: object, value: object = None, /, *, headers: HeaderValues | None = None
    ) -> None:
        self.sent.append((destination, value))


KNOWN = frozenset({Topic, Sequence})


def mount(handler: Callable[..., Any], known: frozenset[Key[Any]] | None = KNOWN) -> CallPlan:
    """Compile a handler as ``include`` does."""
    mounted = Subscriber(Shelf(), handler)
    return compile_call(mounted.handler, mounted.source, mounted.site, JsonCodec(), known)


def bind(
    handler: Callable[..., Any], state: object = None, publisher: Outbox | None = None
) -> Call:
    """Compile a handler and fill in what a run supplies."""
    return mount(handler).bind(
        lambda name, type_: resolve_state(state, name, type_), publisher or Outbox()
    )


async def deliver(
    handler: Callable[..., Any], delivery: Delivery | None = None, *, state: object = None
) -> Any:
    """One delivery through decoder and handler, as a worker does it."""
    delivery = delivery or Parcel()
    plan = mount(handler)
    call = bind(handler, state)
    value = plan.decode(delivery.payload) if plan.takes_payload else None
    result = call(delivery, value)
    return await result if plan.is_async else result
