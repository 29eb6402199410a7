"""What a handler may ask for besides its payload, headers and delivery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Protocol, TypeVar, overload

from surestream.message import HeaderValues

__all__ = ["STATE", "Attempt", "Publisher", "State", "StateMarker"]

_T = TypeVar("_T")


class StateMarker:
    """The mark that :data:`State` puts on an annotation."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "State"


STATE: Final = StateMarker()

State = Annotated[_T, STATE]
"""``processor: State[Processor]`` is what the app's ``lifespan`` yielded: the value itself where
it is a ``Processor``, else the one of its fields that is (the one called like the parameter
where several are). Resolved once, when the service starts."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which delivery of its message this is, as a handler parameter."""

    number: int
    """1 for the first delivery (rule 3.1)."""
    maximum: int | None = None
    """The cap declared where the handler is included; ``None`` without one."""

    @property
    def last(self) -> bool:
        """Whether a retry now would exceed the cap (rule 3.3); never without a cap."""
        return self.maximum is not None and self.number >= self.maximum

    def __int__(self) -> int:
        return self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.maximum}" if self.maximum is not None else str(self.number)


class Publisher(Protocol):
    """Publishes through the broker that the handler is included on.

    A handler parameter; the retry count and the headers reserved for the runtime never travel
    with what is published (rule 4.10).
    """

    @overload
    async def publish(
        self, destination: str, value: object, /, *, headers: HeaderValues | None = None
    ) -> None: ...
    @overload
    async def publish(self, value: object, /, *, headers: HeaderValues | None = None) -> None: ...

    async def publish(
        self,
        destination: object,
        value: object = ...,
        /,
        *,
        headers: HeaderValues | None = None,
    ) -> None:
        """Publish ``value`` to ``destination``, or a value whose class declares where it goes
        (``@outgoing``), and wait until the broker has confirmed it.

        Raises ``EncodeError``, ``BrokerRefused``, ``ConnectionLost``.
        """
        ...
