"""One consumer's place in a group of a stream, and the ids of its entries."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote

__all__ = [
    "CONSUMER_PREFIX",
    "FIRST_ID",
    "TRACE",
    "WAITING",
    "Seat",
    "id_below",
    "id_order",
    "is_entry_id",
    "mark_text",
    "read_mark",
]

CONSUMER_PREFIX: Final = "surestream-"
"""How the names begin that we give to consumers; only such are ever removed."""
WAITING: Final = f"{CONSUMER_PREFIX}waiting".encode()
"""The consumer for which entries are pending between a retry and their claim after ``min_idle``:
they are nobody's, and must not be taken for what a worker lost or still holds."""
TRACE: Final = f"{CONSUMER_PREFIX}again:"
"""How the name of the consumer begins that whoever creates a lost group again leaves there. No name
of a process has a colon."""
FIRST_ID: Final = b"0-0"
"""Below every entry: a group that begins there gets the whole stream."""
_LAST: Final = 2**64 - 1
_ID: Final = re.compile(r"[0-9]{1,20}(-[0-9]{1,20})?")


@dataclass(frozen=True, slots=True)
class Seat:
    """Who reads what: stream key, group and consumer, as text and as sent."""

    key: str
    group: str
    consumer: str
    own_name: bool
    """The consumer's name was made by us (rule 6.4), and nobody else uses it."""
    stream: bytes = field(init=False)
    group_name: bytes = field(init=False)
    consumer_name: bytes = field(init=False)
    mark: bytes = field(init=False)
    """What copies that go back to this stream carry (rule 4.7)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stream", self.key.encode())
        object.__setattr__(self, "group_name", self.group.encode())
        object.__setattr__(self, "consumer_name", self.consumer.encode())
        object.__setattr__(self, "mark", mark_text(self.key, self.group))

    @property
    def label(self) -> str:
        """How logs name it."""
        return f"{self.key}/{self.group}"


def mark_text(key: str, group: str) -> bytes:
    """The mark for ``group`` on the stream ``key``: both percent-encoded, a slash between."""
    return f"{quote(key, safe='')}/{quote(group, safe='')}".encode()


def read_mark(mark: bytes) -> tuple[str, str] | None:
    """Key and group that a mark names, or ``None`` for what is no mark."""
    parts = mark.split(b"/")
    if len(parts) != 2 or not mark.isascii():
        return None
    key, group = (unquote(part.decode("ascii"), errors="replace") for part in parts)
    return key, group


def is_entry_id(text: str) -> bool:
    """Whether ``text`` is an entry id, with or without the number behind the milliseconds."""
    return _ID.fullmatch(text) is not None and all(int(part) <= _LAST for part in text.split("-"))


def id_order(entry: bytes) -> tuple[int, int]:
    """An entry id as two numbers, to compare by."""
    milliseconds, _, sequence = entry.partition(b"-")
    return int(milliseconds), int(sequence or 0)


def id_below(entry: bytes) -> bytes:
    """The highest id below ``entry``: a group that begins there gets it next."""
    milliseconds, sequence = id_order(entry)
    if sequence > 0:
        return b"%d-%d" % (milliseconds, sequence - 1)
    if milliseconds > 0:
        return b"%d-%d" % (milliseconds - 1, _LAST)
    return FIRST_ID
