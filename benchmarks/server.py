"""A private Redis server for one run of the rig, and the streams the contenders read."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import cast

import msgspec

from benchmarks.common import HEADERS, order
from benchmarks.wire import Argument, Wire
from scripts.server_binaries import ServerMissingError, locate

HOST = "127.0.0.1"
START_SECONDS = 10.0


@contextmanager
def running_server() -> Generator[int]:
    """Starts a server on a free loopback port, nothing kept on disk; yields the port."""
    try:
        program = locate("redis")
    except ServerMissingError as missing:
        raise SystemExit(str(missing)) from None
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = cast("int", free.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="surestream-bench-") as folder:
        command = [str(program.path), "--bind", HOST, "--port", str(port), "--dir", folder]
        quiet = ["--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "server.log"]
        with subprocess.Popen(
            command + quiet, env={**os.environ, **program.env}, stdout=subprocess.DEVNULL
        ) as process:
            try:
                _wait_until_up(port, process)
                yield port
            finally:
                process.terminate()
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()


def _wait_until_up(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.perf_counter() + START_SECONDS
    while time.perf_counter() < deadline and process.poll() is None:
        try:
            wire = Wire(HOST, port)
        except OSError:
            time.sleep(0.02)
            continue
        wire.call("PING")
        wire.close()
        return
    raise SystemExit(f"the Redis server did not come up within {START_SECONDS:.0f} s")


def server_version(wire: Wire) -> str:
    """`redis 7.0.15`, or `valkey 9.1.2` where it is one."""
    info = cast("bytes", wire.call("INFO", "server")).decode()
    facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    if "valkey_version" in facts:
        return f"valkey {facts['valkey_version']}"
    return f"redis {facts['redis_version']}"


def entry_fields(number: int) -> tuple[Argument, ...]:
    """An entry as SureStream and RustStream write it: `_payload` and one `h:` field a header."""
    fields: list[Argument] = ["_payload", msgspec.json.encode(order(number))]
    for name, value in HEADERS.items():
        fields += (f"h:{name}", value)
    return tuple(fields)


def fill(wire: Wire, stream: str, entries: int, frame: str) -> None:
    """Makes `stream` hold the first `entries` orders; a stream that does already is kept.

    `frame` is `fields` (see `entry_fields`), `faststream` (its own binary frame, in which alone
    it carries headers) or `taskiq` (its message in JSON).
    """
    if wire.call("XLEN", stream) == entries:
        return
    wire.call("DEL", stream)
    contents: Iterable[tuple[Argument, ...]]
    if frame == "faststream":
        from benchmarks.faststream.stream import frames

        contents = frames(entries)
    elif frame == "taskiq":
        from benchmarks.taskiq.stream import frames as taskiq_frames

        contents = taskiq_frames(entries)
    else:
        contents = (entry_fields(number) for number in range(entries))
    wire.call_many(("XADD", stream, "*", *fields) for fields in contents)
