"""Scenarios over Redis streams. Each is run as it stands in process and on a real server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from surestream import (
    Attempt,
    Drop,
    Headers,
    Outcome,
    Publisher,
    Retry,
    ack,
    drop,
    retry,
    retry_after,
)
from tests.conformance.room import Room

Scenario = Callable[[Room], Awaitable[None]]
SHORT = 0.2
"""Seconds that a delay takes, on a real server too."""

SCENARIOS: dict[str, Scenario] = {}


class Order(msgspec.Struct):
    """A message; ``card`` tells some handlers what to do."""

    id: int
    card: str = "good"


def scenario(function: Scenario) -> Scenario:
    """Enter it into the list."""
    SCENARIOS[function.__name__] = function
    return function


async def by_card(order: Order, attempt: Attempt) -> Outcome:
    """Decide by the card."""
    match order.card:
        case "down":
            return retry()
        case "busy":
            return retry_after(SHORT)
        case "busy once":
            return retry_after(SHORT) if attempt.number == 1 else ack()
        case "closed":
            return drop()
        case _:
            return ack()


async def review(order: Order, headers: Headers) -> None:
    """Read what is dead."""


# ── outcomes ────────────────────────────────────────────────────────────────


@scenario
async def acknowledged(room: Room) -> None:
    async def nothing_to_say(order: Order) -> None: ...

    room.handle(by_card)
    room.handle(nothing_to_say, "more")
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1), headers={"Tenant": "north"})
        await tb.publish(room.key("more"), Order(2))


@scenario
async def dropped(room: Room) -> None:
    room.handle(by_card, max_attempts=3, dead_letter="dead")
    room.handle(review, "dead")
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1, "closed"))


def retried_up_to(cap: int) -> Scenario:
    async def retried(room: Room) -> None:
        room.handle(by_card, max_attempts=cap, dead_letter="dead")
        room.handle(review, "dead")
        async with room.running() as tb:
            await tb.publish(room.key("work"), Order(1, "down"))

    retried.__name__ = f"retried_up_to_{cap}"
    return retried


for limit in (1, 2, 5):
    scenario(retried_up_to(limit))


@scenario
async def delayed_up_to_the_cap(room: Room) -> None:
    room.handle(by_card, max_attempts=3, dead_letter="dead")
    room.handle(review, "dead")
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1, "busy"))
        for _ in range(4):
            await tb.advance(SHORT)


@scenario
async def delayed_once(room: Room) -> None:
    room.handle(by_card)
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1, "busy once"))
        await tb.advance(SHORT)


@scenario
async def delayed_by_nothing(room: Room) -> None:
    async def at_once(order: Order, attempt: Attempt) -> Outcome:
        return retry_after(0) if attempt.number < 3 else ack()

    room.handle(at_once)
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1))


# ── caps and destinations ───────────────────────────────────────────────────


@scenario
async def a_cap_without_destination(room: Room) -> None:
    room.handle(by_card, max_attempts=2)
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1, "down"))
        await tb.publish(room.key("work"), Order(2, "busy"))
        await tb.advance(SHORT)


@scenario
async def a_destination_without_cap(room: Room) -> None:
    room.handle(by_card, dead_letter="dead")
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1, "down"))
        await tb.publish(room.key("work"), Order(2, "busy"))


@scenario
async def the_last_attempt_is_ordinary(room: Room) -> None:
    async def at_last(order: Order, attempt: Attempt) -> Outcome:
        return ack() if attempt.last else retry()

    room.handle(at_last, max_attempts=3, dead_letter="dead")
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1))


# ── what cannot be decoded ──────────────────────────────────────────────────


@scenario
async def undecodable(room: Room) -> None:
    room.handle(by_card, max_attempts=3, dead_letter="dead")
    async with room.running() as tb:
        await tb.publish(room.key("work"), b"no order", headers={"Tenant": "north"})
        await tb.publish(room.key("work"), Order(2))


@scenario
async def undecodable_and_retried(room: Room) -> None:
    room.handle(by_card, max_attempts=2, dead_letter="dead", on_decode_error=retry())
    async with room.running() as tb:
        await tb.publish(room.key("work"), b'{"id": "seven"}')


@scenario
async def undecodable_and_dropped(room: Room) -> None:
    room.handle(by_card, quarantine=None)
    async with room.running() as tb:
        await tb.publish(room.key("work"), b"")


@scenario
async def entries_of_other_programs(room: Room) -> None:
    room.handle(by_card)
    async with room.running() as tb:
        await room.command("XADD", room.key("work"), "*", "data", '{"id": 1}')
        await room.command("XADD", room.key("work"), "*", "id", "2", "card", "good")
        await room.command("XADD", room.key("work"), "*", "h:tenant", "north", "id", "3")
        await tb.settle()


# ── groups, headers, reviewers ──────────────────────────────────────────────


@scenario
async def two_groups_on_one_stream(room: Room) -> None:
    async def content(order: Order) -> None: ...

    room.handle(by_card, max_attempts=3, dead_letter="dead")
    room.handle(content, group="other")
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1, "down"))
        await tb.publish(room.key("work"), Order(2, "busy once"))
        await tb.advance(SHORT)


@scenario
async def headers_of_copies(room: Room) -> None:
    room.handle(by_card, max_attempts=3, dead_letter="dead", dead_letter_details="none")
    headers = {"Tenant": "north", "x-ruststream-retry-count": "1", "x-Bytes": b"\xff\x00"}
    async with room.running() as tb:
        await tb.publish(room.key("work"), b'{ "id": 1, "card": "down" }', headers=headers)
        await tb.publish(room.key("work"), b'{ "id": 2, "card": "busy" }', headers=headers)
        await tb.advance(SHORT)


@scenario
async def a_dead_letter_that_dies_again(room: Room) -> None:
    async def unsure(order: Order) -> Outcome:
        return retry() if order.id == 1 else ack()

    room.handle(by_card, max_attempts=2, dead_letter="dead")
    room.handle(unsure, "dead", max_attempts=3, dead_letter="buried")
    room.handle(review, "buried")
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1, "down"))
        await tb.publish(room.key("work"), Order(2, "down"))


@scenario
async def what_a_handler_publishes(room: Room) -> None:
    async def forward(order: Order, headers: Headers, out: Publisher) -> None:
        await out.publish(room.key("next"), order, headers=dict(headers.items()))

    room.handle(by_card, max_attempts=2, dead_letter="dead")
    room.handle(forward, "dead")
    room.handle(review, "next")
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1, "down"), headers={"tenant": "north"})
        await tb.publish(room.key("dead"), Order(2), headers={"tenant": "south"})


# ── failures ────────────────────────────────────────────────────────────────


@scenario
async def exceptions(room: Room) -> None:
    async def raises(order: Order, attempt: Attempt) -> None:
        match order.card:
            case "mapped":
                raise ConnectionResetError("gone")
            case "grouped":
                raise ExceptionGroup("several", [TimeoutError(), TimeoutError()])
            case "raised retry" if attempt.number == 1:
                raise Retry(after=SHORT)
            case "raised drop":
                raise Drop
            case _:
                pass

    rules = {OSError: retry(), ConnectionResetError: drop(), TimeoutError: retry_after(SHORT)}
    room.handle(raises, max_attempts=2, dead_letter="dead", on_error=rules)
    async with room.running() as tb:
        for number, card in enumerate(["mapped", "grouped", "raised retry", "raised drop"]):
            await tb.publish(room.key("work"), Order(number, card))
        await tb.advance(SHORT)


@scenario
async def results_that_are_no_outcome(room: Room) -> None:
    async def forgets(order: Order) -> Outcome:
        return None  # type: ignore[return-value]

    def by_number(error: BaseException, attempt: int) -> Outcome:
        return retry_after(SHORT) if attempt == 1 else retry()

    room.handle(forgets, max_attempts=3, dead_letter="dead", on_error=by_number)
    async with room.running() as tb:
        await tb.publish(room.key("work"), Order(1))
        await tb.advance(SHORT)


# ── several at once ─────────────────────────────────────────────────────────


@scenario
async def neighbors(room: Room) -> None:
    cards = ["good", "busy once", "down", "closed", "good", "busy", "good", "down"]
    room.handle(by_card, max_attempts=3, dead_letter="dead", workers=3)
    room.handle(review, "dead")
    async with room.running() as tb:
        orders: list[object] = [Order(number, card) for number, card in enumerate(cards)]
        await tb.publish_many(room.key("work"), [*orders, b"no order"])
        await tb.advance(SHORT)
        await tb.advance(SHORT)


@scenario
async def in_threads(room: Room) -> None:
    def blocking(order: Order, attempt: Attempt) -> Outcome:
        return retry() if attempt.number < order.id else ack()

    room.handle(blocking, workers=2)
    async with room.running() as tb:
        await tb.publish_many(room.key("work"), [Order(1), Order(2), Order(3)])
