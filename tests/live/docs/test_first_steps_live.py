"""The last part of *First steps*: the service as a process, over a real Redis."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from tests.live.support import until
from tests.servers import RedisServer
from tests.unit.docs.pages import blocks

PAGE = "first-steps.md"


def test_the_service_says_what_the_page_says(own_redis: RedisServer, tmp_path: Path) -> None:
    write_service(own_redis.url, tmp_path)
    (shown,) = blocks(PAGE, "text")
    log = tmp_path / "log"
    with Redis.from_url(own_redis.url, decode_responses=True) as redis, running(log) as service:
        for command in commands("XADD"):
            redis.execute_command(*command)
        for line in shown.text.splitlines():
            until(lambda line=line: line in log.read_text(), why=log.read_text)

        # Bob's delay survives a kill; Eve is dead, and it says why.
        service.kill()
        service.wait()
        (look_at_delays,), (look_at_the_dead,) = commands("ZRANGE"), commands("XRANGE")
        assert len(redis.execute_command(*look_at_delays)) == 1
        ((_, dead),) = redis.execute_command(*look_at_the_dead)
        assert dead["_payload"] == '{"email":"eve@down.example"}'
        assert dead["h:x-surestream-dead-reason"] == "attempts-spent"

        # Started again, he is tried again when his minute is over: here at once.
        member, _ = redis.execute_command(*look_at_delays)[0]
        redis.zadd("signups.delayed", {member: 1})
        with running(log):
            until(lambda: "attempt 2/3: retry in 60 s" in log.read_text(), why=log.read_text)


def test_two_workers_share_the_stream(own_redis: RedisServer, tmp_path: Path) -> None:
    write_service(own_redis.url, tmp_path)
    log = tmp_path / "log"
    everybody = sorted(f"{number}@example.com" for number in range(500))
    with Redis.from_url(own_redis.url) as redis, running(log, "--workers") as crew:
        until(lambda: log.read_text().count("welcome/0.1.0: running") == 2, why=log.read_text)
        for email in everybody:
            redis.xadd("signups", {"_payload": f'{{"email":"{email}"}}'})

        until(lambda: len(welcomed(log)) >= len(everybody), why=log.read_text)
        assert len(redis.xinfo_consumers("signups", "welcome")) == 2
        crew.send_signal(signal.SIGTERM)
        assert crew.wait(timeout=30) == 0

    assert sorted(welcomed(log)) == everybody


def welcomed(log: Path) -> list[str]:
    lines = log.read_text().splitlines()
    # Two processes write to one file.
    return [email for line in lines for email in re.findall(r"welcome, (\S+@example\.com)", line)]


def write_service(url: str, folder: Path) -> None:
    service = [block for block in blocks(PAGE, "python") if block.title == "service.py"][-1]
    assert "redis://localhost:6379" in service.text
    text = service.text.replace("redis://localhost:6379", url)
    (folder / "service.py").write_text(text, encoding="utf-8")


def commands(name: str) -> list[list[str]]:
    """The arguments of the page's ``redis-cli`` lines that run the command ``name``."""
    lines = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
    given = [shlex.split(line)[1:] for line in lines if line.startswith("redis-cli ")]
    return [arguments for arguments in given if arguments[0] == name]


@contextmanager
def running(log: Path, option: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """The page's command, or the one with ``option``, its output appended to ``log``."""
    lines = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
    command = next(line for line in lines if line.startswith("surestream run ") and option in line)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", *shlex.split(command)],
            cwd=log.parent,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
