"""What several processes of one service cannot share (rule 6.11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from surestream.app import App
from surestream.cli.sharing import refuse_sharing
from surestream.contract import Abilities
from surestream.errors import DeclarationError
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.redis import RedisBroker, RedisStream
from surestream.subscriber import Subscriber
from tests.unit.cli.test_banner import RowBroker, RowSource

pytestmark = pytest.mark.rule("6.11")


class Everybody(RowSource):
    """Like a channel: whoever listens gets every message."""

    @property
    def abilities(self) -> Abilities:
        return replace(super().abilities, competes=False)


async def handle(payload: bytes) -> None: ...


def app_with(broker: Any, source: Any) -> App:
    app = App("refunds")
    app.add(broker).include(Subscriber(source, handle))
    return app


def test_streams_are_shared() -> None:
    refuse_sharing(app_with(RedisBroker(), RedisStream("refunds", group="g")), 3)


def test_one_process_has_everything_for_itself() -> None:
    refuse_sharing(app_with(MemoryBroker(), MemoryTopic("refunds")), 1)


def test_memory_broker_without_handlers_is_left_alone() -> None:
    app = app_with(RedisBroker(), RedisStream("refunds", group="g"))
    app.add(MemoryBroker())

    refuse_sharing(app, 3)


@pytest.mark.parametrize(
    ("broker", "source", "what"),
    [
        (MemoryBroker(), MemoryTopic("refunds"), "with a MemoryBroker"),
        (
            RedisBroker(),
            RedisStream("refunds", group="g", consumer="one"),
            "with RedisStream('refunds', consumer='one')",
        ),
        (RowBroker(), Everybody("pub/sub channel"), "with Everybody('refunds')"),
    ],
    ids=["memory", "consumer name", "everybody gets everything"],
)
def test_what_is_not_is_refused_with_its_place(broker: object, source: object, what: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        refuse_sharing(app_with(broker, source), 3)

    assert refusal.value.what == f"--workers 3 {what}"
    assert str(refusal.value.where).startswith("handle at ")
    assert "(rule 6.11)" in refusal.value.why
    assert "include(…, workers=3)" in str(refusal.value.write)
