"""Fixtures of these tests."""

from tests.live.cli.processes import run, start

__all__ = ["run", "start"]
