"""Dead letters: what they carry, why, and how their readers count (rules 3.8, 4.3, 4.5)."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec
import pytest

from surestream import Headers, Outcome, ack, retry, retry_after
from surestream.contract import Abilities
from surestream.message import DEAD_PREFIX, RETRY_COUNT_HEADER
from tests.in_process.core.service import Service, details, headers
from tests.in_process.core.sources import (
    CHANNEL,
    CLAIMING,
    CORE,
    LEAVING,
    NATIVE,
    PARKING,
    STREAM,
    BenchSource,
    Place,
)

COUNT = RETRY_COUNT_HEADER
EVERY = [STREAM, PARKING, CLAIMING, NATIVE, CORE, CHANNEL, LEAVING]
NAMES = ["stream", "parking", "claiming", "native", "core", "channel", "leaving"]


class Order(msgspec.Struct):
    id: int


class BrokenError(Exception):
    pass


async def again(order: Order) -> Outcome:
    return retry()


async def breaks(order: Order) -> None:
    raise BrokenError("die Mühle\n steht")


async def review(order: Order, sent: Headers) -> None:
    pass


@pytest.mark.case("OS-06", "WC-08", "TH-01")
@pytest.mark.rule("3.2", "4.3")
@pytest.mark.parametrize("can", EVERY, ids=NAMES)
@pytest.mark.parametrize("cap", [1, 2, 5])
@pytest.mark.parametrize("delayed", [True, False])
async def test_handler_runs_cap_times_and_one_dead_letter_follows(
    service: Service, can: Abilities, cap: int, delayed: bool
) -> None:
    async def fails(order: Order) -> Outcome:
        return retry_after(30) if delayed else retry()

    service.on(fails, can, max_attempts=cap, dead_letter="orders.dlq")
    service.on(review, can, "orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", Order(1), headers={"trace": "abc"})
        for _ in range(cap + 5):
            await tb.advance(30)

        assert [call.attempt for call in tb.calls(fails)] == list(range(1, cap + 1))
        (read,) = tb.calls(review)
        assert read.value == Order(1)
        assert (read.headers["trace"], read.headers[COUNT]) == ("abc", str(cap))
        tb.assert_nothing_waits()
    (letter,) = service.bench.at("orders.dlq")
    assert details(letter)["reason"] == "attempts-spent"
    assert details(letter)["attempts"] == str(cap)


@pytest.mark.rule("4.3")
async def test_short_details_say_why_in_ascii(service: Service) -> None:
    source = BenchSource("orders/ä b", STREAM)
    service.on(breaks, source=source, max_attempts=1, dead_letter="orders.dlq")
    service.bench.ready(source, b'{"id":1}')
    async with service.test() as tb:
        await tb.advance(0)

    (letter,) = service.bench.stored
    assert all(value.isascii() and len(value) < 200 for _, value in letter.headers)
    assert all(name.startswith(DEAD_PREFIX) or name == COUNT for name, _ in letter.headers)
    assert details(letter) == {
        "reason": "attempts-spent",
        "source": "orders/%C3%A4%20b",
        "subscription": "orders/%C3%A4%20b/g",
        "attempts": "1",
        "time": "2025-01-01T00:00:00.000+00:00",
        "service": "shop/1.2.0",
        "deaths": "1",
        "error": f"{__name__}.BrokenError",
    }


@pytest.mark.rule("4.3")
async def test_full_details_add_message_and_traceback(service: Service) -> None:
    service.on(breaks, max_attempts=1, dead_letter="orders.dlq", dead_letter_details="full")
    async with service.test() as tb:
        await tb.publish("orders", Order(1))

    (letter,) = service.bench.at("orders.dlq")
    told = details(letter)
    assert unquote(told["message"]) == "die Mühle\n steht"
    assert "in breaks\n" in unquote(told["traceback"])
    assert all(value.isascii() and b"\n" not in value for _, value in letter.headers)


@pytest.mark.rule("4.3")
async def test_full_details_are_cut_to_four_kibibytes(service: Service) -> None:
    async def talks(order: Order) -> None:
        raise BrokenError("ä" * 10_000)

    service.on(talks, max_attempts=1, dead_letter="orders.dlq", dead_letter_details="full")
    async with service.test() as tb:
        await tb.publish("orders", Order(1))

    (letter,) = service.bench.at("orders.dlq")
    sizes = [len(value) for _, value in letter.headers]
    assert max(sizes) <= 4096
    message = unquote(details(letter)["message"])
    assert set(message) == {"ä"}


@pytest.mark.rule("4.3")
async def test_no_details_is_a_forward_as_it_arrived_but_for_the_count(
    service: Service,
) -> None:
    service.on(breaks, max_attempts=1, dead_letter="orders.dlq", dead_letter_details="none")
    sent = ((DEAD_PREFIX + "reason", b"of another service"), ("a", b"1"))
    service.bench.ready(BenchSource("orders"), b'{"id":1}', headers=sent)
    async with service.test() as tb:
        await tb.advance(0)

    (letter,) = service.bench.at("orders.dlq")
    assert letter.headers == ((COUNT, b"1"), *sent)


@pytest.mark.rule("3.4", "4.3")
async def test_a_destination_without_cap_takes_the_first_retry(service: Service) -> None:
    async def delayed(order: Order) -> Outcome:
        return retry_after(3600)

    service.on(delayed, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", Order(1))

        tb.assert_settled(delayed, "dead letter")
    (letter,) = service.bench.at("orders.dlq")
    assert (headers(letter)[COUNT], details(letter)["reason"]) == ("1", "no-retries-declared")


@pytest.mark.rule("3.4")
@pytest.mark.parametrize("can", EVERY, ids=NAMES)
async def test_a_cap_without_destination_rejects_with_a_warning(
    service: Service, can: Abilities, caplog: pytest.LogCaptureFixture
) -> None:
    service.on(again, can, max_attempts=2)
    async with service.test() as tb:
        await tb.publish("orders", Order(1))
        await tb.advance(60)

        tb.assert_called(again, times=2)
        assert tb.settlements(again)[-1].how == "rejected"
        tb.assert_nothing_waits()
    (told,) = [one for one in caplog.records if "rejected" in one.getMessage()]
    assert told.levelname == "WARNING"
    assert "attempt 2/2: attempts are spent and no dead_letter is declared" in told.getMessage()


# -- those who read dead letters --------------------------------------------------------------


@pytest.mark.rule("3.8", "4.3")
async def test_a_reviewer_counts_anew_and_its_dead_letter_tells_its_own_story(
    service: Service,
) -> None:
    async def review_again(order: Order) -> Outcome:
        return retry()

    service.on(again, max_attempts=3, dead_letter="orders.dlq")
    service.on(review_again, topic="orders.dlq", max_attempts=2, dead_letter="orders.lost")
    async with service.test() as tb:
        await tb.publish("orders", Order(1), headers={"a": "1"})
        await tb.advance(10)

        assert [call.attempt for call in tb.calls(review_again)] == [1, 2]
        assert [call.headers[COUNT] for call in tb.calls(review_again)] == ["3", "4"]
    (lost,) = service.bench.at("orders.lost")
    assert headers(lost)[COUNT] == "5"
    names = [name for name, _ in lost.headers]
    assert len(names) == len(set(names))
    told = details(lost)
    assert (told["source"], told["subscription"]) == ("orders.dlq", "orders.dlq/g")


@pytest.mark.rule("3.8")
async def test_a_wildcard_counts_what_died_at_that_very_address_by_its_header(
    service: Service,
) -> None:
    wild = BenchSource("devices/*", wild=True)
    service.on(
        again,
        source=wild,
        max_attempts=2,
        dead_letter="dead",
        retry_to=lambda delivery: delivery[Place],
    )
    async with service.test() as tb:
        await tb.publish("devices/7", Order(1))
        (letter,) = service.bench.at("dead")
        # Somebody sends it round again, as it is.
        again_there = service.bench.ready(wild, letter.payload, headers=letter.headers)
        again_there.message = type(letter)("devices/7", letter.payload, letter.headers)
        await tb.advance(10)

        assert [call.attempt for call in tb.calls(again)] == [1, 2, 3]
    first, second = service.bench.at("dead")
    assert (headers(first)[COUNT], headers(second)[COUNT]) == ("2", "3")
    assert (details(first)["deaths"], details(second)["deaths"]) == ("1", "2")


@pytest.mark.rule("6.1", "4.3")
async def test_a_dead_letter_that_is_sent_round_again_and_again_slows_down(
    service: Service,
) -> None:
    """Somebody shovels the dead letters back."""
    service.on(again, max_attempts=2, dead_letter="orders.dlq")
    source = BenchSource("orders")
    async with service.test() as tb:
        await tb.publish("orders", Order(1))
        for _ in range(8):
            letter = service.bench.at("orders.dlq")[-1]
            service.bench.ready(source, letter.payload, headers=letter.headers)
            await tb.advance(2)

    letters = service.bench.at("orders.dlq")
    deaths = [details(letter)["deaths"] for letter in letters]
    assert deaths == [str(n) for n in range(1, 10)]
    seconds = [float(details(letter)["time"][17:23]) % 2 for letter in letters]
    assert [round(one, 3) for one in seconds] == [0, 0, 0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.rule("3.8")
async def test_details_survive_a_reviewers_retries(service: Service) -> None:
    """So that the reviewer's later attempts count right too."""

    async def review_later(order: Order, sent: Headers) -> Outcome:
        return retry_after(5) if sent[COUNT] != "5" else ack()

    service.on(again, max_attempts=2, dead_letter="orders.dlq")
    service.on(review_later, topic="orders.dlq", max_attempts=9)
    async with service.test() as tb:
        await tb.publish("orders", Order(1))
        await tb.advance(60)

        calls = tb.calls(review_later)
        assert [call.attempt for call in calls] == [1, 2, 3, 4]
        assert {call.headers[DEAD_PREFIX + "source"] for call in calls} == {"orders"}


@pytest.mark.rule("4.3")
async def test_the_error_of_a_refused_copy_does_not_hide_the_handlers(
    service: Service,
) -> None:
    service.on(breaks, max_attempts=5, dead_letter="orders.dlq")
    service.bench.refuse("orders", "too large", permanent=True)
    service.bench.ready(BenchSource("orders"), b'{"id":1}')
    async with service.test() as tb:
        await tb.advance(5)

    (letter,) = service.bench.at("orders.dlq")
    assert details(letter)["reason"] == "copy-refused"
    assert details(letter)["error"].endswith("BrokenError")


@pytest.mark.rule("4.5")
async def test_an_error_line_tells_of_the_dead_letter(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.on(again, max_attempts=1, dead_letter="orders.dlq")
    async with service.test() as tb:
        await tb.publish("orders", Order(1))

    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert line == "orders/g 1 attempt 1/1: attempts are spent, dead letter to orders.dlq"
