"""What can be declared as a memory topic."""

from __future__ import annotations

import pytest

from surestream.errors import DeclarationError, DeclarationTypeError
from surestream.memory import MemoryTopic
from tests.unit.redelivery.rows import BY_NAME


def test_a_topic_is_read_by_its_default_group_unless_another_is_named() -> None:
    plain, named = MemoryTopic("orders"), MemoryTopic("orders", group="billing")

    assert (plain.name, plain.group, plain.label) == ("orders", "default", "orders/default")
    assert (named.name, named.group, named.label) == ("orders", "billing", "orders/billing")
    assert plain.family == "topic"


def test_names_are_exact() -> None:
    topic = MemoryTopic("orders.eu")

    assert topic.reads("orders.eu")
    assert not topic.reads("orders.us")
    assert not topic.reads("Orders.eu")


def test_readers_compete_where_topic_and_group_are_the_same() -> None:
    assert MemoryTopic("orders").rivals == MemoryTopic("orders", group="default").rivals
    assert MemoryTopic("orders").rivals != MemoryTopic("orders", group="billing").rivals
    assert MemoryTopic("orders").rivals != MemoryTopic("refunds").rivals


def test_the_abilities_are_the_row_memory_of_section_6() -> None:
    assert MemoryTopic("orders").abilities == BY_NAME["memory"].abilities


@pytest.mark.parametrize("topic", ["", "  ", "two words", "a\nb", "orders.*", "#", "devices/+/x"])
def test_a_topic_that_nothing_can_be_published_to_is_refused(topic: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        MemoryTopic(topic)

    assert f"topic={topic!r}" in str(refusal.value)


@pytest.mark.parametrize("group", ["", "  ", "a\tb", "\x00"])
def test_a_group_that_cannot_be_named_is_refused(group: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        MemoryTopic("orders", group=group)

    assert str(refusal.value) == (
        f"refused: group={group!r}\n"
        "  why:   a group needs a name that can be printed\n"
        '  write: group="billing"'
    )


@pytest.mark.parametrize("value", [None, 7, b"orders", ["orders"]])
def test_a_name_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(DeclarationTypeError, match=r"an address is text|leave the setting out"):
        MemoryTopic(value)  # type: ignore[arg-type]
    with pytest.raises(DeclarationTypeError, match="the name of a group is text"):
        MemoryTopic("orders", group=value)  # type: ignore[arg-type]
