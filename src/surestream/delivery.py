"""One hand-over of a message: what transports build and handlers may look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from surestream.errors import DecodeError
from surestream.message import RETRY_COUNT_HEADER, HeaderPairs, Headers, parse_count

__all__ = ["Delivery", "Key", "Origin"]

T = TypeVar("T")
_UNSET: Final = -1


class Origin(Protocol):
    """What a delivery knows about the subscription it came through."""

    @property
    def subscription(self) -> str:
        """The subscription's name in logs."""
        ...

    @property
    def max_attempts(self) -> int | None:
        """The cap declared for it."""
        ...

    def attempt(self, delivery: Delivery) -> int:
        """The number of this delivery, the first being 1 (rule 3.1)."""
        ...

    def held(self) -> Iterable[Delivery]:
        """Every delivery that was handed out and is not settled yet."""
        ...


class Key(Generic[T]):
    """A fact a broker knows about a delivery: ``delivery[EntryId]``, or a handler parameter
    ``Annotated[str, EntryId]``."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type_: type[T]) -> None:
        self.name = name
        self.type: type[T] = type_

    def __repr__(self) -> str:
        return self.name


class Delivery:
    """One hand-over of a message to a handler; also what ``retry_to`` receives.

    Transports subclass it. Everything but :attr:`payload` is worked out when asked for.
    """

    __slots__ = ("_header_count", "_headers", "origin", "payload", "server_count", "special")

    def __init__(
        self,
        payload: bytes,
        origin: Origin,
        *,
        server_count: int = 1,
        special: bool = False,
    ) -> None:
        self.payload = payload
        """The bytes as they arrived."""
        self.origin = origin
        self.server_count = server_count
        """How often the server (or the lease) has handed this message out, this time
        included; 1 where nobody counts."""
        self.special = special
        """Whether the runtime must look at it before the handler runs: it carries one of our
        transport headers, or the server counts more than one delivery."""
        self._headers: Headers | None = None
        self._header_count = _UNSET

    @property
    def id(self) -> str:
        """The broker's name for this message, for logs."""
        return "-"

    @property
    def address(self) -> str:
        """Where it arrived: stream key, topic, subject, channel."""
        raise AttributeError("this transport gives a delivery no address")

    @property
    def marked(self) -> bool:
        """Whether it is a copy or promoted delay that our own subscription wrote (rule 4.7)."""
        return False

    @property
    def fault(self) -> DecodeError | None:
        """Why there is no payload to hand over, where the transport could not read the message
        itself; only looked at when :attr:`special`."""
        return None

    def read_headers(self) -> HeaderPairs:
        """Parse the headers (called once, when they are first asked for)."""
        return ()

    def fact(self, key: Key[Any]) -> object:
        """The value of a context key; ``KeyError`` where the broker does not know it."""
        raise KeyError(key)

    @property
    def headers(self) -> Headers:
        """The headers as they arrived."""
        headers = self._headers
        if headers is None:
            headers = self._headers = Headers(self.read_headers())
        return headers

    @property
    def header_count(self) -> int:
        """Attempts spent by the retry-count header; 0 where absent or malformed (rule 3.1)."""
        count = self._header_count
        if count == _UNSET:
            count = self._header_count = parse_count(self.headers.raw(RETRY_COUNT_HEADER)) or 0
        return count

    @property
    def attempt(self) -> int:
        """The number of this delivery, the first being 1 (rule 3.1)."""
        return self.origin.attempt(self)

    @property
    def subscription(self) -> str:
        """The subscription's name in logs."""
        return self.origin.subscription

    def __getitem__(self, key: Key[T]) -> T:
        return cast(T, self.fact(key))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.origin.subscription}>"
