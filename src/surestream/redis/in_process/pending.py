"""Pending entries, where ``fakeredis`` differs from Redis 7.0."""

from __future__ import annotations

from typing import Any

from surestream.redis.in_process.model import (
    SYNTAX_ERROR,
    FakeSocket,
    Key,
    SimpleError,
    StreamEntryKey,
    StreamGroup,
    StreamRangeTest,
    existing_group,
    integer,
    milliseconds,
    pending_entry,
    refuse,
    text,
)

__all__ = ["PendingAnswers"]

# XAUTOCLAIM looks at no more than this many pending entries for each one it may claim.
_SCANNED_FOR_EACH = 10


class PendingAnswers(FakeSocket):
    """The commands of one client about pending entries, as Redis 7.0 answers them."""

    def xack(self, key: Key, group_name: bytes, *args: bytes) -> object:
        if not args:
            return super().xack(key, group_name)
        group = None if key.value is None else key.value.group_get(group_name)
        if group is None:
            return 0
        entry_ids = [StreamEntryKey.parse_str(arg) for arg in args]
        # An acknowledgement does not date the consumer.
        return sum(_forget(group, entry_id) for entry_id in entry_ids)

    def xpending(self, key: Key, group_name: bytes, *args: bytes) -> list[Any]:
        if not args:
            group = existing_group(key, group_name)
            summary = group.pending_summary()
            holders = sorted((name, b"%d" % count) for name, count in summary[3])
            summary[3] = [list(holder) for holder in holders] if summary[0] else None
            return summary
        idle = 0
        if args[0].upper() == b"IDLE":
            if len(args) < 5:
                refuse(SYNTAX_ERROR)
            idle = integer(args[1])
            args = args[2:]
        if not 3 <= len(args) <= 4:
            refuse(SYNTAX_ERROR)
        count = integer(args[2])
        # The whole range is read, then filtered: an entry idle for exactly this long is in it.
        everything = (args[0], args[1], b"%d" % (2**31), *args[3:])
        rows = super().xpending(key, group_name, *everything)
        return [row for row in rows if row[2] >= idle][: max(count, 0)]

    def xclaim(
        self, key: Key, group_name: bytes, consumer_name: bytes, min_idle_ms: int, *args: bytes
    ) -> object:
        group = existing_group(key, group_name)
        ids, options = _claim_options(args)
        now = milliseconds()
        claimed: list[StreamEntryKey] = []
        for entry_id in ids:
            entry = group.pel.get(entry_id)
            if entry_id not in group.stream:
                if entry is not None:
                    _forget(group, entry_id)  # as of 7.0
                continue
            if entry is None:
                if not options.get("force"):
                    continue
                delivered = 1
            elif now - entry.time_read < min_idle_ms:
                continue
            else:
                delivered = entry.times_delivered
            if options.get("retrycount", -1) >= 0:
                delivered = options["retrycount"]
            elif not options.get("justid"):
                delivered += 1
            _hand_over(group, entry_id, consumer_name, options.get("time", now), delivered)
            claimed.append(entry_id)
        last = options.get("lastid")
        if last is not None and last > group.last_delivered_key:
            group.last_delivered_key = last
        return _claimed(group, claimed, bool(options.get("justid")))

    def xautoclaim(
        self,
        key: Key,
        group_name: bytes,
        consumer_name: bytes,
        min_idle_ms: int,
        start: bytes,
        *args: bytes,
    ) -> object:
        rest = [arg.upper() for arg in args]
        count, just_id = 100, False
        while rest:
            option = rest.pop(0)
            if option == b"COUNT" and rest:
                count = integer(rest.pop(0))
                if count <= 0:
                    refuse("ERR COUNT must be > 0")
            elif option == b"JUSTID":
                just_id = True
            else:
                refuse(SYNTAX_ERROR)
        group = existing_group(key, group_name)
        first = StreamRangeTest.decode(start)
        now = milliseconds()
        waiting = sorted(
            entry_id
            for entry_id in group.pel
            if first.value < entry_id or (first.value == entry_id and not first.exclusive)
        )
        claimed: list[StreamEntryKey] = []
        deleted: list[bytes] = []
        looked_at = 0
        room = count
        for entry_id in waiting:
            if looked_at == count * _SCANNED_FOR_EACH or room == 0:
                break
            looked_at += 1
            entry = group.pel[entry_id]
            if entry_id not in group.stream:
                _forget(group, entry_id)
                deleted.append(entry_id.encode())
                room -= 1
            elif now - entry.time_read >= min_idle_ms:
                delivered = entry.times_delivered + (0 if just_id else 1)
                _hand_over(group, entry_id, consumer_name, now, delivered)
                claimed.append(entry_id)
                room -= 1
        cursor = waiting[looked_at].encode() if looked_at < len(waiting) else b"0-0"
        return [cursor, _claimed(group, claimed, just_id), deleted]


def _claim_options(args: tuple[bytes, ...]) -> tuple[list[StreamEntryKey], dict[str, Any]]:
    ids: list[StreamEntryKey] = []
    for arg in args:
        try:
            ids.append(StreamEntryKey.parse_str(arg))
        except SimpleError:
            break
    options: dict[str, Any] = {}
    now = milliseconds()
    rest = list(args[len(ids) :])
    while rest:
        name = rest.pop(0).upper()
        if name in (b"FORCE", b"JUSTID"):
            options[name.decode().lower()] = True
        elif name == b"IDLE" and rest:
            options["time"] = now - integer(
                rest.pop(0), "ERR Invalid IDLE option argument for XCLAIM"
            )
        elif name == b"TIME" and rest:
            options["time"] = integer(rest.pop(0), "ERR Invalid TIME option argument for XCLAIM")
        elif name == b"RETRYCOUNT" and rest:
            options["retrycount"] = integer(
                rest.pop(0), "ERR Invalid RETRYCOUNT option argument for XCLAIM"
            )
        elif name == b"LASTID" and rest:
            options["lastid"] = StreamEntryKey.parse_str(rest.pop(0))
        else:
            refuse(f"ERR Unrecognized XCLAIM option '{text(name)}'")
    if "time" in options:
        options["time"] = max(0, min(options["time"], now))
    return ids, options


def _claimed(group: StreamGroup, claimed: list[StreamEntryKey], just_id: bool) -> object:
    if just_id:
        return [entry_id.encode() for entry_id in claimed]
    return [group.stream.format_record(entry_id) for entry_id in claimed]


def _hand_over(
    group: StreamGroup, entry_id: StreamEntryKey, consumer: bytes, time: int, delivered: int
) -> None:
    group.add_consumer(consumer)
    _forget(group, entry_id)
    holder = group.consumers[consumer]
    holder.pending += 1
    holder.last_attempt = milliseconds()
    group.pel[entry_id] = pending_entry(consumer, time, delivered)


def _forget(group: StreamGroup, entry_id: StreamEntryKey) -> int:
    entry = group.pel.pop(entry_id, None)
    if entry is None:
        return 0
    holder = group.consumers.get(entry.consumer_name)
    if holder is not None:
        holder.pending -= 1
    return 1
