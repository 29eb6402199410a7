"""What a stream source declares, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from surestream.contract import Counter, DelayMeans, RetryMeans
from surestream.errors import DeclarationError, DeclarationTypeError
from surestream.redis.sources import DurableZset, RedisStream


def test_the_defaults() -> None:
    source = RedisStream("refunds", group="workers")

    assert (source.block, source.start, source.recover_after) == (5.0, "beginning", 60.0)
    assert (source.name, source.family, source.label) == ("refunds", "stream", "refunds/workers")
    assert source.rivals == RedisStream("refunds", group="workers", block=1).rivals
    assert source.rivals != RedisStream("refunds", group="others").rivals
    assert source.quarantine == "refunds.undecodable"
    assert source.reads("refunds")
    assert not source.reads("refund*")
    assert source == RedisStream("refunds", group="workers", block=timedelta(seconds=5))


def test_what_a_stream_can_do() -> None:
    """Section 6, first row."""
    abilities = RedisStream("refunds", group="g").abilities

    assert (abilities.retry, abilities.capped_retry) == (RetryMeans.COPY, RetryMeans.COPY)
    assert abilities.delay is DelayMeans.HELD
    assert abilities.counter is Counter.HEADER
    assert abilities.address == "refunds"
    assert abilities.counts_crashes
    assert abilities.competes
    assert abilities.recovers
    assert abilities.lease == 60.0


def test_with_a_delay_set_delays_are_parked() -> None:
    source = RedisStream("refunds", group="g", delayed_retry=DurableZset("refunds.delayed"))

    assert source.abilities.delay is DelayMeans.PARKED


def test_without_recovery_there_is_no_lease() -> None:
    abilities = RedisStream("refunds", group="g", recover_after=None).abilities

    assert (abilities.recovers, abilities.lease) == (False, None)


def test_a_consumer_name_of_one_s_own_is_for_one_process() -> None:
    """Rule 6.11."""
    abilities = RedisStream("refunds", group="g", consumer="me", recover_after=None).abilities

    assert not abilities.competes
    assert abilities.recovers


@pytest.mark.case("CK-09")
def test_durations_are_seconds_or_timedelta() -> None:
    source = RedisStream(
        "r",
        group="g",
        block=timedelta(milliseconds=1500),
        recover_after=1.5,
        delayed_retry=DurableZset("d", ttl=timedelta(hours=1)),
    )

    assert (source.block, source.recover_after) == (1.5, 1.5)
    assert source.delayed_retry == DurableZset("d", ttl=3600)


def test_what_a_claiming_stream_can_do() -> None:
    """Section 6, row *claiming*."""
    source = RedisStream.claiming("refunds", min_idle=timedelta(seconds=30), group="g")
    abilities = source.abilities

    assert source.min_idle == 30.0
    assert (abilities.retry, abilities.capped_retry) == (
        RetryMeans.GIVE_BACK,
        RetryMeans.GIVE_BACK,
    )
    assert abilities.delay is DelayMeans.NATIVE
    assert abilities.counter is Counter.SERVER
    assert (abilities.fixed_delay, abilities.max_delay, abilities.lease) == (30.0, 30.0, 30.0)
    assert abilities.counts_crashes
    assert abilities.recovers
    assert abilities.competes
    assert abilities.address == "refunds"


def test_a_claiming_stream_with_a_delay_set_serves_every_delay() -> None:
    source = RedisStream.claiming(
        "refunds", min_idle=30, group="g", delayed_retry=DurableZset("refunds.delayed")
    )

    assert source.abilities.delay is DelayMeans.PARKED
    assert source.abilities.max_delay > 10 * 366 * 86_400
    assert source.abilities.fixed_delay == 30.0


def test_a_claiming_stream_is_the_rival_of_a_plain_one() -> None:
    plain = RedisStream("refunds", group="g")
    claiming = RedisStream.claiming("refunds", min_idle=30, group="g")

    assert claiming.rivals == plain.rivals
    assert claiming != plain
    assert claiming.quarantine == "refunds.undecodable"
    assert repr(claiming) == "RedisStream.claiming('refunds', min_idle=30, group='g')"


def test_a_consumer_name_on_a_claiming_stream_is_for_one_process() -> None:
    source = RedisStream.claiming("refunds", min_idle=30, group="g", consumer="me")

    assert not source.abilities.competes


@pytest.mark.parametrize("min_idle", [0, -1, float("nan"), float("inf"), True, "30", None, 1e9, {}])
def test_a_min_idle_that_cannot_work_is_refused(min_idle: Any) -> None:
    with pytest.raises(DeclarationError, match="min_idle"):
        RedisStream.claiming("refunds", min_idle=min_idle, group="g")


def test_a_claiming_stream_without_a_group_is_refused_with_the_line_to_write() -> None:
    with pytest.raises(DeclarationError) as refused:
        RedisStream.claiming("refunds", min_idle=30)

    assert refused.value.write == 'RedisStream.claiming("refunds", min_idle=30, group="refunds")'


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"group": ""}, "without group=", 'RedisStream("refunds", group="refunds")'),
    ({"group": " "}, "group=' '", "group="),
    ({"group": "a\nb"}, "group='a\\nb'", "group="),
    ({"consumer": ""}, "consumer=''", "consumer="),
    ({"block": 0}, "block=0", "block="),
    ({"block": -1}, "block=-1", "block="),
    ({"block": float("inf")}, "block=inf", "block="),
    ({"block": float("nan")}, "block=nan", "block="),
    ({"block": 86_401}, "block=86401", "block"),
    ({"recover_after": 0}, "recover_after=0", "recover_after="),
    ({"recover_after": 1e9}, "recover_after=1000000000.0", "recover_after"),
    ({"start": "$"}, "start='$'", 'start="new"'),
    ({"start": ""}, "start=''", 'start="new"'),
    ({"start": "1-2-3"}, "start='1-2-3'", 'start="new"'),
    ({"start": "99999999999999999999"}, "start='99999999999999999999'", 'start="new"'),
]


@pytest.mark.parametrize(("given", "what", "write"), REFUSED)
def test_a_value_that_cannot_work_is_refused_with_the_line_to_write(
    given: dict[str, Any], what: str, write: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        RedisStream("refunds", **{"group": "g", **given})

    assert what in refused.value.what
    assert write in (refused.value.write or "")


@pytest.mark.parametrize(
    "given",
    [
        {"group": 1},
        {"consumer": 7},
        {"block": "5"},
        {"block": True},
        {"start": 0},
        {"recover_after": "60"},
        {"delayed_retry": "refunds.delayed"},
    ],
)
def test_a_value_of_the_wrong_type_is_a_type_error_too(given: dict[str, Any]) -> None:
    with pytest.raises(DeclarationTypeError):
        RedisStream("refunds", **{"group": "g", **given})


@pytest.mark.parametrize("key", ["", " ", "a b", "a\n", "*", 1, None])
def test_a_key_that_nothing_can_be_published_to_is_refused(key: Any) -> None:
    with pytest.raises(DeclarationError):
        RedisStream(key, group="g")
    with pytest.raises(DeclarationError):
        DurableZset(key)


@pytest.mark.parametrize("key", ["refunds", "x"])
def test_a_delay_set_under_the_stream_s_own_key_is_refused(key: str) -> None:
    stream = "refunds" if key == "refunds" else "x.unreadable"

    with pytest.raises(DeclarationError, match="one key cannot be"):
        RedisStream(stream, group="g", delayed_retry=DurableZset(key))


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), True, "1 h", 1e18])
def test_a_ttl_that_cannot_work_is_refused(ttl: Any) -> None:
    with pytest.raises(DeclarationError):
        DurableZset("d", ttl=ttl)
