"""Reading, groups and what is told of streams, where ``fakeredis`` differs from Redis 7.0."""

from __future__ import annotations

from collections import Counter
from typing import Any

from surestream.redis.in_process.model import (
    SYNTAX_ERROR,
    FakeSocket,
    Key,
    SimpleError,
    StreamEntryKey,
    StreamGroup,
    XStream,
    existing_group,
    integer,
    milliseconds,
    refuse,
    text,
)

__all__ = ["StreamAnswers"]

_WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
_NO_TIMEOUT = "ERR timeout is not an integer or out of range"


class StreamAnswers(FakeSocket):
    """Stream commands of one client, as Redis 7.0 answers them."""

    @property
    def in_script(self) -> bool:
        """Whether a script is running on this client."""
        return self._script_resp is not None

    # ── reading ─────────────────────────────────────────────────────────────

    def xread(self, *args: bytes) -> object:
        for name, start in self._streams_asked_for(args):
            self._stream_at(name)
            if start == b">":
                refuse(
                    "ERR The > ID can be specified only when calling XREADGROUP using the "
                    "GROUP <group> <consumer> option."
                )
        return super().xread(*args)

    def xreadgroup(
        self, group_const: bytes, group_name: bytes, consumer_name: bytes, *args: bytes
    ) -> object:
        for name, start in self._streams_asked_for(args):
            stream = self._stream_at(name)
            if stream is None or stream.group_get(group_name) is None:
                refuse(
                    f"NOGROUP No such key '{text(name)}' or consumer group '{text(group_name)}' "
                    "in XREADGROUP with GROUP option"
                )
            if start == b"$":
                refuse("ERR The $ ID is meaningless in the context of XREADGROUP")
        return super().xreadgroup(group_const, group_name, consumer_name, *args)

    def _streams_asked_for(self, args: tuple[bytes, ...]) -> list[tuple[bytes, bytes]]:
        options = [arg.upper() for arg in args]
        at = options.index(b"STREAMS") if b"STREAMS" in options else len(args)
        options = options[:at]
        if b"CLAIM" in options:
            refuse(SYNTAX_ERROR)  # of Redis 8.4
        if b"BLOCK" in options[:-1]:
            block = integer(
                options[options.index(b"BLOCK") + 1],
                _NO_TIMEOUT,
            )
            if block < 0:
                refuse("ERR timeout is negative")
            if self.in_script:
                refuse("ERR command is not allowed with BLOCK option from scripts")
        names = args[at + 1 :]
        half = len(names) // 2
        return [] if len(names) % 2 else list(zip(names[:half], names[half:], strict=True))

    def _stream_at(self, name: bytes) -> XStream | None:
        item = self._db.get(name)
        if item is None:
            return None
        if not isinstance(item.value, XStream):
            refuse(_WRONG_TYPE)
        return item.value

    def _xreadgroup(
        self,
        consumer: bytes,
        wanted: list[tuple[StreamGroup, bytes, bytes]],
        count: int | None,
        maxcount: int | None,
        maxsize: int | None,
        noack: bool,
        min_idle: int | None,
        blocking: bool,
    ) -> object:
        limit = count if count is not None and count > 0 else None
        result: dict[bytes, object] = {}
        for found, name, start in wanted:
            # Looked up again each time: a blocked reader outlives its stream and its group.
            item = self._db.get(name)
            if item is None or not isinstance(item.value, XStream):
                return SimpleError("UNBLOCKED the stream key no longer exists")
            group = item.value.group_get(found.name)
            if group is None:
                return SimpleError(
                    "NOGROUP the consumer group this client was blocked on no longer exists"
                )
            if start != b">":
                result[name] = self._own_history(group, consumer, start, limit)
            elif group.stream.stream_read(group.last_delivered_key, 1):
                # Where there is nothing to read, the consumer is not even created.
                result[name] = group.group_read(consumer, start, limit, noack)
        if blocking and not result:
            return None
        return result

    def _xreadgroup_reply(self, res: object) -> object:
        return res if isinstance(res, SimpleError) else super()._xreadgroup_reply(res)

    def _own_history(
        self, group: StreamGroup, consumer: bytes, start: bytes, limit: int | None
    ) -> object:
        # A real server counts and dates this delivery too, but not that of a deleted entry.
        records: list[list[Any]] = group.group_read(consumer, start, limit, False)
        now = milliseconds()
        for record in records:
            entry_id = StreamEntryKey.parse_str(record[0])
            entry = group.pel[entry_id]
            if record[1] is None:
                group.pel[entry_id] = entry._replace(times_delivered=entry.times_delivered - 1)
            else:
                group.pel[entry_id] = entry._replace(time_read=now)
        return records

    # ── groups ──────────────────────────────────────────────────────────────

    def xgroup_create(self, key: Key, group_name: bytes, start_key: bytes, *args: bytes) -> object:
        try:
            return super().xgroup_create(key, group_name, start_key, *args)
        except SimpleError as error:
            if "BUSYGROUP" in error.value:
                refuse("BUSYGROUP Consumer Group name already exists")
            raise

    def xgroup_destroy(self, key: Key, group_name: bytes) -> object:
        result = super().xgroup_destroy(key, group_name)
        # Readers blocked on the group learn that it is gone.
        self._db.wake_all()
        return result

    # ── telling ─────────────────────────────────────────────────────────────

    def xinfo_stream(self, key: Key, *args: bytes) -> list[Any]:
        flat = super().xinfo_stream(key, *args)
        told = dict(zip(flat[::2], flat[1::2], strict=True))
        names = _STREAM_FACTS_FULL if args else _STREAM_FACTS
        return [part for name in names if name in told for part in (name, told[name])]

    def xinfo_groups(self, key: Key) -> list[dict[bytes, Any]]:
        return sorted(super().xinfo_groups(key), key=lambda group: group[b"name"])

    def xinfo_consumers(self, key: Key, group_name: bytes) -> list[dict[str, Any]]:
        rows = sorted(super().xinfo_consumers(key, group_name), key=lambda row: row["name"])
        group = existing_group(key, group_name)
        # Counted, where the model keeps a number that can be off. `inactive` is of Redis 7.2.
        held = Counter(entry.consumer_name for entry in group.pel.values())
        return [
            {"name": row["name"], "pending": held[row["name"]], "idle": row["idle"]} for row in rows
        ]


_STREAM_FACTS = (
    b"length",
    b"radix-tree-keys",
    b"radix-tree-nodes",
    b"last-generated-id",
    b"max-deleted-entry-id",
    b"entries-added",
    b"recorded-first-entry-id",
    b"groups",
    b"first-entry",
    b"last-entry",
)
_STREAM_FACTS_FULL = (*_STREAM_FACTS[:7], b"entries", b"groups")
