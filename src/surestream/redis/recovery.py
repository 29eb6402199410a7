"""Finding what was left behind: by dead workers, and in replies that got lost (rule 6.4)."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from surestream.redis.driver import Argument
from surestream.redis.pending import LAST_ID, PAGE, PendingList
from surestream.redis.reader import outlive
from surestream.redis.reconnecting import ReconnectingLink
from surestream.redis.replies import Reply
from surestream.redis.scripted import CLAIM, REREAD, PendingRow, read_claims, read_taken
from surestream.redis.seat import FIRST_ID, Seat, id_order

__all__ = ["Claim", "Recovery"]

Claim: TypeAlias = tuple[bytes, list[bytes], int]
"""Id, fields and delivery count of an entry taken over."""
Candidate: TypeAlias = tuple[bytes, int]
"""Id of an entry that may be taken over, and its delivery count before that."""
Take: TypeAlias = Callable[[list[Claim]], None]

AT_ONCE: Final = 16
"""How many candidates one script is told of: others may have been faster."""
LONGEST_WAIT: Final = 5.0
HANDED_BACK_MS: Final = 180 * 86_400 * 1000
"""What looks idle for longer was handed back, not lost."""


class Recovery:
    """Takes over what looks idle for too long in the pending list of its group, and reads lost
    replies again.

    ``busy`` gives the ids that are in hand here: held by the runtime, waiting to be handed out,
    or settled and not confirmed yet.
    """

    def __init__(
        self,
        link: ReconnectingLink,
        seat: Seat,
        *,
        idle: Callable[[], float | None],
        busy: Callable[[], Iterable[bytes]],
        chance: random.Random,
    ) -> None:
        self._link = link
        self._seat = seat
        self._idle = idle
        self._busy = busy
        self._chance = chance
        self._pending = PendingList(link, seat)
        self._turn = asyncio.Lock()
        self._claiming: set[bytes] = set()
        self._under_way: set[asyncio.Future[Reply]] = set()
        self._candidates: deque[Candidate] = deque()
        self._unheard: dict[bytes, int] = {}
        self._own_after: bytes | None = None if seat.own_name else FIRST_ID
        self._own_until = FIRST_ID

    def earlier_runs_end_at(self, entry: bytes) -> None:
        """What is pending on a consumer name of the user's up to ``entry`` is of earlier runs."""
        self._own_until = entry
