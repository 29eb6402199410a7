"""In process and on a real server the same happens (TH-10): the same runs with the same counts and
headers, the same settlements, copies and dead letters, and the same is left on the server."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest

from tests.conformance.room import Delays, Room
from tests.conformance.scenarios import SCENARIOS
from tests.servers import RedisServer

AT_ONCE = 8
"""Scenarios that run on the server at the same time: most of each is waiting."""

Answers = dict[str, Any]
CASES: list[tuple[str, Delays]] = [
    (name, delays) for name in SCENARIOS for delays in get_args(Delays)
]

pytestmark = [pytest.mark.rule("8.2", "8.3"), pytest.mark.case("TH-10")]


async def answers(name: str, delays: Delays, url: str | None) -> Answers:
    """Run a scenario, on the server at ``url`` or in process."""
    room = Room(name, delays, url)
    await SCENARIOS[name](room)
    return room.answers


@pytest.fixture(scope="module")
def live(redis_server: RedisServer) -> dict[tuple[str, Delays], Answers | BaseException]:
    """What every scenario gave on a real server, or how it failed."""

    async def run_all() -> list[Answers | BaseException]:
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(name: str, delays: Delays) -> Answers:
            async with turn:
                return await answers(name, delays, redis_server.url)

        return await asyncio.gather(*(one(*case) for case in CASES), return_exceptions=True)

    redis_server.flush()
    return dict(zip(CASES, asyncio.run(run_all()), strict=True))


@pytest.mark.parametrize(("name", "delays"), CASES)
async def test_the_answers_are_the_same(
    name: str, delays: Delays, live: dict[tuple[str, Delays], Answers | BaseException]
) -> None:
    in_process = await answers(name, delays, None)

    on_a_server = live[name, delays]

    if isinstance(on_a_server, BaseException):
        raise on_a_server
    assert on_a_server == in_process
    assert any(in_process["calls"].values()) or in_process["settlements"]
