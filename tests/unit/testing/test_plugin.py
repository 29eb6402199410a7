"""The pytest plugin in projects of their own, in process (section 8)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from surestream.testing.plugin import SECTION
from surestream.testing.timeline import TITLE
from tests.plugin_projects import run_project

PAID = """
async def test_handled(surestream):
    async with surestream(app) as tb:
        await tb.publish("orders", 7)
        await tb.advance(3600)
    tb.assert_called(handle)
    assert seen == [7]
"""


def test_with_pytest_asyncio_in_auto_mode(pytester: pytest.Pytester) -> None:
    run_project(pytester, PAID, "--asyncio-mode=auto").assert_outcomes(passed=1)


def test_with_pytest_asyncio_in_strict_mode(pytester: pytest.Pytester) -> None:
    test = "import pytest\npytestmark = pytest.mark.asyncio\n" + PAID
    run_project(pytester, test, "--asyncio-mode=strict").assert_outcomes(passed=1)


def test_with_anyio(pytester: pytest.Pytester) -> None:
    test = """
import pytest
pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
    run_project(pytester, test + PAID, plugin="anyio").assert_outcomes(passed=1)


def test_in_a_fixture_that_the_test_fails_under(pytester: pytest.Pytester) -> None:
    test = """
import pytest

@pytest.fixture
async def tb(surestream):
    async with surestream(app) as tb:
        yield tb

async def test_it(tb):
    await tb.publish("orders", 7)
    raise ValueError("wrong")
"""
    result = run_project(pytester, test, "--asyncio-mode=auto")
    result.assert_outcomes(failed=1)
    assert str(result.stdout).count(TITLE) == str(result.stdout).count(SECTION) == 1


@pytest.mark.parametrize(
    ("inside", "after", "section"),
    [
        ("assert seen == []", "", False),
        ("tb.assert_called(handle, times=2)", "", False),
        ("raise ValueError", "", True),
        ("", "assert seen == []", True),
        ("", "tb.assert_called(handle, times=2)", False),
    ],
)
def test_a_failure_shows_the_time_line_once(
    pytester: pytest.Pytester, inside: str, after: str, section: bool
) -> None:
    test = f"""
async def test_it(surestream):
    async with surestream(app) as tb:
        await tb.publish("orders", 7)
        {inside or "pass"}
    {after or "pass"}
"""
    result = run_project(pytester, test, "--asyncio-mode=auto")

    result.assert_outcomes(failed=1)
    output = str(result.stdout)
    assert output.count(TITLE) == 1
    assert output.count("published to orders: 7") == 1
    assert (SECTION in output) is section


def test_every_run_of_a_failed_test_is_shown_and_a_passed_one_is_not(
    pytester: pytest.Pytester,
) -> None:
    test = """
async def test_passes(surestream):
    async with surestream(app) as tb:
        await tb.publish("orders", 5)

async def test_fails(surestream):
    for number in 7, 8:
        async with surestream(app) as tb:
            await tb.publish("orders", number)
    assert not seen
"""
    result = run_project(pytester, test, "--asyncio-mode=auto", "-rA")

    result.assert_outcomes(passed=1, failed=1)
    output = str(result.stdout)
    assert [output.count(f"published to orders: {number}") for number in (5, 7, 8)] == [0, 1, 1]


def test_a_missing_server_is_one_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_SERVER", "/nowhere/redis-server")

    result = run_project(pytester, PAID, "--asyncio-mode=auto", "--surestream-live")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.errlines if line]
    assert len(lines) == 1
    assert "apt-get install redis-server" in lines[0]


def test_a_broker_that_would_connect_where_production_does_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_SERVER", sys.executable)  # never started
    test = """
from surestream.broker import Broker
from surestream.redis.sources import RedisSource

class OtherBroker(Broker[RedisSource]):
    source_type = RedisSource

    def transport(self, context):
        raise NotImplementedError

app = App("other")
app.add(OtherBroker())

async def test_it(surestream):
    async with surestream(app):
        pass
"""
    result = run_project(pytester, test, "--asyncio-mode=auto", "--surestream-live")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the plugin starts servers for Redis brokers only*"])


def test_loading_it_imports_no_driver_and_nothing_that_only_a_fixture_needs() -> None:
    program = (
        "import sys, surestream.testing.plugin; print(*sorted(name for name in sys.modules"
        " if name.startswith(('surestream.testing', 'surestream.redis', 'redis', 'fakeredis'))))"
    )

    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50
    ).stdout

    assert output.split() == ["surestream.testing", "surestream.testing.plugin"]
