"""The interpreter of scripts: without what the model does anew for each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from surestream.redis.in_process.model import LuaRuntime

__all__ = ["Interpreter"]

COLLECT: Final = b"collectgarbage()"
RUNS_BETWEEN_COLLECTIONS: Final = 64

# A real server refuses names that a script does not declare; a slip shows here too.
GUARD: Final = b"""
setmetatable(_G, {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'")
    end,
    __newindex = function() error("Attempt to modify a readonly table") end,
})
"""


class Interpreter:
    """Stands before the Lua runtime of one server, with the methods that the model calls.

    A script is compiled once. What the model looks for around every command, new global names,
    the guard refuses where they are made; and memory is collected now and then.
    """

    def __init__(self, runtime: LuaRuntime) -> None:
        runtime.execute(GUARD)
        self._runtime = runtime
        self._compiled: dict[bytes, Callable[[], object]] = {}
        self._runs = 0
        self.table_from: Final = runtime.table_from

    def execute(self, code: bytes) -> object:
        """Run a script."""
        if code == COLLECT:
            self._runs += 1
            if self._runs % RUNS_BETWEEN_COLLECTIONS:
                return None
        return self.compile(code)()

    def compile(self, code: bytes) -> Callable[[], object]:
        """A script as a function."""
        compiled = self._compiled.get(code)
        if compiled is None:
            compiled = self._compiled[code] = self._runtime.compile(code)
        return compiled

    def globals(self) -> Interpreter:
        """What the model asks for :meth:`keys`."""
        return self

    def keys(self) -> Collection[bytes]:
        """Global names that a script made: none."""
        return ()
