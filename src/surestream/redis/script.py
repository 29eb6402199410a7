"""Lua scripts that the server runs as one command."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha1
from importlib.resources import files

__all__ = ["Script"]


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the digest by which the server knows it once it has run.

    Sent by :meth:`Link.script <surestream.redis.link.Link.script>`. A script must not return an
    error inside a table: nested error replies are not mapped.
    """

    name: str
    source: bytes = field(repr=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        digest = sha1(self.source, usedforsecurity=False).hexdigest().encode()
        object.__setattr__(self, "digest", digest)

    @classmethod
    def load(cls, name: str, package: str = "surestream.redis") -> Script:
        """The script ``scripts/<name>.lua`` of ``package``. Raises ``FileNotFoundError``."""
        return cls(name, files(package).joinpath("scripts", f"{name}.lua").read_bytes())
