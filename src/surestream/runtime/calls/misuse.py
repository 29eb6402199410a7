"""Outcomes that a handler builds and throws away, found in its source when it is mounted."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Iterator
from typing import Final

from surestream import outcome
from surestream.errors import DeclarationError, Site
from surestream.runtime.calls.signatures import closure_values
from surestream.subscriber import site_of, written_function

__all__ = ["refuse_misuse"]

_FUNCTIONS: Final[dict[object, str]] = {
    outcome.ack: "ack",
    outcome.drop: "drop",
    outcome.retry: "retry",
    outcome.retry_after: "retry_after",
    outcome.fail_fast: "fail_fast",
}
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_UNKNOWN: Final = object()


def refuse_misuse(handler: object, site: Site) -> None:
    """Refuse a handler in which ``retry()`` and the like is called and not returned (rule 2.2).

    Also refused: awaiting or raising an outcome, and returning the function instead of what it
    gives. Functions within the handler are not looked at. A handler whose source is not at
    hand passes. Raises ``DeclarationError`` with the line.
    """
    written = written_function(handler)
    if written is None or written.__name__ == "<lambda>":
        return
    try:
        lines, first = inspect.getsourcelines(written)
        # An `if` above it takes any indentation the function has.
        indented = lines[0][:1].isspace()
        tree = ast.parse("".join(["if True:\n", *lines] if indented else lines))
    except (OSError, TypeError, SyntaxError, IndexError):
        return
    definition = tree.body[0].body[0] if isinstance(tree.body[0], ast.If) else tree.body[0]
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    if definition.name != written.__name__:
        return  # the file has changed since it was imported
    names = _Names(written, definition)
    offset = first - (2 if indented else 1)
    for node, why, name in _mistakes(definition, names):
        where = Site(site.handler, site_of(written).file, node.lineno + offset)
        call = ast.unparse(node) if isinstance(node, ast.Call) else f"{name}()"
        raise DeclarationError(call, where=where, why=why, write=f"return {call}")


class _Names:
    """What the names in a handler stand for, as far as that is certain."""

    def __init__(self, written: types.FunctionType, definition: ast.AST) -> None:
        self._globals = written.__globals__
        code = written.__code__
        self._known = closure_values(written)
        self._known.update(dict.fromkeys(code.co_varnames + code.co_cellvars, _UNKNOWN))
        for node in _own(definition):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("surestream"):
                for alias in node.names:
                    function = getattr(outcome, alias.name, _UNKNOWN)
                    self._known[alias.asname or alias.name] = function

    def outcome_function(self, node: ast.expr) -> str | None:
        """The name of the outcome function that an expression stands for."""
        found = self._value(node)
        return _FUNCTIONS.get(found) if isinstance(found, types.FunctionType) else None

    def _value(self, node: ast.expr) -> object:
        if isinstance(node, ast.Name):
            if node.id in self._known:
                return self._known[node.id]
            return self._globals.get(node.id, _UNKNOWN)
        if isinstance(node, ast.Attribute):
            module = self._value(node.value)
            # Only modules: to look at an attribute of anything else could run code.
            if isinstance(module, types.ModuleType):
                return getattr(module, node.attr, _UNKNOWN)
        return _UNKNOWN


def _mistakes(definition: ast.AST, names: _Names) -> Iterator[tuple[ast.expr, str, str]]:
    for node in _own(definition):
        if isinstance(node, ast.Expr):
            for result in _results(node.value):
                yield from _thrown_away(result, names)
        elif isinstance(node, ast.Await):
            yield from _calls(node.value, names, "an outcome is a value: there is nothing to await")
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield from _calls(node.exc, names, "an outcome is a value, and only exceptions rise")
        elif isinstance(node, ast.Return) and node.value is not None:
            name = names.outcome_function(node.value)
            if name is not None:
                yield node.value, "the function is returned, not the outcome that it gives", name


def _thrown_away(result: ast.expr, names: _Names) -> Iterator[tuple[ast.expr, str, str]]:
    yield from _calls(result, names, "its result is thrown away, so it decides nothing")
    name = names.outcome_function(result)
    if name is not None:
        yield result, "it is not called, and nothing is returned", name


def _calls(node: ast.expr, names: _Names, why: str) -> Iterator[tuple[ast.Call, str, str]]:
    if isinstance(node, ast.Call):
        name = names.outcome_function(node.func)
        if name is not None:
            yield node, f"{why} (rule 2.2)", name


def _results(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that an expression statement may end with."""
    if isinstance(node, ast.IfExp):
        yield from _results(node.body)
        yield from _results(node.orelse)
    elif isinstance(node, ast.BoolOp):
        yield from _results(node.values[-1])
    else:
        yield node


def _own(definition: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function in order, without those of functions and classes inside it."""
    for child in ast.iter_child_nodes(definition):
        if isinstance(child, _SCOPES):
            continue
        yield child
        yield from _own(child)
