"""What the tests of the pytest plugin write into a project of their own."""

from __future__ import annotations

import pytest

__all__ = ["SERVICE", "run_project"]

SERVICE = """
from surestream import App, Outcome, ack, retry_after, subscriber
from surestream.redis import RedisBroker, RedisStream

seen = []

@subscriber(RedisStream("orders", group="orders"))
async def handle(order: int) -> Outcome:
    seen.append(order)
    return ack()

app = App("orders")
# Nobody is there: a test that reached it would fail.
redis = app.add(RedisBroker("redis://nobody:secret@127.0.0.1:1/3"))
redis.include(handle)
"""


def run_project(
    pytester: pytest.Pytester, test: str, *args: str, plugin: str = "asyncio"
) -> pytest.RunResult:
    """Run ``test`` (a module's text) over :data:`SERVICE` in a process of its own.

    The plugins are named, so that it does not matter what is installed.
    """
    pytester.makepyfile(service=SERVICE, test_it="from service import *\n" + test)
    pytester.makeini("[pytest]\naddopts =\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        # There pytest repeats the whole failure in its summary.
        patch.delenv("CI", raising=False)
        patch.delenv("BUILD_NUMBER", raising=False)
        runner = {
            "asyncio": "-ppytest_asyncio.plugin -oasyncio_default_fixture_loop_scope=function",
            "anyio": "-panyio.pytest_plugin",
        }[plugin].split()
        return pytester.runpytest_subprocess(
            *runner, "-p", "surestream.testing.plugin", "-W", "error", *args, timeout=50
        )
