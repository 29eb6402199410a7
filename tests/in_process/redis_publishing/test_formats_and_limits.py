"""What a service may say about a publish on Redis: formats, and how long the stream gets."""

from __future__ import annotations

import msgspec
import pytest

from surestream import App, DeclarationError, Publisher, Subscriber
from surestream.codec import JsonCodec, MsgpackCodec
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.redis import RedisBroker, RedisPublisher, RedisStream
from surestream.testing import TestApp
from tests.in_process.redis_publishing.looking import length


class Refund(msgspec.Struct):
    id: int
    body: bytes = b""


def redis_app(codec: MsgpackCodec | None = None) -> tuple[App, RedisBroker]:
    app = App("refunds")
    return app, app.add(RedisBroker(codec=codec))


async def test_a_handlers_own_publisher_cuts_the_stream() -> None:
    # given a handler that asks for what only Redis can do
    app, redis = redis_app()

    async def copy(refund: Refund, publisher: RedisPublisher) -> None:
        await publisher.publish("seen", refund, maxlen=2, exact=True)

    redis.include(Subscriber(RedisStream("refunds", group="refunds"), copy))

    # when
    async with TestApp(app) as tb:
        for number in range(5):
            await tb.publish("refunds", Refund(number))

        # then
        tb.assert_called(copy, times=5)
        assert await length(tb, redis, "seen") == 2


async def test_the_broker_cuts_the_stream() -> None:
    app, redis = redis_app()

    async with TestApp(app) as tb:
        for number in range(5):
            await redis.publish("seen", Refund(number), maxlen=2, exact=True)

        assert await length(tb, redis, "seen") == 2


async def test_a_handler_may_ask_for_it_without_needing_it() -> None:
    app, redis = redis_app()
    got: list[object] = []

    async def either(refund: Refund, mine: RedisPublisher | None, any_: Publisher) -> None:
        got.extend((mine, any_))

    redis.include(Subscriber(RedisStream("refunds", group="refunds"), either))

    async with TestApp(app) as tb:
        await tb.publish("refunds", Refund(1))

    assert all(isinstance(each, RedisPublisher) for each in got)
    assert len(got) == 2


@pytest.mark.rule("7.1")
def test_a_broker_that_cannot_refuses_the_handler() -> None:
    async def copy(refund: Refund, publisher: RedisPublisher) -> None: ...

    with pytest.raises(DeclarationError, match="MemoryTopic is not given a RedisPublisher") as told:
        MemoryBroker().include(Subscriber(MemoryTopic("refunds"), copy))

    assert "publisher: Publisher" in str(told.value)


async def test_a_service_may_speak_messagepack() -> None:
    # given a codec for the broker, and another one for one handler
    app, redis = redis_app(MsgpackCodec())
    seen: list[object] = []

    async def packed(refund: Refund) -> None:
        seen.append(refund)

    async def text(refund: Refund) -> None:
        seen.append(refund)

    redis.include(Subscriber(RedisStream("refunds", group="refunds"), packed))
    redis.include(Subscriber(RedisStream("old", group="refunds"), text), codec=JsonCodec())

    # when
    async with TestApp(app) as tb:
        await tb.publish("refunds", Refund(1, b"\xff\x00"))
        await tb.publish("old", b'{"id":2}')

    # then
    assert seen == [Refund(1, b"\xff\x00"), Refund(2)]


@pytest.mark.rule("2.6")
async def test_json_is_undecodable_for_it() -> None:
    app, redis = redis_app(MsgpackCodec())

    async def packed(refund: Refund) -> None: ...

    redis.include(Subscriber(RedisStream("refunds", group="refunds"), packed))

    async with TestApp(app) as tb:
        await tb.publish("refunds", b'{"id":2}')

        assert not tb.calls(packed)
        assert await length(tb, redis, "refunds.undecodable") == 1


@pytest.mark.rule("7.1")
@pytest.mark.parametrize(
    ("codec", "why"),
    [(MsgpackCodec, r"it is a class: .*"), ("msgpack", "it cannot read and write payloads")],
)
def test_what_is_no_codec_is_refused(codec: object, why: str) -> None:
    async def packed(refund: Refund) -> None: ...

    with pytest.raises(DeclarationError, match=why) as told:
        RedisBroker(codec=codec)  # type: ignore[arg-type]
    assert "codec=MsgpackCodec()" in str(told.value)

    source = RedisStream("refunds", group="refunds")
    with pytest.raises(DeclarationError, match=why):
        RedisBroker().include(Subscriber(source, packed), codec=codec)  # type: ignore[typeddict-item]
