"""Stores what takes a message's place: copy, parked delay, dead letter, quarantine (section 4)."""

from __future__ import annotations

from surestream.contract import Stored, Subscription, Successor, Transport
from surestream.delivery import Delivery
from surestream.errors import BrokerRefused, DeclarationError, SureStreamError
from surestream.message import HeaderPairs, Outgoing
from surestream.runtime.observe import Observer
from surestream.runtime.redelivery import (
    Copy,
    DeadLetter,
    GiveBack,
    Park,
    Plan,
    Quarantine,
    Reason,
)
from surestream.runtime.successors import (
    copy_headers,
    dead_headers,
    hand_over_headers,
    read_counters,
)
from surestream.runtime.terms import Mounted

__all__ = ["Storing", "Waiting", "is_final", "is_known"]

QUARANTINE_LENGTH = 10_000


class Waiting:
    """A delivery whose plan is under way: in a timer, or until its successor is stored."""

    __slots__ = ("address", "bare", "delivery", "error", "plan", "settled_first")

    def __init__(self, delivery: Delivery, plan: Plan, error: BaseException | None) -> None:
        self.delivery = delivery
        self.plan = plan
        self.error = error
        self.bare = False
        """The dead letter goes without details: with them it was refused (rule 5.2)."""
        self.settled_first = isinstance(plan, Copy) and plan.settle_first
        """The original was settled before the wait: only a kill-prone copy is left (5.7)."""
        self.address: str | None = None
        """Where its successor goes, once that is known."""


class Storing:
    """Builds successors and has the transport store them, original settled after (rule 5.1)."""

    def __init__(
        self,
        mounted: Mounted,
        subscription: Subscription,
        transport: Transport,
        service: str,
        observer: Observer | None,
    ) -> None:
        self._mounted = mounted
        self._subscription = subscription
        self._transport = transport
        self._service = service
        self._observer = observer

    async def store(self, waiting: Waiting) -> Stored:
        """Carry out the plan of ``waiting``; may be called again after any error."""
        delivery, plan = waiting.delivery, waiting.plan
        match plan:
            case GiveBack():
                await self._subscription.give_back([delivery], after=plan.after)
                return Stored.STORED
            case Park():
                headers = copy_headers(delivery, plan.count)
                waiting.address = self.copy_address(delivery)
                stored = await self._subscription.park(delivery, headers, plan.after)
                self._tell(Outgoing(waiting.address, delivery.payload, headers), "delay", stored)
                return stored
            case Copy():
                headers = copy_headers(delivery, plan.count)
                message = Outgoing(self.copy_address(delivery), delivery.payload, headers)
                return await self._place(waiting, Successor(message), "copy")
            case DeadLetter():
                address = self._mounted.terms.dead_letter
                assert address is not None, "the rules ask for no dead letter without an address"
                message = Outgoing(address, delivery.payload, self._dead_headers(waiting, plan))
                return await self._place(waiting, Successor(message, dead=True), "dead letter")
            case Quarantine():
                message = Outgoing(plan.address, delivery.payload, delivery.headers.pairs)
                kept = Successor(message, verbatim=True, max_length=QUARANTINE_LENGTH)
                return await self._place(waiting, kept, "quarantine")
            case _:
                raise AssertionError(f"{plan!r} has no successor")

    async def hand_over(self, waiting: Waiting, wait: float) -> Stored:
        """Publish a copy that still had ``wait`` seconds to go, with its due time (rule 5.8)."""
        assert isinstance(waiting.plan, Copy)
        delivery = waiting.delivery
        headers = hand_over_headers(delivery, waiting.plan.count, wait)
        message = Outgoing(self.copy_address(delivery), delivery.payload, headers)
        return await self._place(waiting, Successor(message), "hand-over")

    def otherwise(self, waiting: Waiting, error: Exception) -> bool:
        """Put another plan into ``waiting`` whose successor can never be stored (rule 5.2):
        a copy becomes a dead letter, a dead letter goes without details."""
        plan = waiting.plan
        if isinstance(plan, Copy | Park) and self._mounted.terms.dead_letter is not None:
            waiting.plan = DeadLetter(plan.count, Reason.REFUSED)
            waiting.error = waiting.error or error
            return True
        elif isinstance(plan, DeadLetter) and not waiting.bare and self._mounted.details != "none":
            waiting.bare = True
            return True
        return False

    def copy_address(self, delivery: Delivery) -> str:
        """Where a copy goes (rule 4.2); what a function gives is checked each time."""
        retry_to = self._mounted.retry_to
        if not callable(retry_to):
            address = retry_to or self._mounted.abilities.address
            assert address is not None, "checked at start"
            return address
        try:
            given: object = retry_to(delivery)
        except Exception as error:
            raise BrokerRefused(f"retry_to raised {error!r}", permanent=True) from error
        if not isinstance(given, str) or not given:
            raise BrokerRefused(f"retry_to gave {given!r}, which is no address", permanent=True)
        return given

    async def _place(self, waiting: Waiting, successor: Successor, kind: str) -> Stored:
        message = successor.message
        waiting.address = message.address
        if waiting.settled_first:
            stored = await self._transport.publish(message)
        else:
            stored = await self._subscription.replace(waiting.delivery, successor)
        self._tell(message, kind, stored)
        return stored

    def _tell(self, message: Outgoing, kind: str, stored: Stored) -> None:
        if self._observer is not None and stored is not Stored.OVERTAKEN:
            self._observer.published(message, kind)

    def _dead_headers(self, waiting: Waiting, plan: DeadLetter) -> HeaderPairs:
        delivery = waiting.delivery
        source = self._mounted.abilities.address or self._mounted.source.name
        return dead_headers(
            delivery,
            plan.count,
            reason=plan.reason,
            attempts=plan.count,
            error=waiting.error,
            service=self._service,
            deaths=read_counters(delivery, source).deaths + 1,
            level="none" if waiting.bare else self._mounted.details,
        )


def is_final(error: Exception) -> bool:
    """Whether the same attempt can never succeed."""
    if isinstance(error, BrokerRefused):
        return error.permanent
    return isinstance(error, DeclarationError)


def is_known(error: Exception) -> bool:
    """Whether the error is one that the contract names; anything else is a fault of ours."""
    return isinstance(error, SureStreamError)
