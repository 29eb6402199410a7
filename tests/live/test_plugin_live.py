"""The pytest plugin's ``--surestream-live``: the same tests on servers that it starts."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.plugin_projects import run_project
from tests.servers import RedisServer


def test_the_tests_run_on_servers_started_for_them_that_end_with_the_run(
    pytester: pytest.Pytester, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_SERVER", str(redis_server.binary.path))
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))
    test = """
import pytest
from redis.asyncio import Redis

@pytest.mark.parametrize("number", [1, 2])
async def test_handled_on_an_empty_server(surestream, number, request):
    async with surestream(app) as tb, surestream(app) as other:
        assert not tb.run.context.servers  # nothing in process
        first, second = (one.run.context.addresses[redis] for one in (tb, other))
        assert first != second
        async with Redis.from_url(first + "/3") as client:
            info = await client.info("server")
            with open("pids", "a") as file:
                print(info["process_id"], file=file)
            await tb.publish("orders", number)
            assert await client.xlen("orders") == 1
        other.assert_called(handle, times=0)
    tb.assert_called(handle)
"""
    result = run_project(pytester, test, "--asyncio-mode=auto", "--surestream-live")

    result.assert_outcomes(passed=2)
    pids = {int(pid) for pid in Path("pids").read_text().split()}
    assert redis_server.pid not in pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not list(Path("temporary").iterdir())


def test_a_run_that_is_killed_leaves_no_server(
    pytester: pytest.Pytester, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_SERVER", str(redis_server.binary.path))
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))
    test = """
import os, signal
from redis.asyncio import Redis

async def test_killed(surestream):
    async with surestream(app) as tb:
        async with Redis.from_url(tb.run.context.addresses[redis]) as client:
            await client.ping()
        os.kill(os.getpid(), signal.SIGKILL)
"""
    result = run_project(pytester, test, "--asyncio-mode=auto", "--surestream-live")

    assert result.ret == -signal.SIGKILL
    while any(Path("temporary").iterdir()):  # removed once the server has been ended
        time.sleep(0.05)
