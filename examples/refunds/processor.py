"""A stand-in for the card processor. How the card begins decides what it answers."""

from __future__ import annotations

__all__ = ["Busy", "Declined", "Processor", "Unavailable"]


class Busy(Exception):  # noqa: N818 - named for what the processor answers
    """The rate limit is used up: asked again right now, it would refuse again."""


class Unavailable(Exception):  # noqa: N818
    """No answer: the next try may succeed."""


class Declined(Exception):  # noqa: N818
    """The card's account is closed: every try gets this answer."""


class Processor:
    """Pays money back to cards.

    ``busy-once…`` is refused the first time a refund is seen, ``busy…`` always, ``down…`` never
    gets an answer, ``closed…`` is declined; any other card gets its money.
    """

    def __init__(self) -> None:
        self.paid: dict[int, int] = {}
        """Cents paid back, by refund."""
        self._seen: set[int] = set()

    async def refund(self, refund_id: int, card: str, amount_cents: int) -> None:
        """Pay ``amount_cents`` back to ``card``.

        ``refund_id`` keeps it from being paid twice: a message may be delivered again after a
        crash. Raises :class:`Busy`, :class:`Unavailable` or :class:`Declined`.
        """
        first_time = refund_id not in self._seen
        self._seen.add(refund_id)
        if card.startswith("busy-once"):
            if first_time:
                raise Busy
        elif card.startswith("busy"):
            raise Busy
        elif card.startswith("down"):
            raise Unavailable
        elif card.startswith("closed"):
            raise Declined
        self.paid.setdefault(refund_id, amount_cents)
