"""One Redis broker in one run."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import socket
from collections.abc import Callable
from typing import Final

from surestream.contract import Source, Stored, Subscription, SubscriptionTerms, Transport
from surestream.delivery import Origin
from surestream.errors import (
    BrokerRefused,
    ConnectFailed,
    ConnectionLost,
    DeclarationError,
    DeclarationTypeError,
    SureStreamError,
)
from surestream.message import Outgoing
from surestream.redis.delays import Promoter
from surestream.redis.deleting import refuse_second_group
from surestream.redis.driver import ConnectionFactory
from surestream.redis.publishing import publish
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.seat import CONSUMER_PREFIX, Seat
from surestream.redis.sources import ClaimingStream, DurableZset, StreamSource
from surestream.redis.stream import StreamSubscription

__all__ = ["RedisTransport"]

LONGEST_HOST: Final = 40
_RUNS: Final = itertools.count(1)


class RedisTransport(Transport):
    """Commands of all subscriptions and publishes share one connection; every subscription has
    another one for its blocking reads.

    ``connect`` makes connections to the server, ``display`` names it in errors and logs.
    """

    def __init__(
        self, connect: ConnectionFactory, *, display: str, service: str, chance: random.Random
    ) -> None:
        self._connect = connect
        self._display = display
        self._chance = chance
        self._client = f"surestream-{_word(service)}"
        self._process = f"{CONSUMER_PREFIX}{_word(socket.gethostname())}-{_token(chance)}"
        self._command: ReconnectingLink | None = None
        self._timeout = 30.0
        self._subscriptions: list[StreamSubscription] = []
        self._seats: dict[Seat, StreamSource] = {}
        self._leases: dict[tuple[str, str], list[float]] = {}
        self._promoters: dict[str, Promoter] = {}
        self._numbered = 0

    async def connect(self, timeout: float) -> None:
        self._timeout = timeout
        command = self._link(self._client)
        await command.open(timeout)
        self._command = command

    def _link(self, name: str) -> ReconnectingLink:
        return ReconnectingLink(
            self._connect, name=name, display=self._display, random=self._chance
        )

    @property
    def _open(self) -> ReconnectingLink:
        if self._command is None:
            raise ConnectionLost(f"{self._display}: not connected")
        return self._command

    # ── subscribing ─────────────────────────────────────────────────────────

    async def subscribe(
        self, source: Source, terms: SubscriptionTerms, origin: Origin
    ) -> Subscription:
        command = self._open
        if not isinstance(source, StreamSource):
            raise DeclarationTypeError(
                f"source {source!r}",
                why="a Redis broker reads Redis sources only",
                write=f'RedisStream("{source.name}", group=…)',
                where=terms.where,
            )
        seat = self._seat(source, terms)
        refuse_second_group(source, self._seats.values(), terms)
        self._seats[seat] = source
        promoter = self._promoter(command, source, terms)
        lease = self._lease(source)
        reading = self._link(f"{self._client}-reads")
        subscription = StreamSubscription(
            source,
            seat,
            origin,
            command=command,
            reading=reading,
            cap=terms.max_attempts,
            lease=lease,
            parked=_nothing if promoter is None else promoter.expect,
            closed=self._left,
            chance=self._chance,
        )
        try:
            await self._opened(command, subscription)
            await reading.open(self._timeout)
        except SureStreamError as error:
            self._seats.pop(seat, None)
            if isinstance(error, BrokerRefused):
                told = f"{terms.where}: {error}"
                raise BrokerRefused(told, permanent=error.permanent) from error
            raise
        self._subscriptions.append(subscription)
        if promoter is not None:
            promoter.serve(source.block)
        return subscription

    async def _opened(self, command: ReconnectingLink, subscription: StreamSubscription) -> None:
        """Open it, also over a connection that is lost meanwhile: each step may be repeated."""
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    try:
                        return await subscription.open()
                    except ConnectionLost:
                        # At least a turn of the loop: the link may look open still.
                        await asyncio.sleep(0)
                        await command.ready()
        except TimeoutError:
            raise ConnectFailed(
                f"{self._display}: connection lost while subscribing (tried for "
                f"{self._timeout:g} s)"
            ) from None

    def _seat(self, source: StreamSource, terms: SubscriptionTerms) -> Seat:
        if source.consumer is None:
            # Each subscription has a consumer of its own: what is pending for it and not in hand
            # here must have been lost.
            self._numbered += 1
            name = f"{self._process}-{self._numbered}"
            return Seat(source.key, source.group, name, own_name=True)
        seat = Seat(source.key, source.group, source.consumer, own_name=False)
        if seat in self._seats:
            raise DeclarationError(
                f'consumer="{source.consumer}" of {source.label} twice',
                why="two subscriptions with one consumer name would take each other's messages",
                write="another consumer= for one of them, or none",
                where=terms.where,
            )
        return seat

    def _promoter(
        self, command: ReconnectingLink, source: StreamSource, terms: SubscriptionTerms
    ) -> Promoter | None:
        streams = {seat.key for seat in self._seats}
        delays = source.delayed_retry
        if delays is None:
            _refuse_one_key_for_both(source.key, self._promoters, terms)
            return None
        promoter = self._promoters.get(delays.key)
        if promoter is not None and promoter.stream != source.key:
            raise DeclarationError(
                f'DurableZset("{delays.key}") of "{promoter.stream}" and of "{source.key}"',
                why="a delay would come back into the stream of whoever looks first (rule 6.5)",
                write=f'DurableZset("{source.key}.delayed") for the latter',
                where=terms.where,
            )
        for stream in streams:
            _refuse_one_key_for_both(stream, {**self._promoters, delays.key: None}, terms)
        if promoter is None:
            promoter = Promoter(command, delays.key, source.key)
            self._promoters[delays.key] = promoter
        promoter.keep(delays.ttl)
        return promoter

    def _lease(self, source: StreamSource) -> Callable[[], float | None]:
        lease = source.lease
        if lease is None:
            return lambda: None
        # Whoever renews its claims at the slower pace of another declaration is alive, and what
        # waits for `min_idle` is for those who claim.
        leases = self._leases.setdefault((source.key, source.group), [])
        leases.append(lease)
        return (lambda: lease) if isinstance(source, ClaimingStream) else (lambda: max(leases))

    def _left(self, subscription: StreamSubscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        self._seats.pop(subscription.seat, None)

    # ── the rest ────────────────────────────────────────────────────────────

    async def publish(self, message: Outgoing) -> Stored:
        return await publish(self._open, message)

    async def close(self) -> None:
        for promoter in self._promoters.values():
            await promoter.close()
        for subscription in tuple(self._subscriptions):
            await subscription.close()
        if self._command is not None:
            await self._command.close()

    @property
    def trouble(self) -> str | None:
        if self._command is None or not self._command.up:
            return f"{self._display}: not connected"
        troubles = [subscription.trouble for subscription in self._subscriptions]
        troubles += [promoter.trouble for promoter in self._promoters.values()]
        return next((trouble for trouble in troubles if trouble is not None), None)


def _refuse_one_key_for_both(
    stream: str,
    delay_sets: dict[str, Promoter | None] | dict[str, Promoter],
    terms: SubscriptionTerms,
) -> None:
    for key in delay_sets:
        if stream in (key, DurableZset(key).set_aside):
            raise DeclarationError(
                f'the key "{stream}" as a stream and as DurableZset("{key}")',
                why="one key cannot be a stream and a sorted set",
                write=f'DurableZset("{stream}.delayed")',
                where=terms.where,
            )


def _nothing(due: int, now: int) -> None:
    """There is no delay set."""


def _token(chance: random.Random) -> str:
    # Two processes, and two runs in one process, may have been given the same seed.
    return f"{os.getpid():x}.{next(_RUNS):x}.{chance.getrandbits(48):012x}"


def _word(name: str) -> str:
    """A name in the form that the server takes for clients and consumers."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:LONGEST_HOST] or "service"
