"""What is compared: the paths, who runs them, and how much work each gets."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a path."""

    name: str
    """`family` or `family/variant`; a family's best variant stands for it in the ratios."""

    target: str
    """`module:function`, run in a child process; see `benchmarks.common`."""

    needs: tuple[str, ...] = ()
    """Packages without which it is left out."""

    slow: bool = False
    """Gets the smaller number of entries, so that no round takes long."""

    frame: str = "fields"
    """How the entries it reads are written; see `benchmarks.server.fill`."""

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]

    @property
    def missing(self) -> list[str]:
        return [package for package in self.needs if importlib.util.find_spec(package) is None]


@dataclass(frozen=True)
class Path:
    """One comparison: the same work for every contender."""

    name: str
    contenders: tuple[Contender, ...]
    consumes: bool = True
    concurrent: int = 1
    share: float = 1.0
    """Of the size's entries, for paths on which everyone is slower."""

    wanted: dict[str, float] = field(default_factory=dict[str, float])
    """Smallest ratio of ours to a family that the project asks for."""


@dataclass(frozen=True)
class Size:
    """How much one call of the rig does."""

    fast_entries: int
    slow_entries: int
    rounds: int

    def entries(self, path: Path, contender: Contender) -> int:
        whole = self.slow_entries if contender.slow else self.fast_entries
        return max(1, int(whole * path.share))


QUICK = Size(fast_entries=100_000, slow_entries=4_000, rounds=5)
STANDARD = Size(fast_entries=100_000, slow_entries=10_000, rounds=7)

PEER = ("faststream", "redis")

CONSUME = Path(
    "redis-stream-consume",
    (
        Contender("bare", "benchmarks.bare.stream:consume"),
        Contender("by_hand", "benchmarks.by_hand.stream:consume", ("redis",)),
        Contender("ours", "benchmarks.ours.stream:consume", ("surestream",)),
        Contender(
            "faststream/pydantic",
            "benchmarks.faststream.stream:consume_pydantic",
            PEER,
            slow=True,
            frame="faststream",
        ),
        Contender(
            "faststream/msgspec",
            "benchmarks.faststream.stream:consume_msgspec",
            PEER,
            slow=True,
            frame="faststream",
        ),
    ),
    wanted={"by_hand": 0.8, "faststream": 20.0},
)

PUBLISHERS = (
    Contender("bare", "benchmarks.bare.stream:publish"),
    Contender("by_hand", "benchmarks.by_hand.stream:publish", ("redis",)),
    Contender("ours", "benchmarks.ours.stream:publish", ("surestream",)),
    Contender("faststream", "benchmarks.faststream.stream:publish", PEER, frame="faststream"),
)
PUBLISH_ONE = Path("redis-publish-one-by-one", PUBLISHERS, consumes=False, share=0.1)
PUBLISH_MANY = Path(
    "redis-publish-100-concurrent", PUBLISHERS, consumes=False, concurrent=100, share=0.2
)

ALWAYS = (CONSUME,)
FULL_ONLY = (PUBLISH_ONE, PUBLISH_MANY)
