"""The in-process Redis answers like the real one (rule 8.2).

It answers like Redis 7.0. Against another version only what all versions agree on is compared:
newer ones tell more about consumers and word some errors differently, 6.2 leaves deleted entries
pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surestream.errors import SureStreamError
from surestream.redis.address import RedisAddress
from surestream.redis.driver import ConnectionFactory, connection_factory, pack
from surestream.redis.in_process import InProcessRedis
from surestream.redis.link import Link
from tests.live.parity_commands import SCENARIOS, Command, wild_commands
from tests.servers import RedisServer

pytestmark = pytest.mark.rule("8.2")

TOLD_BY_ALL = (b"length", b"last-generated-id", b"groups", b"first-entry", b"last-entry")
WITH_THE_SAME_WORDS = ("WRONGTYPE", "NOGROUP", "BUSYGROUP", "UNBLOCKED")
# Scenarios in which an entry is deleted while it is pending, or an id is completed.
NOT_BEFORE_7 = ("adding", "pending", "claiming", "claiming a range", "sorted sets", "scripts")


class Yardstick:
    """What is compared with a server of this version."""

    def __init__(self, server: RedisServer) -> None:
        self.version = server.binary.version
        self.exact = self.version[:2] == (7, 0)
        self.deletes_from_pending = self.version >= (7, 0)

    def of(self, command: Command, reply: Any) -> Any:
        """The reply without what passes with time, or differs between versions."""
        if isinstance(reply, SureStreamError):
            return self._of_error(reply)
        match command:
            case ("XPENDING", _, _, _, *_):
                return [[row[0], row[1], row[2] // 10_000, row[3]] for row in reply]
            case ("XAUTOCLAIM", *_) if not self.deletes_from_pending:
                return reply[:2]
            case ("XINFO", "STREAM", *_):
                told = dict(zip(reply[::2], reply[1::2], strict=True))
                if not self.exact:
                    return {name: told[name] for name in TOLD_BY_ALL}
                del told[b"radix-tree-keys"], told[b"radix-tree-nodes"]
                return told
            case ("XINFO", "GROUPS", *_):
                # How many entries were read is a guess once some were deleted.
                return [row[:8] if self.exact else [*row[:2], *row[4:8]] for row in reply]
            case ("XINFO", "CONSUMERS", *_) if self.exact:
                return [[*row[:5], row[5] // 10_000, *row[6:]] for row in reply]
            case ("XINFO", "CONSUMERS", *_):
                return [row[:4] for row in reply if row[3]]
            case _:
                return reply

    def _of_error(self, error: SureStreamError) -> Any:
        code = getattr(error, "code", None)
        words = str(error).partition(" script: ")[0]
        told = words if self.exact and code in WITH_THE_SAME_WORDS else None
        return (type(error).__name__, code, told)


@pytest.fixture
def yardstick(redis_server: RedisServer) -> Yardstick:
    return Yardstick(redis_server)


@pytest.fixture
def real(redis_url: str) -> ConnectionFactory:
    return connection_factory(RedisAddress.parse(redis_url))


@asynccontextmanager
async def linked(connect: ConnectionFactory) -> AsyncIterator[Link]:
    link = Link(connect, name="surestream-test")
    await link.open()
    try:
        yield link
    finally:
        await link.close()


async def outcome(future: asyncio.Future[Any], limit: float = 5) -> Any:
    try:
        return await asyncio.wait_for(future, limit)
    except SureStreamError as error:
        return error


async def compare(commands: list[Command], real: ConnectionFactory, yardstick: Yardstick) -> None:
    async with linked(real) as server, linked(InProcessRedis().connection_factory()) as model:
        for number, command in enumerate(commands):
            arguments = [
                word.encode("latin-1") if isinstance(word, str) else word for word in command
            ]

            expected = yardstick.of(command, await outcome(server.call(*arguments)))
            answered = yardstick.of(command, await outcome(model.call(*arguments)))

            assert answered == expected, f"command {number}: {command}"


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_same_commands_get_the_same_answers(
    name: str, real: ConnectionFactory, yardstick: Yardstick
) -> None:
    if name in NOT_BEFORE_7 and not yardstick.deletes_from_pending:
        return

    await compare(SCENARIOS[name], real, yardstick)


@pytest.mark.parametrize("seed", range(8))
async def test_commands_at_random_get_the_same_answers(
    seed: int, real: ConnectionFactory, yardstick: Yardstick
) -> None:
    if not yardstick.deletes_from_pending:
        return

    await compare(list(wild_commands(seed, 400)), real, yardstick)


# ── blocking reads ──────────────────────────────────────────────────────────


class Stage:
    """One server with a writer and two readers, and the answers they got."""

    def __init__(self, writer: Link, first: Link, second: Link) -> None:
        self.writer = writer
        self.first = first
        self.second = second
        self.answers: list[Any] = []

    async def do(self, *command: str | int) -> None:
        """Have the writer do something."""
        await self.writer.call(*command)

    async def begin(self, link: Link, *streams: str, block: int = 3000) -> asyncio.Future[Any]:
        """Begin to read, as a consumer of the link's own name, and wait until it blocks."""
        reading = link.call(
            *("XREADGROUP", "GROUP", "g", f"c{link.client_id}", "COUNT", 10, "BLOCK", block),
            *("STREAMS", *streams, *(">" for _ in streams)),
        )
        await asyncio.sleep(0.03)
        assert not reading.done()
        return reading

    async def note(self, *futures: asyncio.Future[Any]) -> None:
        """Keep what came."""
        for future in futures:
            self.answers.append(await outcome(future))


