"""The real servers of the tests: each in a process and a folder of its own.

A test may stop, pause, kill and restart the server it was given; only that process is touched.
What they share is :class:`~tests.local_server.LocalServer`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
from collections.abc import Sequence
from typing import cast

from tests.local_server import HOST, STOP_LIMIT, LocalServer, free_port

__all__ = ["LocalServer", "MosquittoServer", "NatsServer", "RedisServer", "free_port"]


class RedisServer(LocalServer):
    """``redis-server`` or ``valkey-server``.

    ``appendonly`` keeps every answered write through a kill; without it nothing is written to
    disk but by :meth:`~LocalServer.restart` with ``keep_data``. ``maxmemory`` is what the
    server's option takes (``"4mb"``); writes beyond it are refused. ``password`` is asked of
    every client, and is part of :attr:`url`.
    """

    kind = "redis"
    scheme = "redis"

    def __init__(
        self,
        *,
        appendonly: bool = False,
        maxmemory: str | None = None,
        password: str | None = None,
        args: Sequence[str] = (),
        port: int | None = None,
    ) -> None:
        super().__init__(args=args, port=port)
        self.appendonly = appendonly
        self.maxmemory = maxmemory
        self.password = password

    @property
    def url(self) -> str:
        """Where clients connect, database 0."""
        secret = f":{self.password}@" if self.password else ""
        return f"{self.scheme}://{secret}{HOST}:{self.port}/0"

    def command(self) -> list[str]:
        options = {
            "--bind": HOST,
            "--port": str(self.port),
            "--dir": str(self.data),
            "--save": "",
            "--appendonly": "yes" if self.appendonly else "no",
            "--appendfsync": "always",  # what was answered survives a kill
            "--daemonize": "no",
        }
        if self.maxmemory is not None:
            options |= {"--maxmemory": self.maxmemory, "--maxmemory-policy": "noeviction"}
        if self.password is not None:
            options |= {"--requirepass": self.password}
        return [word for option in options.items() for word in option]

    def answers(self) -> bool:
        process = self._process
        info = self.ask("INFO")
        return process is not None and {f"process_id:{process.pid}", "loading:0"} <= set(
            info.splitlines()
        )

    def flush(self) -> None:
        """Empty it: every database, and the cache of scripts."""
        for command in (("FLUSHALL",), ("SCRIPT", "FLUSH")):
            if not (reply := self.ask(*command)).startswith("+OK"):
                raise RuntimeError(f"{command} was answered {reply!r}")

    def ask(self, *words: str) -> str:
        """Send one command on a connection of its own, and return the reply as it came.

        For fixtures: a test that reads more than a status uses a client.
        """
        with socket.create_connection((HOST, self.port), timeout=5) as connection:
            replies = connection.makefile("rb")
            if self.password is not None:
                connection.sendall(_packed("AUTH", self.password))
                replies.readline()
            connection.sendall(_packed(*words))
            status = replies.readline()
            if status.startswith(b"$"):
                status = replies.read(max(int(status[1:]), 0))
            replies.close()
        return status.decode()

    def _save_and_stop(self) -> None:
        if not self.appendonly and self._process is not None:
            with contextlib.suppress(OSError):  # It closes the connection instead of answering.
                self.ask("SHUTDOWN", "SAVE")
            self._process.wait(STOP_LIMIT)
        self.stop()


def _packed(*words: str) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        raw = word.encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(parts)


class NatsServer(LocalServer):
    """``nats-server``, with JetStream unless ``jetstream=False``."""

    kind = "nats"
    scheme = "nats"

    def __init__(
        self, *, jetstream: bool = True, args: Sequence[str] = (), port: int | None = None
    ) -> None:
        super().__init__(args=args, port=port)
        self.jetstream = jetstream
        self._name = f"surestream-{secrets.token_hex(8)}"

    def command(self) -> list[str]:
        command = ["-a", HOST, "-p", str(self.port), "-n", self._name]
        return [*command, "-js", "-sd", str(self.data)] if self.jetstream else command

    def answers(self) -> bool:
        with socket.create_connection((HOST, self.port), timeout=5) as connection:
            greeting = connection.makefile("rb").readline()
        if not greeting.startswith(b"INFO "):
            return False
        info = cast("dict[str, object]", json.loads(greeting[5:]))
        return info.get("server_name") == self._name and (
            not self.jetstream or info.get("jetstream") is True
        )


class MosquittoServer(LocalServer):
    """``mosquitto``, open to every client; ``config`` lines are added to its file.

    Sessions and retained messages are kept through a stop; ``persistence=False`` keeps none.
    """

    kind = "mosquitto"
    scheme = "mqtt"

    def __init__(
        self,
        *,
        persistence: bool = True,
        config: Sequence[str] = (),
        args: Sequence[str] = (),
        port: int | None = None,
    ) -> None:
        super().__init__(args=args, port=port)
        self.persistence = persistence
        self.config = tuple(config)

    def command(self) -> list[str]:
        lines = [
            f"listener {self.port} {HOST}",
            "allow_anonymous true",
            f"persistence {'true' if self.persistence else 'false'}",
            f"persistence_location {self.data}/",
            "log_dest stderr",
            # As root it would change to a user that cannot write into the folder.
            *(["user root"] if os.geteuid() == 0 else []),
            *self.config,
        ]
        path = self._folder / "mosquitto.conf"
        path.write_text("\n".join(lines) + "\n")
        return ["-c", str(path)]

    def answers(self) -> bool:
        name = b"surestream-ready"
        variable = b"\x00\x04MQTT\x05\x02\x00\x0a\x00" + len(name).to_bytes(2, "big") + name
        with socket.create_connection((HOST, self.port), timeout=5) as connection:
            connection.sendall(bytes([0x10, len(variable)]) + variable)
            return connection.recv(1) == b"\x20"
