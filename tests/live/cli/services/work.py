"""What the services under test do with a message: its text says it."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from surestream import App, Lifespan, Outcome, ack, fail_fast


def tell(text: str) -> None:
    """One line in one write: several processes share standard output."""
    os.write(1, f"{text}\n".encode())


Publish = Callable[[str], Awaitable[None]]


async def work(text: str) -> Outcome:
    """``sleep 0.5``, ``forever``, ``block``, ``thread``, ``raise``, ``fail_fast``, ``exit 5``,
    ``crash``."""
    tell(f"began {text}")
    match text.split():
        case ["sleep", seconds]:
            await asyncio.sleep(float(seconds))
        case ["forever"]:
            await asyncio.Event().wait()
        case ["block"]:
            _block()
        case ["thread"]:
            await asyncio.to_thread(time.sleep, 1000)
        case ["raise"]:
            raise ValueError("no\n2026-01-01T00:00:00.000+00:00 CRITICAL surestream: forged\x1b[2J")
        case ["fail_fast"]:
            return fail_fast()
        case ["crash", *_]:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.kill(os.getpid(), signal.SIGSEGV)
        case ["exit", *status]:
            raise SystemExit(*map(int, status))
        case _:
            pass
    tell(f"done {text}")
    return ack()


def lifespan(publish: Publish) -> Lifespan:
    """Publishes the lines of ``MESSAGES`` once the service runs; does what ``OPENING`` and
    ``CLOSING`` say before and after."""

    @asynccontextmanager
    async def life(app: App) -> AsyncGenerator[None, None]:
        await _do(os.environ.get("OPENING", ""))
        tell("opened")

        async def publish_all() -> None:
            await asyncio.sleep(0.05)
            for text in filter(None, os.environ.get("MESSAGES", "").split(",")):
                await publish(text)

        publishing = asyncio.create_task(publish_all())
        yield
        publishing.cancel()
        tell("closing")
        await _do(os.environ.get("CLOSING", ""))
        tell("closed")

    return life


async def _do(what: str) -> None:
    match what.split():
        case ["raise"]:
            raise RuntimeError("the database\nis gone")
        case ["exit", status]:
            raise SystemExit(int(status))
        case ["forever"]:
            await asyncio.Event().wait()
        case ["block"]:
            _block()
        case _:
            pass


def _block() -> None:
    time.sleep(1000)
