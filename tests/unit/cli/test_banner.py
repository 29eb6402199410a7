"""What a service says of itself when it starts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from surestream.app import App
from surestream.broker import Broker
from surestream.cli.banner import banner, describe, losses
from surestream.contract import Abilities, RunContext, Source, Transport
from surestream.delivery import Delivery
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.outcome import Outcome, ack
from surestream.runtime.terms import Mounted
from surestream.subscriber import Subscriber
from tests.unit.redelivery.rows import BY_NAME


@dataclass(frozen=True)
class RowSource(Source):
    row: str
    lease: float | None = None

    @property
    def name(self) -> str:
        return "refunds"

    @property
    def family(self) -> str:
        return "row"

    @property
    def abilities(self) -> Abilities:
        return BY_NAME[self.row].abilities

    @property
    def rivals(self) -> object:
        return self.row


class RowBroker(Broker[RowSource]):
    source_type = RowSource

    def transport(self, context: RunContext) -> Transport:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "RowBroker('redis://user:pa%2Fss@host/0')\n"


async def handle(payload: bytes) -> Outcome:
    return ack()


def mounted(row: str, **terms: object) -> Mounted:
    broker = RowBroker()
    include: Callable[..., None] = broker.include
    include(Subscriber(RowSource(row), handle), **terms)
    return broker.mounts[0]


def parts(row: str, **terms: object) -> list[str]:
    return describe(mounted(row, **terms))[1].strip().split("; ")


ALL = {"max_attempts": 5, "dead_letter": "refunds.dlq"}


class TestWhatARetryMeans:
    @pytest.mark.parametrize(
        ("row", "told"),
        [
            ("RedisStream", ["retry: a copy to refunds", "delays: in this process"]),
            ("RedisStream+zset", ["retry: a copy to refunds", "delays: on the broker"]),
            ("claiming", ["retry: the same message after 30 s", "delays: always 30 s"]),
            ("claiming+zset", ["retry: the same message after 30 s", "delays: on the broker"]),
            ("JetStreamSubject", ["retry: the same message", "delays: on the broker"]),
            ("memory", ["retry: the same message", "delays: on the broker"]),
            ("pub/sub channel", ["retry: a copy to refunds", "delays: in this process"]),
        ],
    )
    def test_below_the_cap(self, row: str, told: list[str]) -> None:
        assert parts(row, **ALL)[:3] == ["5 attempts, then to refunds.dlq", *told]

    @pytest.mark.parametrize("row", ["simple list", "pub/sub channel", "MqttTopic QoS 0"])
    def test_without_a_cap_where_nothing_keeps_the_message(self, row: str) -> None:
        assert parts(row)[:2] == ["no limit of attempts", "a retry loses the message"]

    def test_next_session(self) -> None:
        told = parts("MqttTopic QoS 1")

        assert told[1] == "retry: the same message in the next session"


@pytest.mark.rule("5.7")
class TestWhatAKillLoses:
    @pytest.mark.parametrize(
        "row", ["simple list", "pub/sub channel", "MqttTopic QoS 0", "CoreSubject", "memory"]
    )
    def test_what_nothing_holds_back(self, row: str) -> None:
        one = mounted(row)

        assert parts(row)[-1] == "after a kill: lost"
        assert list(losses([one, one])) == [
            "a kill loses what is under way or waits for a retry: refunds"
        ]

    def test_delays_that_wait_in_the_process_only(self) -> None:
        assert list(losses([mounted("MqttTopic QoS 1 beyond hold")])) == [
            "a kill loses what waits for a retry: refunds"
        ]

    @pytest.mark.parametrize(
        "row",
        ["RedisStream", "RedisStream+zset", "claiming", "JetStreamSubject", "MqttTopic QoS 1"],
    )
    def test_nothing_where_the_broker_holds_it(self, row: str) -> None:
        assert parts(row)[-1] == "after a kill: again"
        assert list(losses([mounted(row)])) == []


class TestWhereCopiesGo:
    def test_where_the_mount_site_says(self) -> None:
        told = parts("MqttFilter QoS 1", retry_to="reports/again", max_attempts=4)

        assert told[:2] == ["4 attempts, then rejected", "retry: a copy to reports/again"]

    def test_where_a_function_says(self) -> None:
        def to_topic(delivery: Delivery) -> str:
            return delivery.address

        told = parts("MqttFilter QoS 1", retry_to=to_topic, max_attempts=4)

        assert told[1] == "retry: a copy where retry_to says"


@pytest.mark.rule("3.3", "3.4")
class TestHowOften:
    def test_cap_of_one_runs_once(self) -> None:
        told = parts("RedisStream", max_attempts=1, dead_letter="refunds.dlq")

        assert told == ["1 attempt, then to refunds.dlq", "after a kill: again"]

    def test_destination_without_cap_takes_the_first_retry(self) -> None:
        told = parts("RedisStream", dead_letter="refunds.dlq")

        assert told == ["the first retry goes to refunds.dlq", "after a kill: again"]


class TestBanner:
    def test_names_service_brokers_and_subscriptions(self) -> None:
        app = App("refunds", version="1.2.3")
        memory = app.add(MemoryBroker())
        memory.include(Subscriber(MemoryTopic("refunds"), handle), workers=4)

        told = list(banner(app, "0.1.0", "uvloop"))

        lines = [line for _, line in told]
        assert lines[0].startswith("refunds/1.2.3 on SureStream 0.1.0, Python 3.")
        assert lines[0].endswith(", uvloop")
        assert lines[1] == "MemoryBroker()"
        assert lines[2].startswith("  refunds/default → handle at ")
        assert "test_banner.py:" in lines[2]
        assert lines[2].endswith(" × 4")
        assert lines[3].startswith("    no limit of attempts; retry: ")

    @pytest.mark.rule("5.7")
    def test_warns_of_what_a_kill_loses(self) -> None:
        app = App("refunds")
        memory = app.add(MemoryBroker())
        memory.include(Subscriber(MemoryTopic("refunds"), handle))
        memory.include(Subscriber(MemoryTopic("payments"), handle))

        told = list(banner(app, "0.1.0", "asyncio"))

        assert [line for level, line in told if level == logging.WARNING] == [
            "MemoryBroker(): a kill loses what is under way or waits for a retry: "
            "refunds/default, payments/default"
        ]

    def test_lines_are_short(self) -> None:
        app = App("refunds", version="1.2.3")
        broker = app.add(RowBroker())
        include: Callable[..., None] = broker.include
        include(Subscriber(RowSource("claiming+zset"), handle), **ALL)

        assert all(len(line) <= 120 for _, line in banner(app, "0.1.0", "uvloop"))

    @pytest.mark.case("SE-02", "SE-03")
    def test_shows_no_credentials_and_stays_one_line_a_broker(self) -> None:
        app = App("refunds")
        app.add(RowBroker())

        lines = [line for _, line in banner(app, "0.1.0", "asyncio")]

        assert lines[1:] == [r"RowBroker('redis://…@host/0')\n: no handler is included on it"]

    def test_says_when_there_is_nothing_to_do(self) -> None:
        lines = [line for _, line in banner(App("refunds"), "0.1.0", "asyncio")]

        assert lines[1:] == ["no broker was added: nothing to do (app.add(…))"]
