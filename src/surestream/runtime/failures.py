"""An exception is an outcome too (rule 2.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import cast

from surestream.declaration import ErrorRules
from surestream.outcome import DEFAULT_BACKOFF, Drop, Outcome, Retry, retry_after

__all__ = ["UNLISTED", "ErrorPolicy", "compile_errors"]

log = logging.getLogger("surestream.dispatch")

ErrorPolicy = Callable[[BaseException, int], Outcome]

UNLISTED = retry_after(DEFAULT_BACKOFF)
"""The outcome of an exception nobody declared; told apart by identity."""


def compile_errors(rules: ErrorRules | None) -> ErrorPolicy:
    """The outcome for an exception and the attempt that raised it.

    ``Retry`` and ``Drop`` carry their own. A group whose leaves are of one class counts as such
    a leaf. The most specific listed class wins; what is not listed backs off.
    """
    if rules is None:
        rules = {}
    if isinstance(rules, Mapping):
        table = cast(Mapping[type[BaseException], Outcome], rules)
        return lambda error, attempt: _look_up(table, _unwrap(error))
    ask = rules

    def by_callable(error: BaseException, attempt: int) -> Outcome:
        leaf = _unwrap(error)
        if isinstance(leaf, Retry | Drop):
            return leaf.outcome
        try:
            outcome: object = ask(leaf, attempt)
        except Exception:
            log.exception("on_error raised for %s: backing off instead", type(leaf).__name__)
            return UNLISTED
        if isinstance(outcome, Outcome):
            return outcome
        log.error("on_error gave %r, which is no outcome: backing off instead", outcome)
        return UNLISTED

    return by_callable


def _look_up(table: Mapping[type[BaseException], Outcome], error: BaseException) -> Outcome:
    for kind in type(error).__mro__:
        if kind in table:
            return table[kind]
    if isinstance(error, Retry | Drop):
        return error.outcome
    return UNLISTED


def _unwrap(error: BaseException) -> BaseException:
    """The leaf of a group with one kind of leaf; anything else as it is."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    leaves = _leaves(group)
    kinds = {type(leaf) for leaf in leaves}
    return leaves[0] if len(kinds) == 1 else group


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for part in group.exceptions:
        if isinstance(part, BaseExceptionGroup):
            found.extend(_leaves(cast("BaseExceptionGroup[BaseException]", part)))
        else:
            found.append(part)
    return found
