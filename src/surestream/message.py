"""Headers, and a message as it is handed to a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar, overload

__all__ = [
    "DEAD_PREFIX",
    "MARK_HEADER",
    "MESSAGE_ID_HEADER",
    "NOT_BEFORE_HEADER",
    "RESERVED_PREFIX",
    "RETRY_COUNT_HEADER",
    "RETRY_COUNT_LIMIT",
    "HeaderPairs",
    "HeaderValues",
    "Headers",
    "Outgoing",
    "header_pairs",
    "is_reserved",
    "parse_count",
]

_T = TypeVar("_T")

RETRY_COUNT_HEADER: Final = "x-ruststream-retry-count"
"""Attempts spent when a message was published, in ASCII digits. The name is shared with
RustStream services, so that both languages can work on one stream (rule 3.1)."""

RETRY_COUNT_LIMIT: Final = 2**31
RESERVED_PREFIX: Final = "x-surestream-"
MARK_HEADER: Final = "x-surestream-for"
"""On a copy that went back to its own stream: the key and group it is for (rule 4.7)."""
NOT_BEFORE_HEADER: Final = "x-surestream-not-before"
"""On a copy handed over at a stop: when it is due, in Unix milliseconds (rule 5.8)."""
MESSAGE_ID_HEADER: Final = "x-surestream-msg-id"
DEAD_PREFIX: Final = "x-surestream-dead-"
"""The prefix of the headers that say why a message is a dead letter (rule 4.3)."""

HeaderPairs = tuple[tuple[str, bytes], ...]
"""Headers as they travel: names as on the wire, values in bytes, repeats kept."""

HeaderValues = Mapping[str, str | bytes]
"""Headers as a user gives them to a publish."""


class Headers(Mapping[str, str]):
    """The headers of a delivery: names without regard to case, values as text.

    Where a producer sent one name several times, :meth:`get`, :meth:`raw` and ``headers[name]``
    give the first; :meth:`all` gives every one. Bytes that are no UTF-8 are shown with
    replacement characters; :meth:`raw` gives them as they are.
    """

    __slots__ = ("_index", "pairs")

    def __init__(self, pairs: Iterable[tuple[str, bytes]] = ()) -> None:
        self.pairs: HeaderPairs = tuple(pairs)
        """All headers in the order they arrived, names as on the wire."""
        index: dict[str, bytes] = {}
        for name, value in self.pairs:
            index.setdefault(name.lower(), value)
        self._index = index

    def __getitem__(self, name: str) -> str:
        return self._index[name.lower()].decode("utf-8", "replace")

    @overload
    def get(self, key: str, /) -> str | None: ...
    @overload
    def get(self, key: str, /, default: str | _T) -> str | _T: ...

    def get(self, key: str, /, default: object = None) -> object:
        """The first value of ``key`` as text, or ``default``."""
        value = self._index.get(key.lower())
        return default if value is None else value.decode("utf-8", "replace")

    def raw(self, name: str) -> bytes | None:
        """The first value of ``name`` in bytes, or ``None``."""
        return self._index.get(name.lower())

    def all(self, name: str) -> list[bytes]:
        """Every value of ``name``, in order."""
        wanted = name.lower()
        return [value for key, value in self.pairs if key.lower() == wanted]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"Headers({dict(self)!r})"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message ready to be published: an address, payload bytes, headers."""

    address: str
    payload: bytes
    headers: HeaderPairs = ()
    options: object | None = None
    """What the broker's own ``publish`` was asked for besides; only its transport reads it."""


def is_reserved(name: str) -> bool:
    """Whether a header belongs to the runtime and never travels with what a handler
    publishes (rule 4.10)."""
    lowered = name.lower()
    return lowered == RETRY_COUNT_HEADER or lowered.startswith(RESERVED_PREFIX)


def header_pairs(values: HeaderValues | None) -> HeaderPairs:
    """Check headers given by a user and put them into the form that travels.

    Raises ``TypeError`` for a name or value that is neither text nor bytes, ``ValueError`` for
    an empty name, a line break or NUL in a name, or two names that differ only in case.
    """
    if not values:
        return ()
    pairs: list[tuple[str, bytes]] = []
    seen: set[str] = set()
    for name, value in values.items():
        lowered = _checked_name(name)
        if lowered in seen:
            raise ValueError(f"header {name!r} is given twice: names do not regard case")
        seen.add(lowered)
        pairs.append((name, value.encode() if type(value) is str else _value_bytes(name, value)))
    return tuple(pairs)


@lru_cache(1024)
def _checked_name(name: object) -> str:
    """A name that may travel, in lower case; a service uses few, over and over."""
    if not isinstance(name, str):
        raise TypeError(f"header name {name!r} is {type(name).__name__}: write it as text")
    if not name:
        raise ValueError("a header name is empty")
    if any(sign in name for sign in "\r\n\0"):
        raise ValueError(f"header name {name!r} has a line break or NUL in it")
    return name.lower()


def _value_bytes(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(
        f"header {name!r} has a value of type {type(value).__name__}: write text or bytes"
    )


def parse_count(value: bytes | None) -> int | None:
    """The number a retry-count header carries (rule 3.1).

    ``None`` for an absent or malformed value; numbers above 2**31 count as 2**31.
    """
    if not value or not value.isdigit():
        return None
    digits = value.lstrip(b"0")
    if len(digits) > 10:
        return RETRY_COUNT_LIMIT
    return min(int(digits or b"0"), RETRY_COUNT_LIMIT)
