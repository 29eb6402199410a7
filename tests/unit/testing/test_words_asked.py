"""A question in words that no record carries is refused, and the right word is named."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from surestream import App, Subscriber
from surestream.errors import DeclarationError
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.outcome import Outcome, ack
from surestream.testing import TestApp
from surestream.testing.words import HowSettled, MessageKind, PlanWord


async def handle(order: int) -> Outcome:
    return ack()


def app() -> App:
    broker = MemoryBroker()
    broker.include(Subscriber(MemoryTopic("orders"), handle))
    made = App("orders")
    made.add(broker)
    return made


@pytest.mark.parametrize(
    ("word", "near"), [("acked", "ack"), ("dead", "dead letter"), ("hand over", None), ("?", None)]
)
async def test_a_way_of_settling_that_is_none_is_refused(word: Any, near: str | None) -> None:
    async with TestApp(app()) as tb:
        await tb.publish("orders", 1)

        with pytest.raises(DeclarationError) as refused:
            tb.assert_settled(handle, "ack", word)

    assert refused.value.what == f"assert_settled(…, {word!r})"
    assert near is None or f"did you mean {near!r}?" in refused.value.why
    assert "'overtaken'" in str(refused.value.write)


@pytest.mark.parametrize(
    ("word", "near"), [("dead", "dead letter"), ("handover", "hand-over"), ("copies", "copy")]
)
async def test_a_kind_of_message_that_is_none_is_refused(word: Any, near: str) -> None:
    async with TestApp(app()) as tb:
        for ask in (tb.published, lambda kind: tb.assert_published("orders", kind=kind)):
            with pytest.raises(DeclarationError) as refused:
                ask(kind=word)
            assert refused.value.what == f"kind={word!r}"
            assert f"did you mean {near!r}?" in refused.value.why


async def test_every_word_there_is_can_be_asked() -> None:
    async with TestApp(app()) as tb:
        for kind in get_args(MessageKind):
            assert tb.published("nowhere", kind=kind) == []
        for word in (*get_args(PlanWord), *get_args(get_args(HowSettled)[1])):
            with pytest.raises(AssertionError, match="settled"):
                tb.assert_settled(handle, word)
