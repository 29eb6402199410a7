"""A handler's call, compiled when it is mounted: no inspection and no mapping per message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surestream.codec import DECODE_ERRORS, Codec, Decode, as_decode_error
from surestream.context import Publisher
from surestream.contract import Source
from surestream.delivery import Key
from surestream.errors import DeclarationError, DeclarationTypeError, DecodeError, Site
from surestream.runtime.calls.binding import Call, bound_call
from surestream.runtime.calls.meanings import (
    Argument,
    Fixed,
    Meaning,
    OwnPublisher,
    Payload,
    StateOf,
)
from surestream.runtime.calls.parameters import Surroundings
from surestream.runtime.calls.signatures import Parameter, read_signature
from surestream.runtime.calls.state import no_lifespan
from surestream.runtime.publishing import BoundPublisher

__all__ = ["Call", "CallPlan", "StateResolver", "compile_call"]

StateResolver = Callable[[str, Any], object]
"""The value of a state parameter, by its name and type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlan:
    """How one mounted handler is called."""

    handler: Callable[..., object]
    site: Site
    arguments: tuple[Argument, ...]
    decode: Decode
    """Decodes a payload, or raises one of ``decode_errors``."""
    decode_errors: tuple[type[Exception], ...]
    takes_payload: bool
    """Without a payload parameter nothing is decoded."""
    is_async: bool
    """A bound call gives a coroutine; otherwise it blocks and belongs in a thread."""
    is_native: bool
    """The handler is an ``async def`` itself."""
    none_acks: bool
    """``None`` acknowledges: the handler is not annotated to return an outcome (rule 2.2)."""

    @property
    def state_needs(self) -> tuple[tuple[str, Any], ...]:
        """The state parameters: name and type."""
        return tuple(
            (each.name, each.meaning.type)
            for each in self.arguments
            if isinstance(each.meaning, StateOf)
        )

    def refuse_without_lifespan(self) -> None:
        """For apps that have no state: raise ``DeclarationError`` if the handler asks for it."""
        for name, type_ in self.state_needs:
            raise no_lifespan(name, type_).at(self.site)

    def as_decode_error(self, error: Exception) -> DecodeError:
        """What ``decode`` raised, as the error for reports and ``on_decode_error``."""
        return as_decode_error(error)

    def bind(self, resolve_state: StateResolver, publisher: Publisher) -> Call:
        """The call for one run, everything that does not change filled in.

        Raises ``DeclarationError`` where ``resolve_state`` refuses.
        """
        filled = [
            Argument(each.name, each.by_name, self._fill(each, resolve_state, publisher))
            for each in self.arguments
        ]
        return bound_call(self.handler, filled, awaiting=self.is_async and not self.is_native)

    def _fill(self, argument: Argument, resolve: StateResolver, publisher: Publisher) -> Meaning:
        meaning = argument.meaning
        if isinstance(meaning, OwnPublisher):
            return Fixed(publisher)
        if isinstance(meaning, StateOf):
            try:
                return Fixed(resolve(argument.name, meaning.type))
            except DeclarationError as error:
                raise error.at(self.site) from None
        return meaning


def compile_call(
    handler: Callable[..., object],
    source: Source,
    site: Site,
    codec: Codec,
    known_keys: frozenset[Key[Any]] | None = None,
    publisher: type[BoundPublisher] = BoundPublisher,
    replies: bool = False,
) -> CallPlan:
    """Work out how ``handler`` is called for deliveries of ``source``; once, at mount.

    ``site`` is told in refusals; ``known_keys`` are the facts that the broker can answer, where
    that is known; ``publisher``: what the broker gives to handlers that publish; ``replies``:
    what is returned may be a value to publish.

    Raises ``DeclarationError`` or ``DeclarationTypeError``, naming parameter and
    handler, for everything that would fail at the first message (rule 7.1).
    """
    signature = read_signature(handler, site, replies=replies)
    from surestream.runtime.calls.misuse import refuse_misuse  # only for who mounts

    refuse_misuse(handler, site, signature.parameters)
    surroundings = Surroundings(source, site, codec, known_keys, publisher)
    meanings = surroundings.meanings(signature.parameters)
    if not signature.is_async:
        _refuse_publisher(meanings, site)
    payload = next((each for each in meanings.values() if isinstance(each, Payload)), None)
    return CallPlan(
        handler=handler,
        site=site,
        arguments=_arguments(signature.parameters, meanings),
        decode=bytes if payload is None else payload.decode,
        decode_errors=DECODE_ERRORS,
        takes_payload=payload is not None,
        is_async=signature.is_async,
        is_native=signature.is_native,
        none_acks=signature.none_acks,
    )


def _arguments(
    parameters: Sequence[Parameter], meanings: dict[str, Meaning]
) -> tuple[Argument, ...]:
    positional = [each for each in parameters if each.positional]
    while positional and positional[-1].name not in meanings:
        positional.pop()
    return (
        *(Argument(p.name, False, meanings.get(p.name, Fixed(p.default))) for p in positional),
        *(
            Argument(p.name, True, meanings[p.name])
            for p in parameters
            if not p.positional and p.name in meanings
        ),
    )


def _refuse_publisher(meanings: dict[str, Meaning], site: Site) -> None:
    for name, meaning in meanings.items():
        if isinstance(meaning, OwnPublisher):
            raise DeclarationTypeError(
                f"parameter {name}: Publisher of {site.handler}",
                where=site,
                why="publishing is awaited, and a def handler cannot await: nothing would be sent",
                write=f"async def {site.handler.rpartition('.')[2]}",
            )
