"""Outcomes and publishes that a handler throws away, found in its source when it is mounted."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from surestream import outcome
from surestream.context import Publisher
from surestream.errors import DeclarationError, Site
from surestream.runtime.calls.signatures import Parameter, closure_values
from surestream.runtime.publishing import Publishing
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


@dataclass(frozen=True, slots=True)
class _Mistake:
    """One place in a handler, and what to write there."""

    node: ast.expr
    what: str
    why: str
    write: str


def refuse_misuse(handler: object, site: Site, parameters: Sequence[Parameter] = ()) -> None:
    """Refuse a handler in which ``retry()`` and the like is called and not returned (rule 2.2).

    Also refused: awaiting or raising an outcome, returning the function instead of what it
    gives, and a ``publish(…)`` that is not awaited, on a broker or on one of the handler's
    ``parameters``. Functions within the handler are not looked at. A handler whose source is
    not at hand passes. Raises ``DeclarationError`` with the line.
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
    names = _Names(written, definition, parameters)
    offset = first - (2 if indented else 1)
    for mistake in (*_mistakes(definition, names), *_unawaited(definition, names, site)):
        where = Site(site.handler, site_of(written).file, mistake.node.lineno + offset)
        raise DeclarationError(mistake.what, where=where, why=mistake.why, write=mistake.write)


class _Names:
    """What the names in a handler stand for, as far as that is certain."""

    def __init__(
        self, written: types.FunctionType, definition: ast.AST, parameters: Sequence[Parameter]
    ) -> None:
        self._globals = written.__globals__
        code = written.__code__
        self._known = closure_values(written)
        self._known.update(dict.fromkeys(code.co_varnames + code.co_cellvars, _UNKNOWN))
        for node in _own(definition):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("surestream"):
                for alias in node.names:
                    function = getattr(outcome, alias.name, _UNKNOWN)
                    self._known[alias.asname or alias.name] = function
        assigned = {
            node.id
            for node in _own(definition)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        self._publishers: dict[str, type] = {
            each.name: each.hint
            for each in parameters
            if each.name not in assigned and _is_publisher(each.hint)
        }

    def outcome_function(self, node: ast.expr) -> str | None:
        """The name of the outcome function that an expression stands for."""
        found = self._value(node)
        return _FUNCTIONS.get(found) if isinstance(found, types.FunctionType) else None

    def publishes(self, node: ast.Call) -> bool:
        """Whether it calls an ``async def`` of a publisher or of a broker."""
        if not isinstance(node.func, ast.Attribute):
            return False
        owner = node.func.value
        kind = self._publishers.get(owner.id) if isinstance(owner, ast.Name) else None
        if kind is None:
            found = self._value(owner)
            kind = type(found) if isinstance(found, Publishing) else None
        return inspect.iscoroutinefunction(getattr(kind, node.func.attr, None))

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


def _is_publisher(hint: object) -> bool:
    return hint is Publisher or (isinstance(hint, type) and issubclass(hint, Publishing))


def _mistakes(definition: ast.AST, names: _Names) -> Iterator[_Mistake]:
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
                why = "the function is returned, not the outcome that it gives"
                yield _unreturned(node.value, f"{name}()", why)


def _thrown_away(result: ast.expr, names: _Names) -> Iterator[_Mistake]:
    yield from _calls(result, names, "its result is thrown away, so it decides nothing")
    name = names.outcome_function(result)
    if name is not None:
        yield _unreturned(result, f"{name}()", "it is not called, and nothing is returned")


def _calls(node: ast.expr, names: _Names, why: str) -> Iterator[_Mistake]:
    if isinstance(node, ast.Call) and names.outcome_function(node.func) is not None:
        yield _unreturned(node, ast.unparse(node), f"{why} (rule 2.2)")


def _unreturned(node: ast.expr, call: str, why: str) -> _Mistake:
    return _Mistake(node, call, why, f"return {call}")


def _unawaited(
    definition: ast.FunctionDef | ast.AsyncFunctionDef, names: _Names, site: Site
) -> Iterator[_Mistake]:
    """Publishes whose coroutine nobody runs. One that is handed on or kept may be run there."""
    for node in _own(definition):
        if isinstance(node, ast.Expr):
            why = "its result is thrown away, so nothing is sent"
        elif isinstance(node, ast.Return) and isinstance(definition, ast.AsyncFunctionDef):
            why = "it is returned and not awaited, so nothing is sent"
        else:
            continue
        for result in () if node.value is None else _results(node.value):
            if isinstance(result, ast.Call) and names.publishes(result):
                call = f"{ast.unparse(result.func)}(…)"
                write = f"await {call}"
                if isinstance(definition, ast.FunctionDef):
                    why = "publishing is awaited, and a def handler cannot await: nothing is sent"
                    write = (
                        f"async def {definition.name}, and {write}; "
                        "or return the value, with include(…, reply_to=…)"
                    )
                yield _Mistake(result, f"{call} in {site.handler}", why, write)


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
