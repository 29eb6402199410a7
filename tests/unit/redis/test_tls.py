"""The connection over TLS, with a certificate that only this test trusts."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from surestream.errors import ConnectRefused
from surestream.redis.address import RedisAddress
from surestream.redis.driver import connection_factory
from surestream.redis.link import Link
from tests.unit.redis.stub_server import StubServer

# For localhost and 127.0.0.1, signed by itself, with its key.
LOOPBACK = Path(__file__).with_name("loopback.pem")


@pytest.fixture
def server_side() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(LOOPBACK)
    return context


async def test_replies_come_over_tls(server_side: ssl.SSLContext) -> None:
    trusting = ssl.create_default_context(cafile=str(LOOPBACK))

    async with StubServer(tls=server_side) as server:
        address = RedisAddress.parse(server.url, tls=trusting)
        link = Link(connection_factory(address), name="surestream-test", display=address.display)
        await link.open()
        try:
            replies = await asyncio.gather(*(link.call("ECHO", "x" * 5000) for _ in range(200)))
        finally:
            await link.close()

    assert address.display.startswith("rediss://")
    assert replies == [b"x" * 5000] * 200


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    server_side: ssl.SSLContext,
) -> None:
    async with StubServer(tls=server_side) as server:
        address = RedisAddress.parse(server.url)
        link = Link(connection_factory(address), name="surestream-test", display=address.display)

        with pytest.raises(ConnectRefused, match="certificate refused: self-signed"):
            await link.open()
