"""An exception is an outcome too (rule 2.3), and which one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from surestream import (
    Drop,
    Outcome,
    Retry,
    ServiceFailed,
    ack,
    drop,
    fail_fast,
    retry,
    retry_after,
)
from tests.in_process.core.service import Service
from tests.in_process.core.sources import NATIVE

pytestmark = pytest.mark.rule("2.3")


class BusyError(Exception):
    pass


class VeryBusyError(BusyError):
    pass


class DeclinedError(Exception):
    pass


RULES = {
    BusyError: retry_after(30),
    DeclinedError: drop(),
    OSError: ack(),
    asyncio.CancelledError: drop(),
}


def raising(error: BaseException) -> Callable[..., Any]:
    async def handle(order: int) -> None:
        raise error

    return handle


async def how_it_ends(service: Service, error: BaseException, **options: Any) -> str:
    handle = raising(error)
    service.on(handle, **options)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        (call,) = tb.calls(handle)
        return repr(call.outcome)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        pytest.param(BusyError(), "retry_after(30)", id="listed"),
        pytest.param(VeryBusyError(), "retry_after(30)", id="a subclass"),
        pytest.param(DeclinedError(), "drop()", id="drop"),
        pytest.param(FileNotFoundError(), "ack()", id="ack"),
        pytest.param(ExceptionGroup("", [BusyError(), BusyError()]), "retry_after(30)", id="group"),
        pytest.param(
            ExceptionGroup("", [ExceptionGroup("", [DeclinedError()]), DeclinedError()]),
            "drop()",
            id="nested groups",
        ),
        pytest.param(ExceptionGroup("", [Drop(), Drop()]), "drop()", id="group of Drop"),
        pytest.param(Retry(after=5), "retry_after(5)", id="Retry"),
        pytest.param(asyncio.CancelledError(), "drop()", id="CancelledError"),
    ],
)
async def test_exceptions_are_looked_up(
    service: Service, error: BaseException, outcome: str
) -> None:
    assert await how_it_ends(service, error, on_error=RULES) == outcome


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(KeyError(1), id="unlisted"),
        pytest.param(ExceptionGroup("", [BusyError(), DeclinedError()]), id="mixed group"),
        pytest.param(GeneratorExit(), id="GeneratorExit"),
        pytest.param(StopIteration(), id="StopIteration"),
        pytest.param(StopAsyncIteration(), id="StopAsyncIteration"),
    ],
)
async def test_what_is_not_listed_backs_off(service: Service, error: BaseException) -> None:
    outcome = await how_it_ends(service, error, on_error=RULES)

    assert outcome == "retry_after(Backoff(first=1.0, factor=2.0, limit=60.0, jitter=0.1))"


async def test_the_most_specific_class_wins_whatever_the_order(service: Service) -> None:
    rules = {Exception: retry(), BusyError: drop(), VeryBusyError: retry_after(7)}

    assert await how_it_ends(service, VeryBusyError(), on_error=rules) == "retry_after(7)"


async def test_a_listed_retry_class_overrides_what_the_exception_carries(
    service: Service,
) -> None:
    assert await how_it_ends(service, Retry(after=5), on_error={Retry: drop()}) == "drop()"


async def test_the_default_waits_longer_with_each_attempt_up_to_a_minute(
    service: Service,
) -> None:
    handle = raising(ValueError("no"))
    service.on(handle, NATIVE, max_attempts=9)
    async with service.test() as tb:
        await tb.publish("orders", 1)
        await tb.advance(400)
        at = [call.at for call in tb.calls(handle)]

    waits = [late - early for early, late in itertools.pairwise(at)]
    wanted = [1, 2, 4, 8, 16, 32, 60, 60]
    assert all(want <= wait <= 1.1 * want + 0.001 for want, wait in zip(wanted, waits, strict=True))


async def test_a_callable_is_asked_with_the_leaf_and_the_attempt(service: Service) -> None:
    asked: list[tuple[type[BaseException], int]] = []

    def rules(error: BaseException, attempt: int) -> Outcome:
        asked.append((type(error), attempt))
        return retry() if attempt < 3 else drop()

    handle = raising(ExceptionGroup("", [BusyError()]))
    service.on(handle, on_error=rules)
    async with service.test() as tb:
        await tb.publish("orders", 1)

        tb.assert_settled(handle, "copy", "copy", "drop")
    assert asked == [(BusyError, 1), (BusyError, 2), (BusyError, 3)]


async def test_a_callable_is_not_asked_about_retry_and_drop(service: Service) -> None:
    def rules(error: BaseException, attempt: int) -> Outcome:
        raise AssertionError("asked")

    assert await how_it_ends(service, Retry(after=4), on_error=rules) == "retry_after(4)"


@pytest.mark.parametrize("wrong", [None, "retry", retry])
async def test_a_callable_that_decides_nothing_backs_off_and_is_told(
    service: Service, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = await how_it_ends(service, BusyError(), on_error=lambda error, attempt: wrong)

    assert "Backoff" in outcome
    assert "which is no outcome: backing off instead" in caplog.text


async def test_a_callable_that_raises_backs_off_and_is_told(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    def rules(error: BaseException, attempt: int) -> Outcome:
        raise ZeroDivisionError("in the rules")

    assert "Backoff" in await how_it_ends(service, BusyError(), on_error=rules)
    assert "on_error raised for BusyError: backing off instead" in caplog.text
    assert "ZeroDivisionError: in the rules" in caplog.text


async def test_an_exception_is_told_once_with_its_traceback(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    await how_it_ends(service, LookupError("no till"), on_error=RULES, max_attempts=5)

    (record,) = [each for each in caplog.records if each.exc_info]
    told = record.getMessage()
    assert told.startswith("orders/g 1 attempt 1/5: LookupError('no till') → retry_after(")
    assert record.levelname == "WARNING"


async def test_a_declared_exception_is_one_line(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await how_it_ends(service, BusyError("the till"), on_error=RULES, max_attempts=5)

    told = [each for each in caplog.records if "BusyError" in each.getMessage()]
    assert [each.getMessage() for each in told] == [
        "orders/g 1 attempt 1/5: BusyError('the till') → retry_after(30)"
    ]
    assert told[0].levelname == "INFO"
    assert told[0].exc_info is None


# -- fail_fast --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["rule", "returned"])
async def test_fail_fast_stops_the_service_and_leaves_the_delivery(
    service: Service, way: str
) -> None:
    async def handle(order: int) -> Outcome:
        if order == 2 and way == "rule":
            raise BusyError
        return fail_fast() if order == 2 else ack()

    source = service.on(handle, on_error={BusyError: fail_fast()})
    for order in (b"1", b"2", b"3", b"4"):
        service.bench.ready(source, order)

    with pytest.raises(ServiceFailed, match=r"^shop/1\.2\.0 failed: ") as failed:
        async with service.test() as tb:
            pass

    assert (type(failed.value.__cause__) is BusyError) is (way == "rule")
    assert [call.value for call in tb.calls(handle)] == [1, 2]
    tb.assert_settled(handle, "ack")
    group = service.bench.group(source)
    assert [entry.id for entry in group.held] == ["2"]
    assert sorted(service.bench.returned) == [("3", 0.0, False), ("4", 0.0, False)]


@pytest.mark.rule("7.5")
async def test_a_service_that_failed_is_not_healthy_while_it_still_stands(
    service: Service,
) -> None:
    handle = raising(BusyError("till"))
    service.on(handle, on_error={BusyError: fail_fast()})
    seen = ""

    async def run() -> None:
        nonlocal seen
        async with service.app.running() as run:
            await service.broker.publish("orders", 1)
            await run.until_asked()
            seen = str(run.health)
            assert not run.health.ready

    with pytest.raises(ServiceFailed):
        await run()

    assert seen == "degraded: BusyError('till')"
