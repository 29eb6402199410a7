"""Fixtures of the tests that kill processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.support import Nursery, StartChild, children_of
from tests.servers import RedisServer


@pytest.fixture(scope="package")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """What starts the children of these tests."""
    nursery = Nursery(tmp_path_factory.mktemp("children"), "tests.live.crash.child")
    yield nursery
    nursery.close()


@pytest.fixture
def start(nursery: Nursery) -> Iterator[StartChild]:
    """Start a child, killed with the test."""
    yield from children_of(nursery)


@pytest.fixture(scope="package")
def sweep_server() -> Iterator[RedisServer]:
    """A server of the sweep's own, whose databases it empties."""
    with RedisServer() as server:
        yield server
