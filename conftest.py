"""What holds for every test, under ``tests/`` and beside the examples."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

pytest_plugins = ["pytester", "tests.server_fixtures"]

# A loaded machine is slow, not wrong: the per-test time limit is the bound.
settings.register_profile("surestream", deadline=None, print_blob=True)
settings.load_profile("surestream")

# A shell ignores SIGINT for what it runs in the background, and children inherit that: the tests
# that interrupt one would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a skipped test."""
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skipped test fails the run: what cannot be checked here has to say so aloud."""
    if _skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why the run failed although no test did."""
    for nodeid in _skipped:
        terminalreporter.write_line(f"FAILED {nodeid}: skipped, and nothing is skipped here")
