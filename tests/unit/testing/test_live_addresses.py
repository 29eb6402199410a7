"""Where a live run goes that is told another server than the app declares (rule 8.3)."""

from __future__ import annotations

import random
import ssl

import pytest

from surestream import App, DeclarationError, DeclarationTypeError
from surestream.contract import RunContext
from surestream.memory import MemoryBroker
from surestream.redis import RedisBroker
from surestream.redis import broker as broker_module
from surestream.redis.address import RedisAddress
from surestream.testing import TestApp

pytestmark = pytest.mark.rule("8.3")


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[RedisAddress]:
    """The addresses that connections are made for."""
    addresses: list[RedisAddress] = []
    monkeypatch.setattr(broker_module, "connection_factory", addresses.append)
    return addresses


def address_of(broker: RedisBroker, url: str, connected: list[RedisAddress]) -> RedisAddress:
    context = RunContext("service", random.Random(0), lambda _: None, addresses={broker: url})
    broker.transport(context)
    return connected[-1]


@pytest.mark.parametrize(
    ("url", "user", "password", "database"),
    [
        ("redis://127.0.0.1:7000", "me", "secret", 3),
        ("redis://127.0.0.1:7000/", "me", "secret", 3),
        ("redis://127.0.0.1:7000/5", "me", "secret", 5),
        ("redis://127.0.0.1:7000?db=5", "me", "secret", 5),
        ("redis://you:other@127.0.0.1:7000", "you", "other", 3),
        ("redis://:other@127.0.0.1:7000", None, "other", 3),
        ("redis://@127.0.0.1:7000", None, None, 3),
    ],
)
def test_what_the_url_leaves_open_is_as_declared(
    url: str, user: str, password: str, database: int, connected: list[RedisAddress]
) -> None:
    declared = RedisBroker("redis://me:secret@production:6379/3")

    there = address_of(declared, url, connected)

    assert (there.host, there.port) == ("127.0.0.1", 7000)
    assert (there.username, there.password, there.database) == (user, password, database)
    assert declared.address.host == "production"


def test_a_socket_has_the_declared_database(connected: list[RedisAddress]) -> None:
    there = address_of(RedisBroker("redis://production/3"), "unix:///run/r.sock", connected)

    assert (there.path, there.database) == ("/run/r.sock", 3)


def test_the_scheme_decides_on_tls_and_the_context_is_the_declared_one(
    connected: list[RedisAddress],
) -> None:
    own = ssl.create_default_context()
    secured = RedisBroker("rediss://production", tls=own)
    plain = RedisBroker("redis://production")

    assert address_of(secured, "rediss://127.0.0.1", connected).tls is own
    assert address_of(secured, "redis://127.0.0.1", connected).tls is None
    assert address_of(plain, "rediss://127.0.0.1", connected).tls not in (None, own)


def test_without_an_address_it_goes_where_it_is_declared(connected: list[RedisAddress]) -> None:
    broker = RedisBroker("redis://production")

    broker.transport(RunContext("service", random.Random(0), lambda _: None))

    assert connected == [broker.address]


def test_a_url_that_is_none_is_refused_without_its_password(connected: list[RedisAddress]) -> None:
    with pytest.raises(DeclarationError) as refused:
        address_of(RedisBroker(), "http://me:secret@127.0.0.1", connected)

    assert "secret" not in str(refused.value)


def test_a_broker_of_another_app_is_refused() -> None:
    app = App("refunds")
    app.add(MemoryBroker())

    with pytest.raises(DeclarationTypeError, match="the app has no such broker"):
        TestApp(app, live={RedisBroker(): "redis://127.0.0.1:7000"})


async def test_a_memory_broker_stays_where_it_is() -> None:
    app = App("refunds")
    memory = app.add(MemoryBroker())

    async with TestApp(app, live={memory: "anywhere"}) as tb:
        await tb.publish("refunds", b"x", broker=memory)

        tb.assert_published("refunds")
