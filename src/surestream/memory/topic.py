"""What a subscription to a memory broker reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from surestream.contract import Abilities, Counter, DelayMeans, RetryMeans, Source
from surestream.declaration import check_address
from surestream.delivery import Key
from surestream.errors import DeclarationError, DeclarationTypeError

__all__ = ["MemoryTopic", "TopicName"]

TopicName: Final = Key("TopicName", str)
"""The topic a message arrived on."""


@dataclass(frozen=True, slots=True)
class MemoryTopic(Source):
    """A topic of a memory broker, read by one group.

    Names are exact: there are no wildcards. Readers of one group share the messages, each group
    gets all of them. Retries and delays hand the same message out again, counted by the broker
    (section 6, row *memory*). What is left when the process ends is gone.

    Raises ``DeclarationError`` for a topic that nothing can be published to, and for a group
    without a printable name.
    """

    topic: str
    group: str = field(default="default", kw_only=True)

    def __post_init__(self) -> None:
        check_address(self.topic, "topic")
        _check_group(self.group)

    @property
    def name(self) -> str:
        return self.topic

    @property
    def family(self) -> str:
        return "topic"

    @property
    def abilities(self) -> Abilities:
        return Abilities(
            retry=RetryMeans.GIVE_BACK,
            capped_retry=RetryMeans.GIVE_BACK,
            delay=DelayMeans.NATIVE,
            counter=Counter.SERVER,
            address=self.topic,
            survives_kill=False,
        )

    @property
    def rivals(self) -> object:
        return (self.topic, self.group)

    def prefixed(self, prefix: str) -> MemoryTopic:
        return replace(self, topic=prefix + self.topic)

    @property
    def keeps_unread(self) -> bool:
        return False

    @property
    def label(self) -> str:
        return f"{self.topic}/{self.group}"


def _check_group(group: object) -> None:
    what, write = f"group={group!r}", 'group="billing"'
    if not isinstance(group, str):
        raise DeclarationTypeError(what, why="the name of a group is text", write=write)
    if not group.strip() or not group.isprintable():
        raise DeclarationError(what, why="a group needs a name that can be printed", write=write)
