"""Stores what takes a message's place: copy, parked delay, dead letter, quarantine (section 4)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from surestream.contract import Stored, Subscription, Successor, Transport
from surestream.declaration import RetryTo, check_address
from surestream.delivery import Delivery
from surestream.errors import BrokerRefused, DeclarationError, SureStreamError
from surestream.message import HeaderPairs, Outgoing
from surestream.middleware import PublishMiddleware, around_publish
from surestream.runtime.observe import Observer
from surestream.runtime.publishing import finished
from surestream.runtime.redelivery import (
    Copy,
    DeadLetter,
    GiveBack,
    Park,
    Plan,
    Quarantine,
    Reason,
    Reply,
    spent,
)
from surestream.runtime.reports import Reports, cut
from surestream.runtime.successors import (
    copy_headers,
    dead_headers,
    hand_over_headers,
    read_counters,
)
from surestream.runtime.terms import Mounted

__all__ = ["Storing", "UnsentError", "Waiting", "is_final", "is_known", "resolve_address"]

log = logging.getLogger("surestream.dispatch")

QUARANTINE_LENGTH = 10_000


class Waiting:
    """A delivery whose plan is under way: in a timer, or until its successor is stored."""

    __slots__ = ("address", "bare", "delivery", "error", "failure", "plan", "settled_first")

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
        self.failure: Exception | None = None
        """Why there is no successor to store: the delivery has failed after all."""


class UnsentError(SureStreamError):
    """Publish middleware raised instead of sending a reply; its error is ``cause``."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause
        super().__init__(f"publish middleware raised {cause!r}")


class Storing:
    """Builds successors and has the transport store them, original settled after (rule 5.1)."""

    def __init__(
        self,
        mounted: Mounted,
        subscription: Subscription,
        transport: Transport,
        service: str,
        observer: Observer | None,
        reports: Reports,
        publish_middleware: Sequence[PublishMiddleware],
    ) -> None:
        self._mounted = mounted
        self._subscription = subscription
        self._transport = transport
        self._service = service
        self._observer = observer
        self._reports = reports
        self._publish_middleware = publish_middleware

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
            case Reply():
                return await self._reply(waiting, plan.message)
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
        a copy or a reply becomes a dead letter, a dead letter goes without details."""
        plan, dead_letter = waiting.plan, self._mounted.terms.dead_letter
        if isinstance(plan, Copy | Park | Reply) and dead_letter is not None:
            delivery = waiting.delivery
            if isinstance(plan, Reply):
                counters = read_counters(delivery, delivery.address)
                count = spent(counters, self._mounted.abilities.counter)
                dead = DeadLetter(count, Reason.REPLY_REFUSED)
            else:
                dead = DeadLetter(plan.count, Reason.REFUSED)
            waiting.plan = dead
            waiting.error = waiting.error or error
            self._reports.planned(delivery, dead.count, dead, 0.0, dead_letter)
            return True
        elif isinstance(plan, DeadLetter) and not waiting.bare and self._mounted.details != "none":
            waiting.bare = True
            return True
        return False

    def copy_address(self, delivery: Delivery) -> str:
        """Where a copy goes (rule 4.2); what a function gives is checked each time."""
        retry_to = self._mounted.retry_to or self._mounted.abilities.address
        assert retry_to is not None, "checked at start"
        address = resolve_address("retry_to", retry_to, delivery)
        if callable(retry_to) and not self._mounted.source.reads(address):
            self._reports.warn(
                "retry_to gave %s, which this subscription does not read", cut(address)
            )
        return address

    async def _reply(self, waiting: Waiting, message: Outgoing) -> Stored:
        """Stored before the original is acknowledged, and by nobody who was overtaken.

        Raises :class:`UnsentError` where middleware raised before anything was to be stored.
        What it does about a reply that could not be stored changes nothing: that is tried again.
        """
        if not self._publish_middleware:
            return await self._place(waiting, Successor(message, reply=True), "reply")
        stored: Stored | None = None
        refused: Exception | None = None

        async def send(message: Outgoing) -> None:
            nonlocal stored, refused
            successor = Successor(finished(message, clean=True), reply=True)
            try:
                stored = await self._place(waiting, successor, "reply")
            except Exception as error:
                refused = error
                raise

        try:
            await around_publish(self._publish_middleware, send)(message)
        except Exception as error:
            if stored is not None:
                log.exception("publish middleware raised, the reply being stored already")
            elif refused is None:
                raise UnsentError(error) from error
        if stored is not None:
            return stored
        if refused is not None:
            raise refused
        if self._mounted.abilities.settles:
            self._subscription.acknowledge((waiting.delivery,))
        return Stored.STORED

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
        return dead_headers(
            delivery,
            plan.count,
            reason=plan.reason,
            attempts=plan.count,
            error=waiting.error,
            service=self._service,
            deaths=read_counters(delivery, delivery.address).deaths + 1,
            level="none" if waiting.bare else self._mounted.details,
        )


def resolve_address(setting: str, address: RetryTo, delivery: Delivery) -> str:
    """An address as declared; what a function gives is checked each time it is used."""
    if not callable(address):
        return address
    try:
        given: object = address(delivery)
    except Exception as error:
        raise BrokerRefused(f"{setting} raised {error!r}", permanent=True) from error
    return check_address(given, f"{setting}(delivery)")


def is_final(error: Exception) -> bool:
    """Whether the same attempt can never succeed."""
    if isinstance(error, BrokerRefused):
        return error.permanent
    return isinstance(error, DeclarationError)


def is_known(error: Exception) -> bool:
    """Whether the error is one that the contract names; anything else is a fault of ours."""
    return isinstance(error, SureStreamError)
