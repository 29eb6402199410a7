"""What an idle service asks for is answered quickly, and as the model answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from surestream.redis.driver import Argument, pack
from surestream.redis.in_process import InProcessRedis
from surestream.redis.in_process.client import InProcessClient
from surestream.redis.scripted import PROMOTE
from surestream.testing import PausedClock, paused_clock

Command = Sequence[Argument]

GROUP: Command = ("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
ENTRY: Command = ("XADD", "s", "*", "_payload", "x")
TAKEN: Command = ("XREADGROUP", "GROUP", "g", "other", "COUNT", 9, "STREAMS", "s", ">")
READ: Command = ("XREADGROUP", "GROUP", "g", "me", "COUNT", 9, "BLOCK", 5000, "STREAMS", "s", ">")
ORPHANS: Command = ("XPENDING", "s", "g", "IDLE", 60_000, "0-0", "+", 100)
PROMOTION: Command = (3, "d", "s", "d.unreadable", 128, 0, "")
LOADED: Command = ("EVAL", PROMOTE.source, *PROMOTION)
PROMOTED: Command = ("EVALSHA", PROMOTE.digest, *PROMOTION)
FUTURE: Command = ("ZADD", "d", 1_735_689_600_000 + 86_400_000.5, "member")
DUE: Command = ("ZADD", "d", 1_735_689_600_000, "no member")
FAR: Command = ("ZADD", "d", 1e17, "member")
EXPIRED: Command = ("PEXPIRE", "s", 1)

STATES: dict[str, tuple[list[Command], Command]] = {
    "no stream to read": ([], READ),
    "no group to read": ([ENTRY], READ),
    "no stream but a text to read": ([("SET", "s", "text")], READ),
    "nothing to read": ([GROUP], READ),
    "something to read": ([GROUP, ENTRY], READ),
    "nothing more to read": ([GROUP, ENTRY, TAKEN], READ),
    "a stream that expired": ([GROUP, EXPIRED], READ),
    "a read of an odd number": ([GROUP], (*READ[:5], "many", *READ[6:])),
    "a read for an odd time": ([GROUP], (*READ[:7], "-1", *READ[8:])),
    "a read in a transaction": ([GROUP, ("MULTI",)], READ),
    "no stream to look for orphans": ([], ORPHANS),
    "no group to look for orphans": ([ENTRY], ORPHANS),
    "nothing pending": ([GROUP, ENTRY], ORPHANS),
    "something pending": ([GROUP, ENTRY, TAKEN], ORPHANS),
    "an odd idle time": ([GROUP], (*ORPHANS[:4], "long", *ORPHANS[5:])),
    "no delays": ([LOADED], PROMOTED),
    "a delay that is not due": ([LOADED, FUTURE], PROMOTED),
    "a delay for ever": ([LOADED, FAR], PROMOTED),
    "a delay that is due": ([LOADED, DUE, FUTURE], PROMOTED),
    "no delay set but a text": ([LOADED, ("SET", "d", "text")], PROMOTED),
    "a script that was forgotten": ([LOADED, ("SCRIPT", "FLUSH")], PROMOTED),
    "a promotion of none": ([LOADED, FUTURE], (*PROMOTED[:-2], 0, 0)),
    "a promotion past some": ([LOADED, FUTURE], (*PROMOTED[:-2], 128, 1)),
}
QUICK = {
    "nothing to read",
    "nothing more to read",
    "nothing pending",
    "no delays",
    "a delay that is not due",
    "a delay for ever",
}


@pytest.mark.rule("8.2")
@pytest.mark.parametrize("state", STATES)
async def test_the_answer_is_that_of_the_model(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quickly: list[bool] = []
    answer = InProcessClient.answer_quickly

    def noted(self: InProcessClient, command: list[bytes]) -> bool:
        quickly.append(answer(self, command))
        return quickly[-1]

    monkeypatch.setattr(InProcessClient, "answer_quickly", noted)
    with paused_clock() as clock:
        quick = await answers(clock, *STATES[state])
    monkeypatch.setattr(InProcessClient, "answer_quickly", lambda *_: False)
    with paused_clock() as clock:
        model = await answers(clock, *STATES[state])

    assert quick == model
    assert any(quickly) is (state in QUICK)


async def answers(clock: PausedClock, before: Sequence[Command], asked: Command) -> list[str]:
    """What a client is told, at once and when something comes, and what is in the server after."""
    server = InProcessRedis()
    client, other = server.connection_factory()(), server.connection_factory()()
    await client.connect()
    await other.connect()
    told: list[str] = []

    async def listen() -> None:
        while True:
            try:
                told.append(repr(await client.read_response(disable_decoding=True)))
            except Exception as error:
                told.append(repr(error))

    listening = asyncio.create_task(listen())
    for command in before:
        await client.send_packed_command((pack(*command),))
    await clock.advance(0.01)
    await client.send_packed_command((pack(*asked),))
    await clock.settle()
    told.append("then")
    await other.send_packed_command((pack(*ENTRY),))
    await clock.settle()
    await client.send_packed_command((pack("PING"),))
    for look in (("XINFO", "GROUPS", "s"), ("ZCARD", "d"), ("XLEN", "s")):
        await other.send_packed_command((pack(*look),))
        try:
            told.append(repr(await other.read_response(disable_decoding=True)))
        except Exception as error:
            told.append(repr(error))
    await clock.advance(6)
    listening.cancel()
    await asyncio.wait([listening])
    return told
