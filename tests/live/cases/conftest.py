"""Fixtures of the cases."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.live.support import Look, LookAt, Nursery, StartChild, children_of


@pytest.fixture(scope="package")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """What starts the children of these tests."""
    nursery = Nursery(tmp_path_factory.mktemp("children"), "tests.live.cases.programs")
    yield nursery
    nursery.close()


@pytest.fixture
def start(nursery: Nursery) -> Iterator[StartChild]:
    """Start a child, killed with the test."""
    yield from children_of(nursery)


@pytest.fixture
def look_at() -> Iterator[LookAt]:
    """A look at any server."""
    looks: list[Look] = []

    def at(url: str) -> Look:
        looks.append(Look(url))
        return looks[-1]

    yield at
    for look in looks:
        look.close()


@pytest.fixture
def look(redis_url: str, look_at: LookAt) -> Look:
    """The shared server, emptied."""
    return look_at(redis_url)


@pytest.fixture(autouse=True)
def all_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Logs from INFO on, so that a test can count them."""
    caplog.set_level(logging.INFO, "surestream")
