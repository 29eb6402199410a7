"""What a service says of itself when it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from surestream.app import App
from surestream.broker import Broker
from surestream.cli.banner import banner, describe
from surestream.contract import Abilities, RunContext, Source, Transport
from surestream.delivery import Delivery
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.outcome import Outcome, ack
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


def described(row: str, **terms: object) -> str:
    broker = RowBroker()
    include: Callable[..., None] = broker.include
    include(Subscriber(RowSource(row), handle), **terms)
    return describe(broker.mounts[0])


def parts(row: str, **terms: object) -> list[str]:
    return described(row, **terms).split(": ", 1)[1].split("; ")


ALL = {"max_attempts": 5, "dead_letter": "refunds.dlq"}


@pytest.mark.rule("5.7")
class TestWhatARetryMeans:
    def test_redis_stream(self) -> None:
        assert parts("RedisStream", **ALL)[:4] == [
            "5 attempts, then to refunds.dlq",
            "a retry is a copy to refunds",
            "a delay waits in this process, the original unsettled until it is over",
            "attempts are counted in a header",
        ]

    def test_stored_delays(self) -> None:
        assert parts("RedisStream+zset", **ALL)[2] == "a delay waits on the broker"

    def test_claiming(self) -> None:
        told = parts("claiming", **ALL)

        assert told[1:4] == [
            "a retry is the same message after 30 s",
            "a delay is always 30 s",
            "attempts are counted by the broker",
        ]

    def test_claiming_with_stored_delays(self) -> None:
        told = parts("claiming+zset", **ALL)

        assert told[1:3] == [
            "a retry is the same message after 30 s",
            "a delay waits on the broker",
        ]

    def test_jetstream(self) -> None:
        assert parts("JetStreamSubject", **ALL)[1:3] == [
            "a retry is the same message again",
            "a delay waits on the broker",
        ]

    @pytest.mark.parametrize("row", ["simple list", "pub/sub channel", "MqttTopic QoS 0"])
    def test_what_cannot_keep_a_message_says_so(self, row: str) -> None:
        assert parts(row) == [
            "no limit of attempts",
            "a retry loses the message",
            "a delay waits in this process and is lost in a kill",
            "attempts are counted in a header",
            "a kill loses what is unfinished",
        ]
        assert parts(row, **ALL)[1] == "a retry is a copy to refunds"

    def test_next_session(self) -> None:
        assert parts("MqttTopic QoS 1")[1] == "a retry is the same message in the next session"

    def test_memory(self) -> None:
        assert parts("memory", **ALL)[-1] == "a kill loses what is unfinished"


class TestWhereCopiesGo:
    def test_where_the_mount_site_says(self) -> None:
        told = parts("MqttFilter QoS 1", retry_to="reports/again", max_attempts=4)

        assert told[:2] == ["4 attempts, then rejected", "a retry is a copy to reports/again"]

    def test_where_a_function_says(self) -> None:
        def to_topic(delivery: Delivery) -> str:
            return delivery.address

        told = parts("MqttFilter QoS 1", retry_to=to_topic, max_attempts=4)

        assert told[1] == "a retry is a copy where retry_to says"


@pytest.mark.rule("3.3", "3.4")
class TestHowOften:
    def test_cap_of_one_runs_once(self) -> None:
        told = parts("RedisStream", max_attempts=1, dead_letter="refunds.dlq")

        assert told[0] == "1 attempt, then to refunds.dlq"
        assert not any(part.startswith("a retry is") for part in told)

    def test_destination_without_cap_takes_the_first_retry(self) -> None:
        told = parts("RedisStream", dead_letter="refunds.dlq")

        assert told[0] == "the first retry goes to refunds.dlq"
        assert not any(part.startswith("a retry is") for part in told)


class TestBanner:
    def test_names_service_brokers_and_subscriptions(self) -> None:
        app = App("refunds", version="1.2.3")
        memory = app.add(MemoryBroker())
        memory.include(Subscriber(MemoryTopic("refunds"), handle), workers=4)

        service, subscription = banner(app, "0.1.0", "uvloop")

        assert service.startswith("refunds 1.2.3 on SureStream 0.1.0, Python 3.")
        assert service.endswith(", uvloop")
        assert subscription.startswith("MemoryBroker(): refunds/default → handle at ")
        assert "test_banner.py:" in subscription
        assert " × 4: no limit of attempts; " in subscription

    @pytest.mark.case("SE-02", "SE-03")
    def test_shows_no_credentials_and_stays_one_line_a_broker(self) -> None:
        app = App("refunds")
        app.add(RowBroker())

        lines = list(banner(app, "0.1.0", "asyncio"))

        assert lines[1:] == [r"RowBroker('redis://…@host/0')\n: no handler is included on it"]

    def test_says_when_there_is_nothing_to_do(self) -> None:
        lines = list(banner(App("refunds"), "0.1.0", "asyncio"))

        assert lines[1:] == ["no broker was added: nothing to do (app.add(…))"]
