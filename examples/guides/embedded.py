"""A service inside a program of one's own, with an address that says how it is.

``python -m examples.guides.embedded`` runs it; ``HEALTH_PORT`` (8080) is where it answers.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from examples.guides.errors import app
from surestream import Run

PORT = int(os.environ.get("HEALTH_PORT", "8080"))


@asynccontextmanager
async def health_server(run: Run, port: int) -> AsyncGenerator[int]:
    """Answer every request with 200 while messages are handled, else 503 and why."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(5):
            await reader.readuntil(b"\r\n\r\n")
            health = run.health
            status = "200 OK" if health.ready else "503 Service Unavailable"
            body = f"{health}\n"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                f"Content-Length: {len(body.encode())}\r\n\r\n{body}".encode()
            )
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def main() -> None:
    """Run until a signal comes, or until the service fails."""
    loop = asyncio.get_running_loop()
    async with app.running() as run, health_server(run, PORT):
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, run.ask_to_stop)
        await run.until_asked()


if __name__ == "__main__":
    asyncio.run(main())
