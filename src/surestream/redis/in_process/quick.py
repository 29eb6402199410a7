"""What an idle service asks for again and again, answered without a command being parsed.

A day of virtual time has 17,000 rounds of it. The data itself is looked at, and only where it says
"nothing" is there a quick answer: the very one that the model gives.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from surestream.redis.in_process.model import SortedSet, StreamGroup, XStream, server_time
from surestream.redis.in_process.streams import StreamAnswers
from surestream.redis.scripted import PROMOTE

__all__ = ["QuickAnswers"]

LARGEST_DUE: Final = 9007199254740000  # as in the script


class QuickAnswers(StreamAnswers):
    """Those answers of one client that say: nothing."""

    def answer_quickly(self, command: list[bytes]) -> bool:
        """Answer ``command`` if there is nothing to tell. Returns whether that was so."""
        if self._transaction is not None:
            return False
        match command:
            case [
                b"XREADGROUP",
                b"GROUP",
                name,
                consumer,
                b"COUNT",
                count,
                b"BLOCK",
                block,
                b"STREAMS",
                key,
                b">",
            ]:
                return self._nothing_new(key, name, consumer, count, block)
            case [b"XPENDING", key, name, b"IDLE", idle, b"0-0", b"+", count]:
                return self._nothing_pending(key, name, idle, count)
            case [b"EVALSHA", PROMOTE.digest, b"3", key, _, _, limit, b"0", b""]:
                return self._nothing_due(key, limit)
            case _:
                return False

    def _nothing_new(
        self, key: bytes, name: bytes, consumer: bytes, count: bytes, block: bytes
    ) -> bool:
        group = self._group_at(key, name)
        if group is None or not (count.isdigit() and block.isdigit()):
            return False
        if group.stream.stream_read(group.last_delivered_key, 1):
            return False
        wanted = [(group, key, b">")]
        read = partial(self._xreadgroup, consumer, wanted, int(count), None, None, False, None)
        self._blocking(int(block) / 1000, lambda _: read(blocking=True), self._xreadgroup_reply)
        return True

    def _nothing_pending(self, key: bytes, name: bytes, idle: bytes, count: bytes) -> bool:
        group = self._group_at(key, name)
        if group is None or group.pel or not (idle.isdigit() and count.isdigit()):
            return False
        self.put_response([])
        return True

    def _nothing_due(self, key: bytes, limit: bytes) -> bool:
        now = round(server_time() * 1_000_000)
        delays = self._value_at(key)
        due = -1
        if delays is not None:
            if not isinstance(delays, SortedSet):
                return False
            first = delays[next(iter(delays))]
            if first <= now // 1000:
                return False
            due = math.ceil(first) if first <= LARGEST_DUE else -1
        known = PROMOTE.digest in self._server.script_cache
        if not known or not limit.isdigit() or limit == b"0":
            return False
        self.put_response([0, 0, 0, 0, due, now, b""])
        return True

    def _group_at(self, key: bytes, name: bytes) -> StreamGroup | None:
        stream = self._value_at(key)
        return stream.group_get(name) if isinstance(stream, XStream) else None

    def _value_at(self, key: bytes) -> object:
        # What has expired is gone for whoever asks.
        self._db.time = server_time()
        item = self._db.get(key)
        return None if item is None else item.value
