"""What happened in a run, in order: the records that tests ask for."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from surestream.contract import Stored
from surestream.delivery import Delivery
from surestream.errors import DecodeError
from surestream.message import Headers, Outgoing
from surestream.outcome import Outcome
from surestream.runtime.consumer import Consumer
from surestream.runtime.redelivery import Plan
from surestream.runtime.terms import Mounted
from surestream.testing.words import Fault, HowSettled, HowWaiting, MessageKind, excerpt, how

__all__ = ["Call", "Ended", "Event", "Message", "Settlement", "Trouble", "Waiting", "mount_of"]

SAME_MOMENT = 0.0005


class Record:
    """Something that happened."""

    __slots__ = ("at",)

    def __init__(self, at: float) -> None:
        self.at = at
        """When: in virtual seconds after the start of the test."""


class OfDelivery(Record):
    """Something that happened to one delivery."""

    __slots__ = ("delivery",)

    def __init__(self, at: float, delivery: Delivery) -> None:
        self.at = at
        self.delivery: Final = delivery

    @property
    def handler(self) -> str:
        """The name of the handler that the delivery is for."""
        mounted = mount_of(self.delivery)
        return "handler" if mounted is None else mounted.site.handler

    @property
    def id(self) -> str:
        """The broker's name for the message."""
        return self.delivery.id

    @property
    def subscription(self) -> str:
        """The subscription's name in logs."""
        return self.delivery.subscription

    @property
    def attempt(self) -> int:
        """The number of this delivery, the first being 1 (rule 3.1)."""
        return self.delivery.attempt

    @property
    def headers(self) -> Headers:
        """The headers as they arrived."""
        return self.delivery.headers

    @property
    def payload(self) -> bytes:
        """The payload as it arrived."""
        return self.delivery.payload


class Call(OfDelivery):
    """A handler was called: with what, and how it ended."""

    __slots__ = ("due", "ended_at", "error", "outcome", "plan", "value")

    def __init__(self, at: float, delivery: Delivery, value: object) -> None:
        super().__init__(at, delivery)
        self.value: Final = value
        """The decoded payload."""
        self.outcome: Outcome | None = None
        """What it decided, or what its exception maps to; ``None`` while it runs, and where the
        delivery stays unsettled."""
        self.error: BaseException | None = None
        """What it raised."""
        self.ended_at: float | None = None
        """When it ended, in virtual seconds; ``None`` while it runs."""
        self.plan: Plan | None = None
        """What the runtime made of anything but ``ack()``."""
        self.due: float | None = None
        """When that shall happen, in virtual seconds, where it is later."""

    @property
    def at_once(self) -> bool:
        """Whether it ended at the moment it began."""
        return self.ended_at is not None and self.ended_at - self.at < SAME_MOMENT

    def __repr__(self) -> str:
        ended = "running" if self.ended_at is None else repr(self.error or self.outcome)
        return f"<Call at +{self.at:g} s, attempt {self.attempt}, {self.value!r}: {ended}>"


class Ended(Record):
    """A call ended at another moment than it began."""

    __slots__ = ("call",)

    def __init__(self, at: float, call: Call) -> None:
        super().__init__(at)
        self.call: Final = call


class Settlement(OfDelivery):
    """The broker was told what becomes of a delivery."""

    __slots__ = ("outcome", "plan", "stored")

    def __init__(
        self,
        at: float,
        delivery: Delivery,
        outcome: Outcome | None,
        plan: Plan,
        stored: Stored | None,
    ) -> None:
        super().__init__(at, delivery)
        self.outcome: Final = outcome
        """What the handler decided; ``None`` where none ran."""
        self.plan: Final = plan
        """What the runtime made of it."""
        self.stored: Final = stored
        """How storing the successor ended, where there is one."""

    @property
    def how(self) -> HowSettled:
        """The settlement in one word, such as "ack", "copy", "parked", "dead letter"."""
        if self.stored is Stored.OVERTAKEN:
            return "overtaken"
        return how(self.plan)

    def __repr__(self) -> str:
        return f"<Settlement at +{self.at:g} s, attempt {self.attempt}: {self.how}>"


class Message(Record):
    """A message was stored by the broker."""

    __slots__ = ("kind", "outgoing")

    def __init__(self, at: float, outgoing: Outgoing, kind: MessageKind) -> None:
        super().__init__(at)
        self.outgoing: Final = outgoing
        self.kind: Final[MessageKind] = kind
        """Why, such as "publish", "copy", "dead letter"."""

    @property
    def address(self) -> str:
        """Where it was published."""
        return self.outgoing.address

    @property
    def payload(self) -> bytes:
        """The bytes that were written."""
        return self.outgoing.payload

    @property
    def headers(self) -> Headers:
        """The headers that were written."""
        return Headers(self.outgoing.headers)

    @property
    def value(self) -> object:
        """The payload read as JSON. Raises ``DecodeError`` for what is none."""
        try:
            return msgspec.json.decode(self.payload)
        except msgspec.DecodeError as error:
            raise DecodeError(f"{excerpt(self.payload)} is no JSON: {error}") from error

    def __repr__(self) -> str:
        return f"<{self.kind} at +{self.at:g} s to {self.address}: {excerpt(self.payload)}>"


class Trouble(OfDelivery):
    """A payload that could not be decoded, or a successor that could not be stored."""

    __slots__ = ("error", "what")

    def __init__(self, at: float, delivery: Delivery, what: Fault, error: Exception) -> None:
        super().__init__(at, delivery)
        self.what: Final[Fault] = what
        self.error: Final = error
        """Why: ``str(trouble.error)`` says what is wrong with which part of the payload."""

    def __repr__(self) -> str:
        return f"<Trouble at +{self.at:g} s, {self.what}: {self.error}>"


class Waiting(OfDelivery):
    """A message that waits for its time."""

    __slots__ = ("due", "how")

    def __init__(self, at: float, delivery: Delivery, due: float, how: HowWaiting) -> None:
        super().__init__(at, delivery)
        self.due: Final = due
        """Virtual seconds after the start of the test; infinite where no time is set."""
        self.how: Final[HowWaiting] = how
        """Who keeps it, such as "timer" (this process) or "parked" (the broker)."""

    def __repr__(self) -> str:
        return f"<{self.how} until +{self.due:g} s: {self.subscription} {self.id}>"


Event: TypeAlias = Call | Ended | Settlement | Message | Trouble
"""What ``tb.events()`` consists of."""


def mount_of(delivery: Delivery) -> Mounted | None:
    """The mounted handler that a delivery is for."""
    origin = delivery.origin
    return origin.mounted if isinstance(origin, Consumer) else None
