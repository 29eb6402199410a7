"""A password is in no log line, no error and no name (case SE-02)."""

from __future__ import annotations

import asyncio
import logging
import traceback

import pytest

from surestream import DeclarationError
from surestream.redis import RedisBroker
from tests.live.cases.service import DEAD, STREAM, Service, source
from tests.live.support import LookAt, eventually
from tests.server_fixtures import StartRedis
from tests.servers import free_port

pytestmark = pytest.mark.case("SE-02")

SECRET = "pa/ss word"
WRITTEN = "pa%2Fss%20word"


def shows_it(caplog: pytest.LogCaptureFixture, *others: str) -> bool:
    """Whether the password is to be seen in any log line, tracebacks included, or elsewhere."""
    formatter = logging.Formatter("%(message)s")
    text = "\n".join([*(formatter.format(record) for record in caplog.records), *others])
    return SECRET in text or WRITTEN in text


async def test_a_service_that_loses_its_connection_and_its_rights(
    start_redis: StartRedis, look_at: LookAt, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = start_redis(password=SECRET)
    url = f"redis://:{WRITTEN}@127.0.0.1:{server.port}/0"
    look = look_at(url)
    service = Service(url).on(source(), max_attempts=3, dead_letter=DEAD)
    async with service.running() as run:
        look.add(STREAM, b"1")
        await eventually(lambda: service.runs)
        look.redis.config_set("requirepass", "another")
        for client in look.redis.client_list():
            if client["name"].startswith("surestream"):
                look.redis.client_kill_filter(_id=client["id"])
        await eventually(lambda: run.health.degraded)
        await asyncio.sleep(0.7)
        reasons = str(run.health)
        look.redis.config_set("requirepass", SECRET)
        look.add(STREAM, b"2")
        await eventually(lambda: service.texts() == ["1", "2"])
    assert "WRONGPASS" in caplog.text
    assert not shows_it(caplog, repr(service.broker), repr(service.app), str(run), reasons)


@pytest.mark.parametrize("way", ["wrong", "unreachable", "database"])
async def test_a_service_that_cannot_start(
    start_redis: StartRedis, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level(logging.DEBUG)
    server = start_redis(password=SECRET if way == "database" else "right")
    port = free_port() if way == "unreachable" else server.port
    database = 99 if way == "database" else 0
    service = Service(f"redis://:{WRITTEN}@127.0.0.1:{port}/{database}").on(source())
    service.app.connect_timeout = 0.5

    with pytest.raises(Exception, match=f"127.0.0.1:{port}") as told:
        async with service.running():
            pass
    assert not shows_it(caplog, "".join(traceback.format_exception(told.value)))


@pytest.mark.parametrize(
    "url",
    [
        f"redis://me:{SECRET}@localhost",
        f"http://me:{WRITTEN}@localhost",
        f"redis://me:{WRITTEN}@localhost:port",
        f"redis://me:{WRITTEN}@localhost/x",
        f"redis://me:{WRITTEN}@localhost?socket_timeout=1",
    ],
)
def test_a_url_that_is_refused_is_not_quoted_whole(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DeclarationError) as told:
        RedisBroker(url)
    assert not shows_it(caplog, "".join(traceback.format_exception(told.value)))


@pytest.mark.case("RC-10")
def test_a_time_limit_for_the_socket_cannot_be_set() -> None:
    """It would cut blocking reads: what bounds them is the package's own business."""
    with pytest.raises(DeclarationError, match="socket_timeout"):
        RedisBroker("redis://localhost:6379/0?socket_timeout=1")
