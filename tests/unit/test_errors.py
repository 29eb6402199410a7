"""The texts of errors, and what a caller can catch them as."""

from __future__ import annotations

import pytest

from surestream import errors
from surestream.errors import (
    BrokerRefused,
    ConnectFailed,
    ConnectRefused,
    DeclarationError,
    DeclarationTypeError,
    HandlerTimeout,
    MissingExtra,
    Site,
    SureStreamError,
)

SITE = Site("process_refund", "service.py", 41)


@pytest.mark.rule("7.1")
def test_a_refusal_says_what_where_why_and_what_to_write() -> None:
    refusal = DeclarationError(
        "max_attempts=0",
        where=SITE,
        why="a cap counts the first delivery",
        write="max_attempts=1",
    )

    assert str(refusal) == (
        "refused: max_attempts=0\n"
        "  where: process_refund at service.py:41\n"
        "  why:   a cap counts the first delivery\n"
        "  write: max_attempts=1"
    )


def test_a_refusal_leaves_out_what_it_does_not_know() -> None:
    refusal = DeclarationError("max_attempts=0", why="a cap counts the first delivery")

    assert str(refusal) == ("refused: max_attempts=0\n  why:   a cap counts the first delivery")


@pytest.mark.parametrize("kind", [DeclarationError, DeclarationTypeError])
def test_a_refusal_learns_where_it_happened_once(kind: type[DeclarationError]) -> None:
    bare = kind("group=''", why="a group needs a name", write="group='x'")

    placed = bare.at(SITE)

    assert type(placed) is kind
    assert (placed.what, placed.why, placed.write) == (bare.what, bare.why, bare.write)
    assert placed.where == SITE
    assert bare.where is None
    assert placed.at("elsewhere") is placed


def test_refusals_are_caught_as_what_python_calls_them() -> None:
    assert issubclass(DeclarationError, ValueError)
    assert issubclass(DeclarationTypeError, (DeclarationError, TypeError))
    assert issubclass(DeclarationTypeError, TypeError)
    assert issubclass(HandlerTimeout, TimeoutError)
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(ConnectRefused, ConnectFailed)


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_has_the_one_base(name: str) -> None:
    kind = getattr(errors, name)

    assert kind is Site or issubclass(kind, SureStreamError)


def test_a_missing_extra_says_in_one_line_what_to_install() -> None:
    error = MissingExtra("redis", needs="redis and hiredis", purpose="RedisBroker")

    assert str(error) == "RedisBroker needs redis and hiredis: pip install 'surestream[redis]'"
    assert error.extra == "redis"


def test_a_refused_command_says_whether_another_try_makes_sense() -> None:
    assert not BrokerRefused("OOM command not allowed").permanent
    assert BrokerRefused("string exceeds maximum size", permanent=True).permanent
    assert str(BrokerRefused("OOM command not allowed")) == "OOM command not allowed"
