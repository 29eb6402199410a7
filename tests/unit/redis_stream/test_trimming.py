"""What a publish may be told about the length of its stream, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from surestream import App, DeclarationError, NotRunning
from surestream.errors import BrokerRefused
from surestream.redis import RedisBroker
from surestream.redis.trimming import trim


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"maxlen": 10_000}, ("MAXLEN", "~", 10_000)),
        ({"maxlen": 1, "exact": True}, ("MAXLEN", "=", 1)),
        ({"min_id": "1700000000000-3"}, ("MINID", "~", "1700000000000-3")),
        ({"min_id": "17", "exact": True}, ("MINID", "=", "17")),
    ],
    ids=str,
)
def test_what_the_server_is_told(given: dict[str, Any], arguments: tuple[object, ...]) -> None:
    options = trim(**{"maxlen": None, "min_id": None, "exact": False, **given})

    assert options is not None
    assert options.arguments == arguments


def test_without_options_nothing_is_told() -> None:
    assert trim(None, None, False) is None


@pytest.mark.parametrize(
    ("given", "kind", "why"),
    [
        ({"maxlen": 10, "min_id": "1-1"}, ValueError, "by number or by id, not by both"),
        ({"exact": True}, ValueError, "nothing is cut without maxlen= or min_id="),
        ({"exact": 1, "maxlen": 5}, TypeError, "a yes or no"),
        ({"maxlen": 0}, ValueError, "would drop the one that is published"),
        ({"maxlen": -1}, ValueError, "would drop the one that is published"),
        ({"maxlen": 2**63}, ValueError, "the server counts to"),
        ({"maxlen": "10"}, TypeError, "a whole number of entries"),
        ({"maxlen": True}, TypeError, "a whole number of entries"),
        ({"maxlen": 10.0}, TypeError, "a whole number of entries"),
        ({"min_id": 17}, TypeError, "an entry id is text"),
        ({"min_id": "yesterday"}, ValueError, "no entry id"),
        ({"min_id": "17-"}, ValueError, "no entry id"),
        ({"min_id": str(2**64)}, ValueError, "no entry id"),
        ({"min_id": ""}, ValueError, "no entry id"),
    ],
    ids=str,
)
async def test_what_cannot_be_meant_is_refused(
    given: dict[str, Any], kind: type[Exception], why: str
) -> None:
    # when
    with pytest.raises(DeclarationError, match=why) as told:
        await RedisBroker().publish("refunds", b"x", **given)

    # then it is told before anything else is looked at, with what to write instead
    assert isinstance(told.value, kind)
    assert told.value.write


async def test_good_options_get_as_far_as_the_run() -> None:
    broker = App("refunds").add(RedisBroker())

    with pytest.raises(NotRunning):
        await broker.publish("refunds", b"x", min_id="17-1", exact=True)


@pytest.mark.parametrize("reply", [b"17-3", b"17-4", b"18-0", None])
def test_an_entry_that_stays_passes(reply: bytes | None) -> None:
    options = trim(None, "17-3", False)

    assert options is not None
    options.check(reply)


def test_an_entry_below_its_own_min_id_is_no_success() -> None:
    options = trim(None, "17-3", False)

    assert options is not None
    with pytest.raises(BrokerRefused, match="above the new entry's own id 17-2") as told:
        options.check(b"17-2")
    assert told.value.permanent
