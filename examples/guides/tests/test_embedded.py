"""The program of the guide *Deploying*, without a server."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from examples.guides import embedded
from examples.guides.embedded import health_server
from surestream import App, ServiceFailed, fail_fast, subscriber
from surestream.memory import MemoryBroker, MemoryTopic


@subscriber(MemoryTopic("orders"))
async def take(order: str) -> None:
    """Fails with every order."""
    raise RuntimeError(order)


def service() -> tuple[App, MemoryBroker]:
    app = App("orders")
    memory = app.add(MemoryBroker())
    memory.include(take, on_error={RuntimeError: fail_fast()})
    return app, memory


async def ask(port: int) -> str:
    """The status line and the body of what it answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return f"{head.splitlines()[0]} {body}"


async def test_it_says_how_the_service_is() -> None:
    app, _ = service()
    async with app.running() as run, health_server(run, 0) as port:
        assert await ask(port) == "HTTP/1.1 200 OK running\n"

        await run.stop()
        assert await ask(port) == "HTTP/1.1 503 Service Unavailable stopped: not connected\n"


async def test_a_signal_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "app", service()[0])
    monkeypatch.setattr(embedded, "PORT", 0)
    program = asyncio.create_task(embedded.main())
    await started(program)

    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(program, 10)


async def test_a_service_that_fails_ends_it_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    app, memory = service()
    monkeypatch.setattr(embedded, "app", app)
    monkeypatch.setattr(embedded, "PORT", 0)
    program = asyncio.create_task(embedded.main())
    await started(program)

    await memory.publish("orders", "everything")
    with pytest.raises(ServiceFailed):
        await asyncio.wait_for(program, 10)


async def started(program: asyncio.Task[None]) -> None:
    """Wait until the program can be sent a signal."""
    for _ in range(10_000):
        if program.done():
            program.result()
        if signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, None):
            return
        await asyncio.sleep(0)
    raise AssertionError("it never took the signals over")
