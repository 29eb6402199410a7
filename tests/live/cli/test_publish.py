"""``surestream publish`` on a real Redis."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.live.cli.processes import SERVICES, Run, Start
from tests.servers import RedisServer, free_port


def entries(server: RedisServer, stream: str = "work") -> str:
    """The fields of all entries of a stream: names and values in turn."""
    script = (
        "local found = {} "
        "for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
        "for _, word in ipairs(entry[2]) do found[#found + 1] = word end end "
        "return table.concat(found, '|')"
    )
    return server.ask("EVAL", script, "1", stream)


class TestPublished:
    def test_is_what_was_typed_and_said_so(self, run: Run, own_redis: RedisServer) -> None:
        text = '{ "id": 1,  "price": 1.50, "name": "Zoë" }'

        ended = run("publish", "redis_service:app", "work", text, REDIS_URL=own_redis.url)

        assert ended.status == 0
        assert ended.err == ""
        assert ended.out == (
            f"published to work on RedisBroker('redis://127.0.0.1:{own_redis.port}/0'): 43 bytes\n"
        )
        assert entries(own_redis) == f"_payload|{text}"

    def test_has_the_headers(self, run: Run, own_redis: RedisServer) -> None:
        ended = run(
            *("publish", "redis_service:app", "work", "1", "-H", "tenant=acme"),
            *("--header", "query=a=b"),
            REDIS_URL=own_redis.url,
        )

        assert ended.status == 0
        assert ended.out.endswith(": 1 bytes, 2 headers\n")
        assert entries(own_redis) == "_payload|1|h:tenant|acme|h:query|a=b"

    def test_may_come_from_standard_input(self, run: Run, own_redis: RedisServer) -> None:
        ended = run(
            *("publish", "redis_service:app", "work", "-"),
            stdin=b'{"id": 2}\n',
            REDIS_URL=own_redis.url,
        )

        assert ended.status == 0
        assert entries(own_redis) == '_payload|{"id": 2}'

    def test_may_be_no_json(self, run: Run, own_redis: RedisServer) -> None:
        ended = run(
            *("publish", "redis_service:app", "work", "sleep 0", "--raw"), REDIS_URL=own_redis.url
        )

        assert ended.status == 0
        assert entries(own_redis) == "_payload|sleep 0"

    def test_is_handled(self, start: Start, run: Run, own_redis: RedisServer) -> None:
        child = start("run", "redis_service:app", REDIS_URL=own_redis.url)
        child.wait_for(": running")

        run("publish", "redis_service:app", "work", "[17]", REDIS_URL=own_redis.url)

        child.wait_for("done [17]")

    def test_nearly_a_known_address_is_a_warning(self, run: Run, own_redis: RedisServer) -> None:
        ended = run("publish", "redis_service:app", "wrok", "1", REDIS_URL=own_redis.url)

        assert ended.status == 0
        assert ended.err.splitlines() == [
            "surestream: warning: nothing in demo reads 'wrok'; did you mean 'work'?"
        ]
        assert entries(own_redis, "wrok") == "_payload|1"

    def test_is_written_by_the_codec_of_its_reader(
        self, run: Run, own_redis: RedisServer, tmp_path: Path
    ) -> None:
        (tmp_path / "service.py").write_text(
            "import os\n"
            "from surestream import App, Subscriber\n"
            "from surestream.redis import RedisBroker, RedisStream\n"
            "class Shouting:\n"
            "    content_type = 'text/loud'\n"
            "    def decoder(self, type_): return bytes\n"
            "    def encode(self, value): return f'{value}!'.encode()\n"
            "async def handle(payload: bytes) -> None: ...\n"
            "app = App('loud')\n"
            "broker = app.add(RedisBroker(os.environ['REDIS_URL'], codec=Shouting()))\n"
            "broker.include(Subscriber(RedisStream('work', group='g'), handle))\n"
        )

        ended = run(
            "publish", "service:app", "work", "17", folder=tmp_path, REDIS_URL=own_redis.url
        )

        assert ended.status == 0
        assert entries(own_redis) == "_payload|17!"


class TestWrongUse:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (
                ["redis_service:app", "work", "{id:1}"],
                [
                    "surestream: the message is no JSON: JSON is malformed: object keys must be "
                    "strings (byte 1)",
                    "  JSON is written in quotes for the shell, such as "
                    """'{"id": 1}' or '"text"'""",
                    "  --raw publishes it as it is",
                ],
            ),
            (
                ["redis_servise:app", "work", "1"],
                [
                    "surestream: there is no module 'redis_servise'",
                    "  did you mean `surestream publish redis_service:app work …`?",
                ],
            ),
            (
                ["redis_service:ap", "work", "1"],
                [
                    f"surestream: there is no 'ap' in redis_service ({SERVICES}/redis_service.py)",
                    "  did you mean `surestream publish redis_service:app work …`?",
                ],
            ),
            (
                ["redis_service:app", "wo rk", "1"],
                [
                    "surestream: refused: ADDRESS='wo rk'",
                    "  why:   an address has no white space or control characters",
                ],
            ),
            (
                ["redis_service:app", "work", "1", "-H", "tenant"],
                [
                    "surestream: --header 'tenant' has no =",
                    "  write `--header tenant=value`",
                ],
            ),
            (
                ["redis_service:app", "work", "1", "--timeout", "-1"],
                [
                    "surestream: --timeout -1 is no time span",
                    "  write a number of seconds above zero",
                ],
            ),
            (
                ["memory_service:app", "work", "1"],
                [
                    "surestream: a MemoryBroker lives inside the process of its service: nothing "
                    "can be published to it from here",
                    "  publish in the service itself, or in a test: `await tb.publish(…)` of "
                    "TestApp",
                ],
            ),
        ],
    )
    def test_is_2_and_what_to_write(self, run: Run, arguments: list[str], told: list[str]) -> None:
        ended = run("publish", *arguments, REDIS_URL="redis://127.0.0.1:1")

        assert ended.status == 2
        assert ended.err.splitlines()[: len(told)] == told
        assert ended.out == ""


@pytest.mark.case("SE-02")
class TestFailed:
    def test_nothing_listens_is_1(self, run: Run) -> None:
        url = f"redis://user:secret@127.0.0.1:{free_port()}/0"

        ended = run("publish", "redis_service:app", "work", "1", "--timeout", "0.5", REDIS_URL=url)

        assert ended.status == 1
        assert ended.seconds < 10
        assert ended.out == ""
        assert ended.logged("surestream: not published to work on RedisBroker('redis://127.0.0.1:")
        assert "secret" not in ended.err
        assert "Traceback" not in ended.err

    def test_nothing_answers_is_1(self, run: Run) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
            ended = run(
                *("publish", "redis_service:app", "work", "1", "--timeout", "0.5"), REDIS_URL=url
            )

        assert ended.status == 1
        assert ended.seconds < 10
        assert ended.logged("surestream: not published to work on ")

    def test_refusal_of_the_server_is_1(self, run: Run, own_redis: RedisServer) -> None:
        own_redis.ask("SET", "work", "no stream")

        ended = run("publish", "redis_service:app", "work", "1", REDIS_URL=own_redis.url)

        assert ended.status == 1
        assert ended.logged("BrokerRefused: ")
        assert "Traceback" not in ended.err

    def test_interrupt_is_130(self, start: Start) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
            child = start("publish", "redis_service:app", "work", "1", REDIS_URL=url)
            silent.settimeout(20)
            connection, _ = silent.accept()
            ended = child.stopped(signal.SIGINT)
            connection.close()

        assert ended.status == 130
        assert ended.err.splitlines()[-1].startswith("surestream: interrupted: ")
        assert "Traceback" not in ended.err
