"""What the replies of one connection belong to, in the order in which they will come."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from surestream.errors import SureStreamError
from surestream.redis.driver import Argument
from surestream.redis.script import Script

__all__ = ["Batch", "Expected", "Reply", "Run"]

Reply: TypeAlias = "bytes | int | list[Reply] | None"
"""A reply as it came: nothing is decoded, a status is its text."""


class Batch:
    """One future for the replies of several commands; error replies are values among them."""

    __slots__ = ("count", "future", "replies")

    def __init__(self, count: int, future: asyncio.Future[list[Reply | SureStreamError]]) -> None:
        self.count = count
        self.future = future
        self.replies: list[Reply | SureStreamError] = []

    def take(self, reply: Reply | SureStreamError) -> None:
        """Add the next reply; the last one resolves the future."""
        self.replies.append(reply)
        if len(self.replies) == self.count and not self.future.done():
            self.future.set_result(self.replies)


class Run:
    """A script sent by its digest, with what it takes to send it again in full."""

    __slots__ = ("arguments", "future", "script")

    def __init__(
        self, script: Script, arguments: tuple[Argument, ...], future: asyncio.Future[Reply]
    ) -> None:
        self.script = script
        self.arguments = arguments
        self.future = future


Expected: TypeAlias = "asyncio.Future[Reply] | Batch | Run | None"
"""The owner of one reply; ``None`` is the link itself, which drops it."""
