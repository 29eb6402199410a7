"""Single sentences of the rules as a reader would check them by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from surestream.outcome import Kind, retry_after
from surestream.runtime.redelivery import (
    Acknowledge,
    Copy,
    Counters,
    DeadLetter,
    Discard,
    GiveBack,
    Leave,
    Park,
    Plan,
    Reason,
    Terms,
    brake,
    count_attempt,
    decide,
    on_arrival,
)
from tests.unit.redelivery.rows import BY_NAME, MIN_IDLE, ROWS, Row

COPYING = [row for row in ROWS if row.capped == "copy"]
COUNTED = [row for row in ROWS if row.counts == "server"]
ENDS = (Acknowledge, Discard, DeadLetter, Leave)


@dataclass
class Life:
    """What one message went through: the counters of each delivery, and every plan."""

    seen: list[Counters] = field(default_factory=list[Counters])
    plans: list[Plan] = field(default_factory=list[Plan])


def live_through(row: Row, terms: Terms, outcomes: list[tuple[Kind, float]]) -> Life:
    """Deliver one message to a handler that decides ``outcomes`` in turn, until it is settled
    for good or the outcomes run out, the way the row's broker would carry the plans out."""
    life = Life()
    counters = Counters()
    for kind, delay in outcomes:
        life.seen.append(counters)
        plan = decide(kind, delay, terms, row.abilities, counters)
        life.plans.append(plan)
        match plan:
            case Copy(count=count):
                counters = Counters(header=count)
            case Park(count=count):
                counters = Counters(header=count, promoted=True)
            case GiveBack():
                counters = Counters(
                    counters.header, counters.server + 1, promoted=counters.promoted
                )
            case _:
                break
    return life


def mixed(row: Row, number: int) -> list[tuple[Kind, float]]:
    """Immediate and delayed retries in turn."""
    return [(Kind.RETRY, 0.0) if turn % 2 else (Kind.RETRY_AFTER, 30.0) for turn in range(number)]


@pytest.mark.case("WC-08")
@pytest.mark.rule("3.3")
@pytest.mark.parametrize("cap", [1, 2, 5])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_cap_is_the_number_of_deliveries_that_failed(row: Row, cap: int) -> None:
    life = live_through(row, Terms(cap, "dead"), mixed(row, 20))

    assert len(life.plans) == cap
    assert life.plans[-1] == DeadLetter(cap, Reason.SPENT)
    assert not any(isinstance(plan, ENDS) for plan in life.plans[:-1])


@pytest.mark.rule("3.2")
@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.RETRY_AFTER])
@pytest.mark.parametrize("row", COPYING, ids=str)
def test_delivery_k_carries_k_minus_one_and_the_dead_letter_carries_the_cap(
    row: Row, kind: Kind
) -> None:
    life = live_through(row, Terms(5, "dead"), [(kind, 30.0)] * 5)

    assert [counters.header for counters in life.seen] == [0, 1, 2, 3, 4]
    assert life.plans[-1] == DeadLetter(5, Reason.SPENT)


@pytest.mark.rule("3.1", "3.2")
@pytest.mark.parametrize("row", COUNTED, ids=str)
def test_a_counting_broker_puts_the_true_number_on_its_dead_letter(row: Row) -> None:
    counters = Counters(header=900, server=4)

    plan = decide(Kind.RETRY, 0, Terms(4, "dead"), row.abilities, counters)

    assert plan == DeadLetter(4, Reason.SPENT)


@pytest.mark.rule("3.1")
def test_claiming_does_not_forget_what_was_spent_before_the_delay_set() -> None:
    row = BY_NAME["claiming+zset"]
    # Two runs left it pending, the second of them parked it: it is back as a new entry.
    parked = decide(Kind.RETRY_AFTER, 5, Terms(4, "dead"), row.abilities, Counters(server=2))
    assert parked == Park(2, 5)

    back = Counters(header=2, server=1, promoted=True)

    assert count_attempt(back, row.abilities.counter) == 3
    assert decide(Kind.RETRY, 0, Terms(3, "dead"), row.abilities, back) == DeadLetter(
        3, Reason.SPENT
    )


@pytest.mark.case("WC-14")
@pytest.mark.rule("3.3")
@pytest.mark.parametrize("delay", [0.001, 30.0, 86400.0 * 365])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_cap_holds_for_delays_of_any_length_and_they_are_not_waited_out(
    row: Row, delay: float
) -> None:
    life = live_through(row, Terms(3, "dead"), [(Kind.RETRY_AFTER, delay)] * 9)

    assert len(life.plans) == 3
    assert life.plans[-1] == DeadLetter(3, Reason.SPENT, after=0.0)


@pytest.mark.rule("3.3")
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_ack_and_drop_on_the_last_attempt_are_ordinary(row: Row) -> None:
    last = Counters(header=4) if row.counts == "header" else Counters(server=5)
    terms = Terms(5, "dead")

    assert decide(Kind.ACK, 0, terms, row.abilities, last) == Acknowledge()
    assert decide(Kind.DROP, 0, terms, row.abilities, last) == Discard()


