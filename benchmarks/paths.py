"""What is compared: the paths, who runs them, and how much work each gets."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Literal


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


Kind = Literal["consume", "publish", "local"]


@dataclass(frozen=True)
class Path:
    """One comparison: the same work for every contender."""

    name: str
    contenders: tuple[Contender, ...]
    kind: Kind = "consume"
    """From a filled stream, into an empty one, or without a server."""

    concurrent: int = 1
    retried: bool = False
    """Every message fails once."""

    loop: str = ""
    """The event loop that everybody gets here; by default the one of the run."""

    share: float = 1.0
    """Of the size's entries, for paths on which everyone is slower."""

    wanted: dict[str, float] = field(default_factory=dict[str, float])
    """Smallest ratio of ours to a family that the project asks for."""

    wanted_rate: float = 0.0
    """Fewest messages a second of ours that the project asks for."""


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
STANDARD = QUICK
FULL = Size(fast_entries=100_000, slow_entries=10_000, rounds=7)

OURS = ("surestream",)
DRIVER = ("redis",)
FASTSTREAM = ("faststream", "redis")
TASKIQ = ("taskiq", "taskiq_redis")

CONSUME = Path(
    "redis-stream-consume",
    (
        Contender("bare", "benchmarks.bare.stream:consume"),
        Contender("by_hand", "benchmarks.by_hand.stream:consume", DRIVER),
        Contender("ours", "benchmarks.ours.stream:consume", OURS),
        Contender(
            "faststream/pydantic",
            "benchmarks.faststream.stream:consume_pydantic",
            FASTSTREAM,
            slow=True,
            frame="faststream",
        ),
        Contender(
            "faststream/msgspec",
            "benchmarks.faststream.stream:consume_msgspec",
            FASTSTREAM,
            slow=True,
            frame="faststream",
        ),
        Contender("taskiq", "benchmarks.taskiq.stream:consume", TASKIQ, slow=True, frame="taskiq"),
    ),
    wanted={"by_hand": 0.8, "faststream": 20.0},
)


def _everyone(function: str) -> tuple[Contender, ...]:
    """The contenders of a path that all have under one name."""
    return (
        Contender("bare", f"benchmarks.bare.stream:{function}"),
        Contender("by_hand", f"benchmarks.by_hand.stream:{function}", DRIVER),
        Contender("ours", f"benchmarks.ours.stream:{function}", OURS),
        Contender(
            "faststream",
            f"benchmarks.faststream.stream:{function}",
            FASTSTREAM,
            slow=True,
            frame="faststream",
        ),
        Contender(
            "taskiq", f"benchmarks.taskiq.stream:{function}", TASKIQ, slow=True, frame="taskiq"
        ),
    )


PUBLISH_ONE = Path("redis-publish-one-by-one", _everyone("publish"), kind="publish", share=0.1)
PUBLISH_MANY = Path(
    "redis-publish-100-concurrent",
    _everyone("publish"),
    kind="publish",
    concurrent=100,
    share=0.2,
    wanted={"by_hand": 5.0},
)
RETRIED = Path("redis-stream-retried-once", _everyone("consume_retried"), retried=True, share=0.3)
WORKERS = Path("redis-stream-workers8", _everyone("consume_by_workers"), share=0.5)
MEMORY = Path(
    "memory-consume",
    (
        Contender("bare", "benchmarks.bare.memory:consume"),
        Contender("by_hand", "benchmarks.by_hand.memory:consume"),
        Contender("ours", "benchmarks.ours.memory:consume", OURS),
    ),
    kind="local",
)
HARNESS = Path(
    "harness",
    (
        Contender("ours", "benchmarks.ours.memory:test_redis", (*OURS, "fakeredis")),
        Contender(
            "ours_one_by_one",
            "benchmarks.ours.memory:test_redis_one_by_one",
            (*OURS, "fakeredis"),
        ),
        Contender("ours_memory", "benchmarks.ours.memory:test_memory", OURS),
        Contender("faststream", "benchmarks.faststream.memory:test_redis", FASTSTREAM, slow=True),
        Contender("taskiq", "benchmarks.taskiq.memory:test_memory", ("taskiq",), slow=True),
    ),
    kind="local",
    loop="asyncio",
    share=0.1,
    wanted_rate=20_000,
)

QUICK_PATHS = (CONSUME, PUBLISH_ONE, PUBLISH_MANY)
PATHS = (*QUICK_PATHS, RETRIED, WORKERS, MEMORY, HARNESS)
