"""The refunds service as it runs in production: a process of its own, and a real Redis."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.servers import RedisServer

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 30.0
DOWN = b'{"id":1,"card":"down","amount_cents":500}'
BUSY = b'{"id":2,"card":"busy","amount_cents":500}'
FINE = b'{"id":3,"card":"4000 1234","amount_cents":500}'
COUNT = b"h:x-ruststream-retry-count"


class Service:
    """``surestream run`` in a child process, which a test may kill and start again."""

    def __init__(self, target: str, redis_url: str, log: Path) -> None:
        self._target = target
        self._environment = os.environ | {"REDIS_URL": redis_url, "BACKOFF": "1"}
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "surestream", "run", self._target),
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=log,
            )

    async def end(self, how: signal.Signals) -> int:
        """Send it a signal, and return its exit status."""
        process = self._process
        assert process is not None
        if process.returncode is None:
            process.send_signal(how)
        return await asyncio.wait_for(process.wait(), LIMIT)

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.returncode is None

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text()


@pytest.fixture
async def redis(own_redis: RedisServer) -> AsyncGenerator[Redis]:
    """A client of the server that the service works with."""
    client: Redis = Redis.from_url(own_redis.url)
    async with client:
        yield client


@asynccontextmanager
async def running(target: str, redis_url: str, log: Path) -> AsyncGenerator[Service]:
    service = Service(target, redis_url, log)
    await service.start()
    try:
        yield service
    finally:
        await service.end(signal.SIGKILL)


@pytest.fixture(params=["service", "manual"])
async def service(
    request: pytest.FixtureRequest, own_redis: RedisServer, tmp_path: Path
) -> AsyncGenerator[Service]:
    """The running service, in one of its two forms."""
    target = f"examples.refunds.{request.param}:app"
    async with running(target, own_redis.url, tmp_path / "log") as process:
        yield process


async def test_an_entry_written_by_hand_ends_in_the_dead_letters(
    service: Service, redis: Redis
) -> None:
    await redis.execute_command("XADD", "refunds", "*", "_payload", DOWN)

    (dead,) = await until(lambda: entries(redis, "refunds.dlq"), service)
    assert dead[b"_payload"] == DOWN
    assert dead[COUNT] == b"5"
    await until(lambda: nothing_left(redis), service)
    assert "refund 1 needs a person to look at it, tried 5 times" in service.log


async def test_an_urgent_entry_keeps_its_id_until_it_is_dead(
    service: Service, redis: Redis
) -> None:
    entry = await redis.execute_command("XADD", "refunds.priority", "*", "_payload", DOWN)

    (dead,) = await until(lambda: entries(redis, "refunds.dlq"), service)
    assert dead[b"_payload"] == DOWN
    assert dead[COUNT] == b"5"
    for attempt in range(1, 6):
        assert f"refunds.priority/refunds {entry.decode()} attempt {attempt}/5" in service.log
    assert len(await entries(redis, "refunds.priority")) == 1


async def test_a_delay_survives_a_kill(service: Service, redis: Redis) -> None:
    # given a refund that waits in Redis, its first try spent
    await redis.execute_command("XADD", "refunds", "*", "_payload", BUSY)
    await until(lambda: redis.zcard("refunds.delayed"), service)

    # when the process is killed, and another takes its place
    assert await service.end(signal.SIGKILL) == -signal.SIGKILL
    await service.start()

    # then it goes on where it was: five deliveries in all, one dead letter
    (dead,) = await until(lambda: entries(redis, "refunds.dlq"), service)
    assert dead[b"_payload"] == BUSY
    assert dead[COUNT] == b"5"
    await until(lambda: nothing_left(redis), service)
    assert len(await entries(redis, "refunds.dlq")) == 1


async def test_what_came_while_it_was_down_is_handled_at_the_next_start(
    service: Service, redis: Redis
) -> None:
    await until(lambda: redis.exists("refunds"), service)
    assert await service.end(signal.SIGTERM) == 0
    for _ in range(100):
        await redis.execute_command("XADD", "refunds", "*", "_payload", FINE)
    await redis.execute_command("XADD", "refunds", "*", "_payload", DOWN)

    await service.start()

    await until(lambda: entries(redis, "refunds.dlq"), service)
    await until(lambda: nothing_left(redis), service)


async def entries(redis: Redis, key: str) -> list[dict[bytes, bytes]]:
    """The fields of every entry of a stream."""
    reply: Any = await redis.xrange(key)
    return [fields for _, fields in reply]


async def nothing_left(redis: Redis) -> bool:
    """Whether everything is read and settled, in both groups, and nothing waits."""
    if await redis.zcard("refunds.delayed"):
        return False
    for key in ("refunds", "refunds.dlq"):
        newest = (await redis.xinfo_stream(key))["last-generated-id"]
        for group in await redis.xinfo_groups(key):
            if group["pending"] or group["last-delivered-id"] != newest:
                return False
    return True


async def until(ask: Callable[[], Awaitable[Any]], service: Service) -> Any:
    """Ask until there is something to answer; the service's own words where there never is."""
    loop = asyncio.get_running_loop()
    limit = loop.time() + LIMIT
    while service.running and loop.time() < limit:
        if answer := await ask():
            return answer
        await asyncio.sleep(0.02)
    what = f"still waiting after {LIMIT} s" if service.running else "the service has ended"
    pytest.fail(f"{what}; it says:\n{service.log}")