@pytest.mark.rule("3.4")
@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.RETRY_AFTER])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_cap_without_destination_rejects(row: Row, kind: Kind) -> None:
    life = live_through(row, Terms(2), [(kind, 30.0)] * 9)

    assert len(life.plans) == 2
    assert life.plans[-1] == Discard(attempts_spent=True)


@pytest.mark.rule("3.4")
@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.RETRY_AFTER])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_destination_without_cap_takes_the_first_retry_of_either_kind(
    row: Row, kind: Kind
) -> None:
    plan = decide(kind, 30.0, Terms(None, "dead"), row.abilities, Counters())

    assert plan == DeadLetter(1, Reason.NO_CAP)


@pytest.mark.rule("4.5")
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_dropped_message_never_becomes_a_dead_letter(row: Row) -> None:
    for terms in (Terms(1, "dead"), Terms(None, "dead")):
        assert decide(Kind.DROP, 0, terms, row.abilities, Counters(9, 9)) == Discard()


@pytest.mark.case("CK-08")
@pytest.mark.rule("2.1")
@pytest.mark.parametrize("cap", [None, 3])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_delay_of_zero_is_a_retry_on_every_source(row: Row, cap: int | None) -> None:
    zero = retry_after(0)
    for kind in (zero.kind, Kind.RETRY_AFTER):
        plan = decide(kind, zero.delay, Terms(cap), row.abilities, Counters())

        assert plan == decide(Kind.RETRY, 0, Terms(cap), row.abilities, Counters())


@pytest.mark.case("CK-05")
@pytest.mark.rule("2.1")
def test_a_delay_beyond_the_range_of_the_server_is_cut_to_its_maximum() -> None:
    terms = Terms(5, "dead")
    jetstream, stream = BY_NAME["JetStreamSubject"].abilities, BY_NAME["RedisStream"].abilities

    for far in (1e18, 1e300):
        later = decide(Kind.RETRY_AFTER, far, terms, jetstream, Counters())
        copied = decide(Kind.RETRY_AFTER, far, terms, stream, Counters())

        assert later == GiveBack(jetstream.max_delay)
        assert copied == Copy(1, stream.max_delay)


def test_claiming_has_one_delay_only_and_the_delay_set_makes_it_exact() -> None:
    plain, exact = BY_NAME["claiming"].abilities, BY_NAME["claiming+zset"].abilities

    for wish in (1.0, MIN_IDLE, 6000.0):
        plan = decide(Kind.RETRY_AFTER, wish, Terms(), plain, Counters())
        assert plan == GiveBack(MIN_IDLE)
        plan = decide(Kind.RETRY_AFTER, wish, Terms(), exact, Counters())
        assert plan == Park(1, wish)
    assert decide(Kind.RETRY, 0, Terms(), plain, Counters()) == GiveBack(MIN_IDLE)
    assert decide(Kind.RETRY, 0, Terms(), exact, Counters()) == GiveBack(MIN_IDLE)


@pytest.mark.rule("5.5", "5.6", "5.7")
@pytest.mark.parametrize(
    ("name", "settle_first"),
    [
        ("RedisStream", False),
        ("reliable list", False),
        ("MqttTopic QoS 1", False),
        ("MqttTopic QoS 1 beyond hold", True),
        ("MqttTopic QoS 0", True),
        ("CoreSubject", True),
        ("simple list", True),
        ("pub/sub channel", True),
    ],
)
def test_the_original_is_held_through_a_timer_wherever_it_can_be(
    name: str, settle_first: bool
) -> None:
    plan = decide(Kind.RETRY_AFTER, 2, Terms(5, "dead"), BY_NAME[name].abilities, Counters())

    assert plan == Copy(1, 2, settle_first=settle_first)


@pytest.mark.rule("5.1")
@pytest.mark.parametrize("row", COPYING, ids=str)
def test_an_immediate_copy_is_stored_before_the_original_is_settled(row: Row) -> None:
    plan = decide(Kind.RETRY, 0, Terms(5, "dead"), row.abilities, Counters())

    assert plan == Copy(1, settle_first=False)


@pytest.mark.rule("6.1")
def test_the_brake_starts_in_the_fourth_round_doubles_and_stops_at_a_second() -> None:
    waits = [brake(rounds) for rounds in range(1, 12)]

    assert waits == [0, 0, 0, 0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1]
    assert brake(2**31) == 1


@pytest.mark.rule("6.1")
@pytest.mark.parametrize(
    "name", ["RedisStream", "reclaim", "reliable list", "CoreSubject", "JetStreamSubject", "memory"]
)
def test_uncapped_retries_slow_down_on_every_source(name: str) -> None:
    life = live_through(BY_NAME[name], Terms(), [(Kind.RETRY, 0.0)] * 9)

    pauses = [plan.after for plan in life.plans if isinstance(plan, Copy | GiveBack)]

    assert pauses == [0, 0, 0, 0.1, 0.2, 0.4, 0.8, 1, 1]


