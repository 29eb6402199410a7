"""When a promoter looks for what it was told of (rule 6.5)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.redis.delays import Promoter
from surestream.redis.reconnecting import ReconnectingLink


def never() -> Any:
    raise AssertionError("nothing connects here")


@pytest.mark.rule("6.5")
@given(st.integers(10**15, 4 * 10**15), st.integers(0, 10**9))
def test_it_is_not_told_too_early_a_time(now: int, wait_us: int) -> None:
    """Times in microseconds since 1970 do not fit into a floating number of seconds."""

    async def waits() -> float:
        loop = asyncio.get_running_loop()
        loop.time = lambda: 0.0  # type: ignore[method-assign]
        link = ReconnectingLink(never, name="n", display="d", random=random.Random(1))
        promoter = Promoter(link, "delayed", "stream")
        promoter._wake_at = 1e12
        due = -(-(now + wait_us) // 1000)
        promoter.expect(due, now)
        return promoter._wake_at

    due = -(-(now + wait_us) // 1000)
    assert asyncio.run(waits()) == (due * 1000 - now) / 1e6
