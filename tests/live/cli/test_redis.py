"""The command line on a real Redis: what is settled, what cannot be reached, what is secret."""

from __future__ import annotations

import signal
import socket

import pytest

from tests.live.cli.processes import Ended, Start
from tests.server_fixtures import StartRedis
from tests.servers import RedisServer, free_port

SECRET = "pa%2Fss"


def url_with_secret(port: int) -> str:
    return f"redis://user:{SECRET}@127.0.0.1:{port}/0"


def shows_secret(ended: Ended) -> bool:
    text = ended.out + ended.err
    return SECRET in text or "pa/ss" in text


@pytest.mark.case("SD-02")
@pytest.mark.rule("7.3")
def test_message_of_the_handler_under_way_is_settled_and_not_seen_again(
    start: Start, own_redis: RedisServer
) -> None:
    child = start("run", "redis_service:app", REDIS_URL=own_redis.url, MESSAGES="sleep 1")
    child.wait_for("began")

    ended = child.stopped()

    assert ended.status == 0
    assert "done sleep 1" in ended.out

    again = start("run", "redis_service:app", REDIS_URL=own_redis.url, MESSAGES="other")
    again.wait_for("done other")
    assert "sleep" not in again.stopped().out


@pytest.mark.case("SD-04")
def test_message_is_not_acknowledged_when_a_second_signal_ends_it(
    start: Start, own_redis: RedisServer
) -> None:
    child = start("run", "redis_service:app", REDIS_URL=own_redis.url, MESSAGES="forever")
    child.wait_for("began")
    child.send(signal.SIGINT)
    child.wait_for(": stopping")

    assert child.stopped(signal.SIGINT).status == 130
    assert pending(own_redis) == 1


@pytest.mark.case("SD-06")
def test_only_the_stuck_message_is_unsettled_at_the_timeout(
    start: Start, own_redis: RedisServer
) -> None:
    child = start(
        *("run", "redis_service:app", "--shutdown-timeout", "3"),
        REDIS_URL=own_redis.url,
        MESSAGES=",".join(["forever", *["sleep 0.5"] * 4]),
    )
    child.wait_for("began forever")
    child.wait_for("began sleep", times=4)

    ended = child.stopped()

    assert ended.status == 0
    assert 2.9 < ended.seconds < 6
    assert ended.logged("work/g")
    assert pending(own_redis) == 1


@pytest.mark.case("SD-05")
class TestNotReachable:
    def test_signal_ends_it_while_nothing_listens(self, start: Start) -> None:
        child = start("run", "redis_service:app", REDIS_URL=url_with_secret(free_port()))
        child.wait_for("opened")

        ended = child.stopped()

        assert ended.status == 0
        assert ended.seconds < 2
        assert not shows_secret(ended)

    def test_signal_ends_it_while_nothing_answers(self, start: Start) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = url_with_secret(silent.getsockname()[1])
            child = start("run", "redis_service:app", REDIS_URL=url)
            child.wait_for("opened")

            ended = child.stopped()

        assert ended.status == 0
        assert ended.seconds < 2
        assert not shows_secret(ended)

    @pytest.mark.case("CV-02", "SE-02")
    @pytest.mark.rule("7.2")
    def test_time_to_connect_that_is_over_is_1_and_one_message(self, start: Start) -> None:
        url = url_with_secret(free_port())

        ended = start("run", "redis_service:app", REDIS_URL=url, WAIT="1").ended()

        assert ended.status == 1
        assert len(ended.logged("CRITICAL")) == 1
        assert ended.logged(": cannot start: ")
        assert "Traceback" not in ended.err
        assert not shows_secret(ended)


@pytest.mark.case("SE-02")
def test_wrong_password_is_1_and_never_shown(start: Start, start_redis: StartRedis) -> None:
    server = start_redis(password="right")
    url = url_with_secret(server.port)

    ended = start("run", "redis_service:app", REDIS_URL=url, WAIT="5").ended()

    assert ended.status == 1
    assert ended.logged(": cannot start: ")
    assert "Traceback" not in ended.err
    assert not shows_secret(ended)


def test_start_shows_where_the_broker_is(start: Start, own_redis: RedisServer) -> None:
    child = start("run", "redis_service:app", REDIS_URL=own_redis.url)
    child.wait_for(": running")

    assert child.stopped().logged(f"127.0.0.1:{own_redis.port}")


def pending(server: RedisServer) -> int:
    """How many entries the group has not acknowledged."""
    reply = server.ask("EVAL", "return tostring(redis.call('XPENDING', 'work', 'g')[1])", "0")
    return int(reply)
