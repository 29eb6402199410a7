"""The process of the crash sweep: a small service that may end itself at a call to Redis.

It runs until everything is settled, by what Redis says, or is stopped when ``until_run`` messages
have been run; it ends itself with :data:`KILLED` where its kill point says so, and with
:data:`STUCK` where something is left over.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Literal

import msgspec

import surestream.redis.broker as broker_module
from surestream import (
    App,
    Attempt,
    Outcome,
    Redelivery,
    Subscriber,
    ack,
    drop,
    retry,
    retry_after,
)
from surestream.cli import serving
from surestream.declaration import UNSET
from surestream.redis import DurableZset, EntryId, RedisBroker, RedisStream, scripted
from surestream.redis.address import RedisAddress
from surestream.redis.driver import Connection, ConnectionFactory, pack, unpack
from surestream.redis.script import Script
from tests.live.support import Look, plain

__all__ = ["CAP", "DELAY_SET", "KILLED", "LEASE", "STREAM", "STUCK", "Task", "serve"]

KILLED: Final = 77
CRASHED: Final = 78
STUCK: Final = 9
LEASE: Final = 0.5
BLOCK: Final = 0.2
CAP: Final = 4
STREAM: Final = "tasks"
DELAY_SET: Final = "tasks.delayed"
DEAD: Final = "tasks.dlq"
QUARANTINE: Final = "tasks.undecodable"
PATIENCE: Final = 25.0

Side = Literal["before", "after"]


class Task(msgspec.Struct):
    """What the handler is to do with a message."""

    id: int
    do: Literal["ack", "retry", "after", "dead", "drop", "crash"] = "ack"
    times: int = 1
    delay: float = 0.0
    takes: float = 0.0


# ── the kill point ──────────────────────────────────────────────────────────


class KillPoint:
    """Ends the process before the ``number``-th command is written, or after its reply has been
    read and before anything is done about it. ``number=0``: never.

    Commands count over all connections, in the order in which they are written, from
    :meth:`arm` on. What names a connection and asks for a sign of life is left out.
    """

    def __init__(self, side: Side, number: int) -> None:
        self.side = side
        self.number = number
        self.armed = False
        self.seen: list[str] = []

    def arm(self) -> None:
        """Count from here on."""
        self.armed = True

    def counted(self, command: list[bytes]) -> int:
        """The number of a command, 0 for one that does not count."""
        if not self.armed or command[0] in (b"CLIENT", b"PING"):
            return 0
        self.seen.append(_name(command))
        return len(self.seen)

    def strikes(self, side: Side, number: int) -> bool:
        """Whether this is the point."""
        return number > 0 and self.side == side and self.number == number

    def die(self) -> None:
        """The end."""
        # What was written before has arrived by now.
        time.sleep(0.02)
        print(f"killed {self.side} call {self.number}: {self.seen[self.number - 1]}", flush=True)
        os._exit(KILLED)


class KillableConnection:
    """A connection of the driver that watches for the kill point."""

    def __init__(self, inner: Connection, point: KillPoint) -> None:
        self._inner = inner
        self._point = point
        self._asked: deque[int] = deque()

    async def connect(self) -> None:
        await self._inner.connect()

    async def send_packed_command(
        self, command: Iterable[bytes], check_health: bool = True
    ) -> None:
        packed = b"".join(command)
        written: list[bytes] = []
        for arguments in unpack(packed):
            number = self._point.counted(arguments)
            if self._point.strikes("before", number):
                # What one write holds need not arrive as a whole.
                await self._inner.send_packed_command((b"".join(written),), False)
                self._point.die()
            self._asked.append(number)
            written.append(pack(*arguments))
        await self._inner.send_packed_command((packed,), check_health)

    async def read_response(
        self,
        disable_decoding: bool = False,
        timeout: float | None = None,
        *,
        disconnect_on_error: bool = True,
    ) -> object:
        try:
            return await self._inner.read_response(
                disable_decoding, timeout, disconnect_on_error=disconnect_on_error
            )
        finally:
            if self._asked and self._point.strikes("after", self._asked.popleft()):
                self._point.die()

    async def disconnect(self, nowait: bool = False) -> None:
        await self._inner.disconnect(nowait)


def with_kill_point(point: KillPoint) -> None:
    """Every connection made in this process from now on knows of ``point``."""
    make_factory = broker_module.connection_factory

    def killable(address: RedisAddress) -> ConnectionFactory:
        make = make_factory(address)
        return lambda: KillableConnection(make(), point)

    broker_module.connection_factory = killable


def _name(command: list[bytes]) -> str:
    name = command[0].decode()
    if name in ("EVAL", "EVALSHA"):
        return _SCRIPTS.get(command[1], name)
    return " ".join(word.decode(errors="replace") for word in command[:2])


_SCRIPTS: Final = {
    text: label
    for label, script in vars(scripted).items()
    if isinstance(script, Script)
    for text in (script.digest, script.source)
}


# ── the service ─────────────────────────────────────────────────────────────


def service(
    url: str,
    note: Any,
    *,
    timer: bool,
    groups: Iterable[str],
    workers: int,
    terms: Redelivery,
    instead: dict[str, Any],
) -> App:
    """One handler for each group. It writes down every run before it decides."""
    app = App("sweep", shutdown_timeout=10)
    broker = app.add(RedisBroker(url))

    def handler(group: str) -> Callable[..., Any]:
        async def work(task: Task, attempt: Attempt, entry: Annotated[str, EntryId]) -> Outcome:
            run = {"id": task.id, "attempt": attempt.number, "entry": entry, "at": time.time()}
            note.rpush(f"runs:{group}", json.dumps(run))
            task = msgspec.structs.replace(task, **instead)
            if task.takes:
                await asyncio.sleep(task.takes)
            note.rpush("ended", os.getpid())
            # Only the first group is in trouble.
            match "ack" if group != "g" else task.do:
                case "crash" if note.hincrby("crashes", str(task.id), 1) <= task.times:
                    os._exit(CRASHED)
                case "retry" if attempt.number <= task.times:
                    return retry()
                case "after" if attempt.number <= task.times:
                    return retry_after(task.delay)
                case "dead":
                    return retry()
                case "drop":
                    note.hincrby(f"done:{group}", str(task.id), 1)
                    return drop()
                case _:
                    note.hincrby(f"done:{group}", str(task.id), 1)
            return ack()

        return work

    for group in groups:
        source = RedisStream(
            STREAM,
            group=group,
            block=BLOCK,
            recover_after=LEASE,
            delayed_retry=None if timer else DurableZset(DELAY_SET, ttl=60),
        )
        broker.include(
            Subscriber(source, handler(group)),
            terms,
            quarantine=QUARANTINE if group == "g" else None,
            workers=workers,
        )
    return app


def serve(
    url: str,
    *,
    side: Side = "before",
    number: int = 0,
    armed: Literal["at first", "running", "stopping"] = "running",
    timer: bool = False,
    groups: Iterable[str] = ("g",),
    workers: int = 1,
    cap: int = CAP,
    dead: bool = True,
    until_run: int = 0,
    forever: bool = False,
    instead: dict[str, Any] | None = None,
) -> int:
    """Run the service; the exit status. ``forever``: until a signal asks for the stop.
    ``instead`` are fields of every task that this process takes otherwise than they say."""
    point = KillPoint(side, number)
    with_kill_point(point)
    if armed == "at first":
        point.arm()
    note = plain(url)
    look = Look(url)
    groups = tuple(groups)
    terms = Redelivery(max_attempts=cap, dead_letter=DEAD if dead else UNSET)
    app = service(
        url, note, timer=timer, groups=groups, workers=workers, terms=terms, instead=instead or {}
    )
    if forever:
        return serving.serve(app)

    def enough() -> bool:
        if until_run:
            runs = [json.loads(line)["id"] for line in note.lrange("runs:g", 0, -1)]
            return len(set(runs)) >= until_run
        return settled(look, groups)

    async def run() -> int:
        limit = time.monotonic() + PATIENCE
        async with app.running():
            if armed == "running":
                point.arm()
            while not enough():
                if time.monotonic() > limit:
                    print("not settled:", leftovers(look, groups), flush=True)
                    return STUCK
                await asyncio.sleep(0.02)
            point.arm()
        print(f"{len(point.seen)} calls:", ", ".join(point.seen), flush=True)
        return 0

    return asyncio.run(run())


def settled(look: Look, groups: Iterable[str]) -> bool:
    """Whether nothing waits anywhere, by what the server says."""
    return not any(leftovers(look, groups).values())


def leftovers(look: Look, groups: Iterable[str]) -> dict[str, Any]:
    """What waits, and where."""
    return {
        "parked": look.parked(DELAY_SET),
        "unread": look.unread(STREAM),
        "pending": [look.pending(STREAM, group) for group in groups if look.pending(STREAM, group)],
    }
