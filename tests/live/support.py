"""What the crash sweep and the cases share: children, waiting, and a look at the server.

A child is a process of its own (:mod:`tests.live.nursery`); what it did is read from Redis,
where its handlers wrote it down over a plain connection that knows nothing of the package.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

__all__ = [
    "Child",
    "Look",
    "LookAt",
    "Nursery",
    "StartChild",
    "counts",
    "eventually",
    "lines",
    "lines_a_second",
    "plain",
    "until",
]

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 20.0
"""Seconds that a loaded machine gets for what takes a fraction of one."""
PROGRAMS: Final = ("surestream.cli.serving", "surestream.redis", "redis", "uvloop")


# ── waiting ─────────────────────────────────────────────────────────────────


def until(holds: Callable[[], object], within: float = PATIENCE, why: object = "") -> None:
    """Wait until it holds; an ``AssertionError`` where it does not in time."""
    limit = time.monotonic() + within
    while not holds():
        if time.monotonic() > limit:
            raise AssertionError(f"not within {within:g} s: {why() if callable(why) else why}")
        time.sleep(0.01)


async def eventually(
    holds: Callable[[], object], within: float = PATIENCE, why: object = ""
) -> None:
    """:func:`until` for a test whose loop has to go on."""
    limit = time.monotonic() + within
    while not holds():
        if time.monotonic() > limit:
            raise AssertionError(f"not within {within:g} s: {why() if callable(why) else why}")
        await asyncio.sleep(0.01)


# ── children ────────────────────────────────────────────────────────────────


class Child:
    """A process that runs one function."""

    def __init__(self, number: int, log: Path, changed: threading.Condition) -> None:
        self.number = number
        self._log = log
        self._changed = changed
        self._pid: int | None = None
        self.status: int | None = None
        """The exit status, negative for a signal; ``None`` while it runs."""
        self.ended_at = 0.0

    @property
    def pid(self) -> int:
        """Its process id, once it was started."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._pid is not None, PATIENCE), "not started"
            assert self._pid is not None
            return self._pid

    @property
    def log(self) -> str:
        """What it has printed and logged so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def hear(self, facts: dict[str, int]) -> None:
        """The nursery tells of it."""
        with self._changed:
            self._pid = facts.get("pid", self._pid)
            self.status = facts.get("status")
            if self.status is not None:
                self.ended_at = time.monotonic()
            self._changed.notify_all()

    def wait(self, within: float = PATIENCE) -> int:
        """Wait for its end; the exit status."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.status is not None, within):
                raise AssertionError(f"the child goes on after {within:g} s:\n{self.log[-4000:]}")
            assert self.status is not None
            return self.status

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def pause(self) -> None:
        """Freeze it: it holds what it holds, and does nothing."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo :meth:`pause`."""
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self.send(signal.SIGKILL)
        self.wait()

    def stop(self, within: float = PATIENCE) -> int:
        """Ask it to end, and wait; the exit status."""
        self.send(signal.SIGTERM)
        return self.wait(within)


