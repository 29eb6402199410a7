"""Fixtures that hand a real server to a test, wherever the test lies.

Shared servers are started when the first test asks for one, and are only ever emptied. A test
that stops, pauses, kills or configures its server asks for one of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Protocol

import pytest

from tests.servers import MosquittoServer, NatsServer, RedisServer


class StartRedis(Protocol):
    """Starts a server with the options of :class:`~tests.servers.RedisServer`."""

    def __call__(
        self,
        *,
        appendonly: bool = False,
        maxmemory: str | None = None,
        password: str | None = None,
        args: Sequence[str] = (),
        port: int | None = None,
    ) -> RedisServer: ...


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The Redis of the whole run. Not to be stopped or configured by a test."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of the shared Redis, emptied."""
    redis_server.flush()
    return redis_server.url


@pytest.fixture
def start_redis() -> Iterator[StartRedis]:
    """Start a private Redis, or several, with options; ended with the test."""
    with contextlib.ExitStack() as stack:

        def start(
            *,
            appendonly: bool = False,
            maxmemory: str | None = None,
            password: str | None = None,
            args: Sequence[str] = (),
            port: int | None = None,
        ) -> RedisServer:
            return stack.enter_context(
                RedisServer(
                    appendonly=appendonly,
                    maxmemory=maxmemory,
                    password=password,
                    args=args,
                    port=port,
                )
            )

        yield start


@pytest.fixture
def own_redis(start_redis: StartRedis) -> RedisServer:
    """A private Redis that the test may kill. It keeps answered writes through a kill."""
    return start_redis(appendonly=True)


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    """The NATS with JetStream of the whole run. Use stream and subject names of your own."""
    with NatsServer() as server:
        yield server


@pytest.fixture
def own_nats() -> Iterator[NatsServer]:
    """A private NATS with JetStream that the test may kill."""
    with NatsServer() as server:
        yield server


@pytest.fixture(scope="session")
def mosquitto_server() -> Iterator[MosquittoServer]:
    """The Mosquitto of the whole run. Use topics and client ids of your own."""
    with MosquittoServer() as server:
        yield server


@pytest.fixture
def own_mosquitto() -> Iterator[MosquittoServer]:
    """A private Mosquitto that the test may kill."""
    with MosquittoServer() as server:
        yield server