async def serve_in_turn(stage: Stage) -> None:
    for number in range(4):
        waiting = [await stage.begin(link, "s") for link in (stage.first, stage.second)]
        stage.first, stage.second = stage.second, stage.first
        await stage.do("XADD", "s", f"{number + 1}-1", "a", 1)
        await stage.do("XADD", "s", f"{number + 1}-2", "a", 1)
        await stage.note(*waiting)


async def serve_at_the_first_entry(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s")
    packed = b"".join(pack("XADD", "s", f"{number}-1", "a", 1) for number in (1, 2, 3))
    await stage.writer.call_packed(packed, 3)
    await stage.note(reading)


async def serve_after_a_script(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s")
    await stage.do(
        "EVAL", "redis.call('XADD','s','1-1','a',1) redis.call('XADD','s','2-1','a',1)", 0
    )
    await stage.note(reading)


async def serve_one_of_two_streams(stage: Stage) -> None:
    await stage.do("XGROUP", "CREATE", "t", "g", "0", "MKSTREAM")
    reading = await stage.begin(stage.first, "s", "t")
    await stage.do("XADD", "t", "1-1", "a", 1)
    await stage.note(reading)


async def answer_later_commands_later(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s")
    behind = stage.first.call("ECHO", "later")
    await asyncio.sleep(0.03)
    stage.answers.append(behind.done())
    await stage.do("XADD", "s", "1-1", "a", 1)
    await stage.note(reading, behind)


async def unblock(stage: Stage) -> None:
    client = stage.first.client_id
    assert client is not None
    for how in ((), ("TIMEOUT",), ("ERROR",)):
        reading = await stage.begin(stage.first, "s")
        await stage.note(stage.writer.call("CLIENT", "UNBLOCK", client, *how), reading)
    await stage.note(stage.writer.call("CLIENT", "UNBLOCK", client))
    await stage.note(stage.writer.call("CLIENT", "UNBLOCK", 999_999))


async def run_out_of_time(stage: Stage) -> None:
    await stage.note(await stage.begin(stage.first, "s", block=50))


async def leave_while_blocked(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s", block=0)
    await stage.first.close()
    await asyncio.sleep(0.05)
    await stage.do("XADD", "s", "1-1", "a", 1)
    await stage.note(stage.writer.call("XPENDING", "s", "g"))
    assert isinstance(await outcome(reading), SureStreamError)


async def destroy_another_group(stage: Stage) -> None:
    await stage.do("XGROUP", "CREATE", "s", "other", "0")
    reading = await stage.begin(stage.first, "s")
    await stage.do("XGROUP", "DESTROY", "s", "other")
    await stage.do("XADD", "s", "1-1", "a", 1)
    await stage.note(reading)


async def destroy_and_create_at_once(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s")
    await stage.do(
        "EVAL",
        "redis.call('XGROUP','DESTROY','s','g') redis.call('XGROUP','CREATE','s','g','0')",
        0,
    )
    await stage.do("XADD", "s", "1-1", "a", 1)
    await stage.note(reading)


async def delete_and_add_at_once(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s")
    await stage.do("EVAL", "redis.call('DEL','s') redis.call('XADD','s','1-1','a',1)", 0)
    await stage.note(reading)


async def destroy_the_group(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s")
    await stage.do("XGROUP", "DESTROY", "s", "g")
    await stage.note(reading)


async def delete_the_stream(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s")
    await stage.do("DEL", "s")
    await stage.note(reading)


async def forget_everything(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s")
    await stage.do("FLUSHALL")
    await stage.note(reading)


async def put_another_type_there(stage: Stage) -> None:
    reading = await stage.begin(stage.first, "s")
    await stage.do("SET", "s", "x")
    await stage.note(reading)


# How a reader learns of it is worded differently by each version; that it does is not.
ENDINGS = (
    destroy_the_group,
    delete_the_stream,
    forget_everything,
    put_another_type_there,
    delete_and_add_at_once,
)


async def play(scene: Any, connect: ConnectionFactory, yardstick: Yardstick) -> list[Any]:
    async with linked(connect) as writer, linked(connect) as first, linked(connect) as second:
        await writer.call("FLUSHALL")
        await writer.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        stage = Stage(writer, first, second)
        await asyncio.wait_for(scene(stage), 20)
    if not yardstick.exact and scene in ENDINGS:
        return [
            "ended" if answer is None or isinstance(answer, SureStreamError) else answer
            for answer in stage.answers
        ]
    return [yardstick.of(("X",), answer) for answer in stage.answers]


@pytest.mark.parametrize(
    "scene",
    [
        serve_in_turn,
        serve_at_the_first_entry,
        serve_after_a_script,
        serve_one_of_two_streams,
        answer_later_commands_later,
        unblock,
        run_out_of_time,
        leave_while_blocked,
        destroy_another_group,
        destroy_and_create_at_once,
        *ENDINGS,
    ],
    ids=lambda scene: scene.__name__,
)
async def test_blocked_readers_see_the_same(
    scene: Any, real: ConnectionFactory, yardstick: Yardstick
) -> None:
    expected = await play(scene, real, yardstick)

    assert await play(scene, InProcessRedis().connection_factory(), yardstick) == expected