class Nursery:
    """Starts children by forking a process that has imported ``modules`` already."""

    def __init__(self, folder: Path, *modules: str) -> None:
        self._folder = folder
        self._changed = threading.Condition()
        self._children: list[Child] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.live.nursery", *PROGRAMS, *modules],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, target: str, **arguments: object) -> Child:
        """Run ``target`` (``module:function``) in a child; what it returns is the exit status."""
        stdin = self._process.stdin
        assert stdin is not None
        with self._changed:
            number = len(self._children)
            log = self._folder / f"child-{number}"
            child = Child(number, log, self._changed)
            self._children.append(child)
            job = {"number": number, "target": target, "arguments": arguments, "log": str(log)}
            stdin.write(json.dumps(job).encode() + b"\n")
            stdin.flush()
        return child

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        for line in stdout:
            facts = json.loads(line)
            if "number" in facts:
                self._children[facts["number"]].hear(facts)

    def close(self) -> None:
        """End it and every child."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


class StartChild(Protocol):
    """Starts a child that is killed with the test."""

    def __call__(self, target: str, **arguments: object) -> Child: ...


def children_of(nursery: Nursery) -> Iterator[StartChild]:
    """For a fixture: what starts children, and kills those that are left."""
    started: list[Child] = []

    def start(target: str, **arguments: object) -> Child:
        child = nursery.start(target, **arguments)
        started.append(child)
        return child

    yield start
    for child in started:
        child.send(signal.SIGKILL)
    for child in started:
        child.wait()


# ── the server ──────────────────────────────────────────────────────────────


def plain(url: str) -> Redis:
    """A client that has nothing to do with the package, and never tries twice."""
    return Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=5.0)


LookAt = Callable[[str], "Look"]
"""Gives a look at the server of a URL."""


class Look:
    """A view of one database from outside."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.redis: Any = plain(url)

    def close(self) -> None:
        self.redis.close()

    def add(self, key: str, body: object, **headers: str) -> str:
        """Append a message: bytes as they are, anything else as JSON."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"_payload": payload} | {f"h:{name}": text for name, text in headers.items()}
        return self.redis.xadd(key, fields).decode()

    def entries(self, key: str) -> list[dict[bytes, bytes]]:
        """The fields of every entry, ids left out."""
        return [fields for _, fields in self.redis.xrange(key)]

    def payloads(self, key: str) -> list[bytes]:
        """The payload of every entry."""
        return [fields[b"_payload"] for fields in self.entries(key)]

    def length(self, key: str) -> int:
        """How many entries there are."""
        return int(self.redis.xlen(key))

    def pending(self, key: str, group: str) -> list[tuple[str, str, int]]:
        """Id, consumer and delivery count of what is pending."""
        return [
            (row["message_id"].decode(), row["consumer"].decode(), row["times_delivered"])
            for row in self.redis.xpending_range(key, group, "-", "+", 10_000)
        ]

    def unread(self, key: str) -> int:
        """How many entries some group of the stream was not given yet."""
        last = _id(self.redis.xinfo_stream(key)["last-generated-id"])
        behind = 0
        for group in self.redis.xinfo_groups(key):
            seen = group["last-delivered-id"].decode()
            if _id(seen) < last:
                behind += len(self.redis.xrange(key, min=f"({seen}"))
        return behind

    def parked(self, key: str) -> int:
        """How many delays wait."""
        return int(self.redis.zcard(key))

    def at_rest(self, stream: str, groups: Iterable[str], delay_set: str) -> bool:
        """Whether nothing is unread, pending or parked.

        Several looks see a message on its way from one place to the next in none of them, unless
        they follow it: unread, pending, parked, and around again.
        """
        groups = tuple(groups)
        around = (
            lambda: self.unread(stream) == 0,
            lambda: not any(self.pending(stream, group) for group in groups),
        )
        return (
            all(look() for look in around)
            and self.parked(delay_set) == 0
            and all(look() for look in around)
        )

    def journal(self, key: str = "journal") -> list[dict[str, Any]]:
        """What children noted, in order."""
        return [json.loads(line) for line in self.redis.lrange(key, 0, -1)]

    def commands(self) -> int:
        """How many commands the server has processed."""
        return int(self.redis.info("stats")["total_commands_processed"])


def _id(entry: str | bytes) -> tuple[int, int]:
    text = entry.decode() if isinstance(entry, bytes) else entry
    milliseconds, _, sequence = text.partition("-")
    return int(milliseconds), int(sequence)


def counts(table: dict[bytes, bytes]) -> dict[str, int]:
    """A hash of counters as text and numbers."""
    return {name.decode(): int(number) for name, number in table.items()}


# ── logs ────────────────────────────────────────────────────────────────────


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """What the package logged at ``level`` or above."""
    return [record.getMessage() for record in _of_package(caplog.records, level)]


def lines_a_second(
    caplog: pytest.LogCaptureFixture, text: str = "", level: int = logging.WARNING
) -> float:
    """How fast lines with ``text`` in them came, from the first of them to the last."""
    times = [
        record.created
        for record in _of_package(caplog.records, level)
        if text in record.getMessage()
    ]
    # The first second may have what a second may have.
    return len(times) / (max(times) - min(times) + 1.0) if times else 0.0


def _of_package(records: Sequence[logging.LogRecord], level: int) -> list[logging.LogRecord]:
    return [one for one in records if one.name.startswith("surestream") and one.levelno >= level]
