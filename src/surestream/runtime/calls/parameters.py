"""What each parameter of a handler is filled with, decided once from its annotation."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast

from surestream.codec import Codec, Decode
from surestream.context import StateMarker
from surestream.contract import Source
from surestream.delivery import Delivery, Key
from surestream.errors import DeclarationError, DeclarationTypeError, Site
from surestream.runtime.calls.annotations import (
    accepts,
    inside,
    is_mark,
    is_offered,
    spelled,
    without_none,
)
from surestream.runtime.calls.meanings import (
    OFFERED,
    Meaning,
    OwnPublisher,
    Payload,
    Read,
    StateOf,
)
from surestream.runtime.calls.signatures import EMPTY, Parameter
from surestream.runtime.publishing import BoundPublisher

__all__ = ["Surroundings"]

_WRITE: Final = (
    "an annotation: the payload's type, State[…], Headers, Delivery, Attempt, Publisher or "
    "Annotated[…, Key]"
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the parameters of one handler are judged by."""

    source: Source
    site: Site
    codec: Codec
    known_keys: frozenset[Key[Any]] | None
    """The keys that the broker can answer; ``None`` where that is not known."""
    publisher: type[BoundPublisher]
    """What the broker gives to a handler that publishes."""

    def meanings(self, parameters: tuple[Parameter, ...]) -> dict[str, Meaning]:
        """What to pass for each parameter; those that are left at their default are left out.

        Raises ``DeclarationError``, naming parameter and handler.
        """
        found: dict[str, Meaning] = {}
        candidates: list[Parameter] = []
        for parameter in parameters:
            meaning = self._recognize(parameter)
            if meaning is not None:
                found[parameter.name] = meaning
            elif parameter.required or parameter.hint is not EMPTY:
                candidates.append(parameter)
        payload = self._payload(candidates)
        if payload is not None:
            found[payload.name] = Payload(self._decoder(payload))
        return found

    def _recognize(self, parameter: Parameter) -> Meaning | None:
        hint = parameter.hint
        if hint is EMPTY:
            if parameter.required:
                raise self._unannotated(parameter)
            return None
        hint = without_none(hint)
        if typing.get_origin(hint) is Annotated:
            meaning = self._marked(parameter, hint)
            if meaning is not None:
                return meaning
            hint = typing.get_args(hint)[0]
        if is_offered(hint):
            return OFFERED.get(hint) or self._publisher(parameter, hint)
        self._refuse_hidden(parameter, hint)
        return None

    def _marked(self, parameter: Parameter, hint: Any) -> Meaning | None:
        inner = typing.get_args(hint)[0]
        marks = [mark for mark in hint.__metadata__ if is_mark(mark)]
        if not marks:
            return None
        mark = marks[0]
        if len(marks) > 1:
            raise self._refusal(
                parameter, f"it has several marks: {marks}", f"one mark, as {marks[0]}"
            )
        if isinstance(mark, Key):
            key: Key[Any] = cast(Any, mark)
            return self._fact(parameter, inner, key)
        if isinstance(mark, StateMarker):
            if isinstance(inner, typing.TypeVar):
                raise self._refusal(
                    parameter, "State of what?", f"{parameter.name}: State[Processor]"
                )
            return StateOf(inner)
        if mark is Key or typing.get_origin(mark) is Key:
            why, write = "Key is the class of keys, not one of them", "Annotated[str, EntryId]"
        else:
            why = "State is written around the type"
            write = f"{parameter.name}: State[{spelled(inner)}]"
        raise self._refusal(parameter, why, write)

    def _fact(self, parameter: Parameter, inner: Any, key: Key[Any]) -> Read:
        known = self.known_keys
        if known is not None and key not in known:
            names = ", ".join(sorted(each.name for each in known)) or "none"
            raise self._refusal(
                parameter,
                f"{type(self.source).__name__} does not know {key.name}; it knows: {names}",
                "a key of this broker",
            )
        if not accepts(inner, key.type):
            kind = spelled(key.type)
            raise self._refusal(
                parameter,
                f"{key.name} is a {kind}",
                f"{parameter.name}: Annotated[{kind}, {key.name}]",
            )
        return Read(lambda delivery: delivery[key])

    def _publisher(self, parameter: Parameter, kind: type[BoundPublisher]) -> Meaning:
        if issubclass(self.publisher, kind):
            return OwnPublisher()
        raise self._refusal(
            parameter,
            f"a handler of {type(self.source).__name__} is not given a {kind.__name__}",
            f"{parameter.name}: Publisher",
        )

    def _payload(self, candidates: list[Parameter]) -> Parameter | None:
        required = [each for each in candidates if each.required]
        if not required and len(candidates) > 1:
            names = " and ".join(repr(each.name) for each in candidates)
            raise DeclarationTypeError(
                f"parameters {names} of {self.site.handler}",
                where=self.site,
                why="each has a default, so it is not clear which one is the payload",
                write=f"{candidates[0]}, without a default",
            )
        if len(required) > 1:
            raise self._two_payloads(required)
        return next(iter(required or candidates), None)

    def _two_payloads(self, required: list[Parameter]) -> DeclarationTypeError:
        payloads = [each for each in required if self._can_decode(each)]
        payload = payloads[0] if payloads else required[0]
        other = next(each for each in required if each is not payload)
        return self._refusal(
            other,
            f"{payload.name!r} is the payload already, and a message has one",
            f"{other.name}: State[{spelled(other.hint)}] where the lifespan yields it",
        )

    def _can_decode(self, parameter: Parameter) -> bool:
        try:
            self.codec.decoder(parameter.hint)
        except Exception:  # any reason will do: this only chooses the words of a refusal
            return False
        return True

    def _decoder(self, parameter: Parameter) -> Decode:
        try:
            return self.codec.decoder(parameter.hint)
        except DeclarationError as error:
            raise self._refusal(
                parameter, f"as payload: {error.why}", error.write or _WRITE
            ) from error
        except Exception as error:
            raise self._refusal(parameter, f"as payload: {error}", _WRITE) from error

    def _unannotated(self, parameter: Parameter) -> DeclarationTypeError:
        if parameter.name in ("self", "cls"):
            return self._refusal(
                parameter,
                "a method is included with its object",
                "Subscriber(source, TheClass().method)",
            )
        return self._refusal(parameter, "nothing says what to pass for it", _WRITE)

    def _refuse_hidden(self, parameter: Parameter, hint: Any) -> None:
        """A mark or a thing of the runtime inside another type would never be filled."""
        if isinstance(hint, type) and issubclass(hint, Delivery):
            raise self._refusal(
                parameter,
                "the class of a delivery depends on the broker",
                f"{parameter.name}: Delivery",
            )
        for part in inside(hint):
            if is_mark(part) or is_offered(part):
                raise self._refusal(
                    parameter,
                    f"{spelled(part)} stands inside another type",
                    f"a parameter of its own for {spelled(part)}",
                )

    def _refusal(self, parameter: Parameter, why: str, write: str) -> DeclarationTypeError:
        return DeclarationTypeError(
            f"parameter {parameter} of {self.site.handler}", where=self.site, why=why, write=write
        )
