"""How far a publish cuts its stream back: ``maxlen=`` and ``min_id=``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from surestream.errors import BrokerRefused, DeclarationError, DeclarationTypeError
from surestream.redis.driver import Argument
from surestream.redis.replies import Reply
from surestream.redis.seat import id_order, is_entry_id

__all__ = ["Trim", "trim"]

MOST: Final = 2**63 - 1
_ONE_OF_THEM: Final = 'publish(…, maxlen=10_000) or publish(…, min_id="1700000000000-0")'


@dataclass(frozen=True, slots=True)
class Trim:
    """What ``XADD`` is told beside the entry (Redis documentation, ``XADD`` and ``XTRIM``)."""

    arguments: tuple[Argument, ...]
    least: tuple[int, int] | None = field(default=None)
    """The lowest id that stays, with ``min_id=``."""

    def check(self, reply: Reply) -> None:
        """Raise ``BrokerRefused`` where the entry that was just appended is below the lowest id
        that stays: it may be gone already."""
        if self.least is None or not isinstance(reply, bytes) or id_order(reply) >= self.least:
            return
        least = "-".join(map(str, self.least))
        raise BrokerRefused(
            f'min_id="{least}" lies above the new entry\'s own id {reply.decode()}: it cuts off '
            "whatever is published",
            permanent=True,
        )


def trim(maxlen: object, min_id: object, exact: object) -> Trim | None:
    """The options of a publish, checked; ``None`` without any.

    Raises ``DeclarationError`` or ``DeclarationTypeError``.
    """
    if not isinstance(exact, bool):
        raise DeclarationTypeError(f"exact={exact!r}", why="it is a yes or no", write="exact=True")
    # By default the server cuts where it is cheap, and leaves up to a hundred entries more.
    how = "=" if exact else "~"
    if maxlen is not None and min_id is not None:
        raise DeclarationError(
            f"publish(…, maxlen={maxlen!r}, min_id={min_id!r})",
            why="one XADD cuts by number or by id, not by both",
            write=_ONE_OF_THEM,
        )
    if maxlen is not None:
        return Trim(("MAXLEN", how, _checked_length(maxlen)))
    if min_id is not None:
        checked = _checked_id(min_id)
        return Trim(("MINID", how, checked), id_order(checked.encode()))
    if exact:
        raise DeclarationError(
            "publish(…, exact=True)",
            why="nothing is cut without maxlen= or min_id=",
            write="publish(…, maxlen=10_000, exact=True)",
        )
    return None


def _checked_length(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DeclarationTypeError(
            f"maxlen={value!r}", why="it is a whole number of entries", write="maxlen=10_000"
        )
    if not 1 <= value <= MOST:
        why = "a stream of no entries would drop the one that is published"
        if value > MOST:
            why = "the server counts to 2**63 - 1"
        raise DeclarationError(f"maxlen={value}", why=why, write="maxlen=10_000")
    return value


def _checked_id(value: object) -> str:
    write = 'min_id="1700000000000-0": milliseconds, and where needed a number'
    if not isinstance(value, str):
        raise DeclarationTypeError(f"min_id={value!r}", why="an entry id is text", write=write)
    if not is_entry_id(value):
        raise DeclarationError(f"min_id={value!r}", why="it is no entry id", write=write)
    return value