@pytest.mark.rule("6.1")
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_capped_retries_are_not_slowed_down(row: Row) -> None:
    life = live_through(row, Terms(9, "dead"), [(Kind.RETRY, 0.0)] * 9)

    pauses = {plan.after for plan in life.plans if isinstance(plan, Copy | GiveBack)}

    assert pauses <= {0.0, row.abilities.fixed_delay}


@pytest.mark.rule("6.1")
def test_a_message_that_lost_its_count_is_slowed_down_even_below_a_cap() -> None:
    lost = Counters(count_lost=True)
    abilities = BY_NAME["CoreSubject"].abilities

    for terms in (Terms(), Terms(5, "dead")):
        plan = decide(Kind.RETRY, 0, terms, abilities, lost)

        assert isinstance(plan, Copy)
        assert plan.after >= 0.1


@pytest.mark.rule("6.1")
def test_a_dead_letter_that_is_sent_round_again_is_slowed_down() -> None:
    abilities = BY_NAME["RedisStream"].abilities
    waits: list[float] = []

    for deaths in range(9):
        known = Counters(header=4, server=1, deaths=deaths)
        plan = decide(Kind.RETRY, 0, Terms(5, "dead"), abilities, known)
        assert isinstance(plan, DeadLetter)
        waits.append(plan.after)

    assert waits == [0, 0, 0, 0.1, 0.2, 0.4, 0.8, 1, 1]


@pytest.mark.rule("3.5")
@pytest.mark.parametrize(
    ("name", "counters"),
    [
        ("RedisStream", Counters(header=0, server=4)),
        ("RedisStream+zset", Counters(header=2, server=4)),
        ("reclaim", Counters(header=0, server=4)),
        ("reliable list", Counters(header=0, server=4)),
        ("claiming", Counters(server=4)),
        ("claiming+zset", Counters(header=1, server=3, promoted=True)),
        ("JetStreamSubject", Counters(header=0, server=4)),
    ],
)
def test_a_killer_is_buried_before_it_runs_again(name: str, counters: Counters) -> None:
    abilities = BY_NAME[name].abilities

    plan = on_arrival(Terms(3, "dead"), abilities, counters)

    assert plan == DeadLetter(3, Reason.CRASHED)
    assert on_arrival(Terms(3), abilities, counters) == Discard(attempts_spent=True)


@pytest.mark.rule("3.5")
@pytest.mark.parametrize("name", ["RedisStream", "reclaim", "reliable list"])
def test_failures_counted_by_the_header_do_not_add_to_crashes(name: str) -> None:
    abilities = BY_NAME[name].abilities

    for known in (Counters(header=2, server=3), Counters(header=9, server=2)):
        assert on_arrival(Terms(3, "dead"), abilities, known) is None


@pytest.mark.rule("3.5")
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_without_a_cap_or_on_a_first_delivery_nothing_is_buried_on_arrival(row: Row) -> None:
    many = Counters(header=50, server=50)
    first = Counters(header=50, server=1)

    assert on_arrival(Terms(None, "dead"), row.abilities, many) is None
    assert on_arrival(Terms(None), row.abilities, many) is None
    assert on_arrival(Terms(1, "dead"), row.abilities, first) is None


@pytest.mark.rule("3.5")
@pytest.mark.parametrize("name", ["MqttTopic QoS 1", "MqttFilter QoS 1", "CoreSubject"])
def test_sources_that_cannot_tell_crashes_bury_nothing_on_arrival(name: str) -> None:
    abilities = BY_NAME[name].abilities

    assert on_arrival(Terms(1, "dead"), abilities, Counters(header=9, server=2)) is None


@pytest.mark.rule("3.8")
def test_a_reviewer_counts_a_dead_letter_anew_and_keeps_raising_its_header() -> None:
    abilities = BY_NAME["RedisStream"].abilities
    terms = Terms(3, "refunds.hopeless")
    # It died after five attempts at `refunds`; the reviewer reads `refunds.dlq`.
    tries = [Counters(header=5 + extra, died=5) for extra in range(3)]

    plans = [decide(Kind.RETRY, 0, terms, abilities, counters) for counters in tries]

    assert [count_attempt(counters, abilities.counter) for counters in tries] == [1, 2, 3]
    assert plans == [Copy(6), Copy(7), DeadLetter(8, Reason.SPENT)]


@pytest.mark.rule("3.7")
def test_a_rewound_entry_counts_from_one_on_claiming_and_by_its_header_elsewhere() -> None:
    rewound = Counters(header=2, server=1)

    assert count_attempt(rewound, BY_NAME["claiming"].abilities.counter) == 1
    assert count_attempt(rewound, BY_NAME["RedisStream"].abilities.counter) == 3


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_uncapped_retry_uses_the_means_of_its_source(row: Row) -> None:
    """Section 6, first column."""
    plan = decide(Kind.RETRY, 0, Terms(), row.abilities, Counters())

    assert (
        plan
        == {
            "copy": Copy(1),
            "same message": GiveBack(),
            "same message after min_idle": GiveBack(MIN_IDLE),
            "next session": Leave(),
            "gone": Discard(lost=True),
        }[row.uncapped]
    )
