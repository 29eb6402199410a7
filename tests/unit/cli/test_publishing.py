"""What ``surestream publish`` makes of what was typed."""

from __future__ import annotations

import msgspec
import pytest

from surestream.app import App
from surestream.cli.addressing import chosen_broker, doubts
from surestream.cli.faults import UseError
from surestream.cli.publishing import parsed_headers
from surestream.memory import MemoryBroker
from surestream.redis import RedisBroker, RedisStream
from surestream.subscriber import Subscriber


class Refund(msgspec.Struct):
    id: int


async def refund(refund: Refund) -> None: ...


def told(error: pytest.ExceptionInfo[UseError]) -> list[str]:
    return str(error.value).splitlines()


class TestHeaders:
    def test_are_names_and_values(self) -> None:
        assert parsed_headers(["tenant=acme", "query=a=b", "empty="]) == {
            "tenant": "acme",
            "query": "a=b",
            "empty": "",
        }

    @pytest.mark.parametrize(
        ("headers", "lines"),
        [
            (["tenant"], ["--header 'tenant' has no =", "  write `--header tenant=value`"]),
            (
                ["tenant: acme"],
                ["--header 'tenant: acme' has no =", "  write `--header tenant=acme`"],
            ),
            (["a=1", "a=2"], ["--header a is given twice", "  one value per name"]),
            (
                ["a=1", "A=2"],
                ["--header: header 'A' is given twice: names do not regard case"],
            ),
            (["=1"], ["--header: a header name is empty"]),
        ],
    )
    def test_that_are_none_are_refused(self, headers: list[str], lines: list[str]) -> None:
        with pytest.raises(UseError) as refusal:
            parsed_headers(headers)

        assert told(refusal) == lines


def service(*brokers: RedisBroker) -> App:
    app = App("refunds")
    for number, broker in enumerate(brokers, 1):
        app.add(broker).include(
            Subscriber(RedisStream(f"refunds{number}", group="g"), refund),
            max_attempts=5,
            dead_letter=f"refunds{number}.dlq",
        )
    return app


class TestBroker:
    def test_is_the_only_one(self) -> None:
        broker = RedisBroker()

        assert chosen_broker(service(broker), None, "anything") is broker

    @pytest.mark.parametrize("wanted", ["2", "us.example", "US"])
    def test_is_the_one_that_is_named(self, wanted: str) -> None:
        eu, us = RedisBroker("redis://eu.example"), RedisBroker("redis://us.example")

        assert chosen_broker(service(eu, us), wanted, "refunds1") is us

    @pytest.mark.parametrize("address", ["refunds2", "refunds2.dlq", "refunds2.undecodable"])
    def test_is_the_only_one_that_has_the_address(self, address: str) -> None:
        eu, us = RedisBroker("redis://eu.example"), RedisBroker("redis://us.example")

        assert chosen_broker(service(eu, us), None, address) is us

    @pytest.mark.case("SE-02")
    @pytest.mark.parametrize(
        ("wanted", "what"),
        [
            (None, "refunds has 2 brokers: which one?"),
            ("3", "--broker 3 names no broker of refunds"),
            ("0", "--broker 0 names no broker of refunds"),
            ("asia", "--broker asia names no broker of refunds"),
            ("redis", "--broker redis names 2 brokers of refunds"),
        ],
    )
    def test_that_is_not_clear_is_asked_for(self, wanted: str | None, what: str) -> None:
        eu = RedisBroker("redis://user:secret@eu.example:6379/0")
        us = RedisBroker("redis://us.example:6379/0")

        with pytest.raises(UseError) as refusal:
            chosen_broker(service(eu, us), wanted, "elsewhere")

        first, one, two = told(refusal)
        assert first == what
        assert one.startswith("  --broker 1: RedisBroker('redis://")
        assert "secret" not in one
        assert two == "  --broker 2: RedisBroker('redis://us.example:6379/0')"

    def test_that_does_not_exist_is_told(self) -> None:
        with pytest.raises(UseError) as refusal:
            chosen_broker(App("refunds"), None, "refunds")

        assert told(refusal) == ["refunds has no broker", "  write `app.add(RedisBroker(…))`"]

    def test_in_the_memory_of_another_process_is_refused(self) -> None:
        app = App("refunds")
        app.add(MemoryBroker())

        with pytest.raises(UseError) as refusal:
            chosen_broker(app, None, "refunds")

        assert told(refusal)[0].startswith("a MemoryBroker lives inside the process of its service")


class TestDoubts:
    @pytest.mark.parametrize("address", ["refunds1", "refunds1.dlq", "orders"])
    def test_are_none_where_nothing_looks_mistyped(self, address: str) -> None:
        broker = RedisBroker()

        assert list(doubts(service(broker), broker, address, b'{"id":1}')) == []

    @pytest.mark.parametrize(
        ("address", "meant"), [("refnds1", "refunds1"), ("refunds1.dql", "refunds1.dlq")]
    )
    def test_of_an_address_that_is_nearly_one_of_the_apps(self, address: str, meant: str) -> None:
        broker = RedisBroker()

        assert list(doubts(service(broker), broker, address, b"{}")) == [
            f"nothing in refunds reads {address!r}; did you mean {meant!r}?"
        ]

    def test_of_a_message_that_its_reader_cannot_decode(self) -> None:
        broker = RedisBroker()

        (doubt,) = doubts(service(broker), broker, "refunds1", b'{"id":"x"}')

        assert doubt == "refund cannot decode it: Expected `int`, got `str` - at `$.id`"
