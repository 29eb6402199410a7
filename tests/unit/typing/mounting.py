"""What type checkers see of `include`, routers and middleware. Checked by pyright strict; nothing
here is run.

An ``ignore`` on a line says that the line must be an error: one that is not needed is an error.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, assert_type

import msgspec

from surestream import (
    App,
    CallNext,
    Delivery,
    Middleware,
    Outcome,
    Outgoing,
    PublishMiddleware,
    Redelivery,
    Router,
    Send,
    Subscriber,
    ack,
    drop,
    retry_after,
    subscriber,
)
from surestream.memory import MemoryBroker, MemoryTopic
from surestream.redis import RedisBroker, RedisSource, RedisStream


class Receipt(msgspec.Struct):
    order: int


@subscriber(RedisStream("orders", group="g"))
async def streamed(order: int) -> Receipt | None:
    return Receipt(order)


@subscriber(RedisStream.claiming("orders", min_idle=30, group="g"))
async def claimed(order: int) -> Outcome:
    return ack()


@subscriber(MemoryTopic("orders"))
async def remembered(order: int) -> Receipt | Outcome:
    return Receipt(order)


def receipts(delivery: Delivery) -> str:
    return "receipts"


async def timed(delivery: Delivery, call_next: CallNext) -> object:
    return await call_next(delivery)


async def guarded(delivery: Delivery, call_next: CallNext) -> Outcome:
    outcome = await call_next(delivery)
    # what a handler gave is not known here
    assert_type(outcome, object)
    return outcome if isinstance(outcome, Outcome) else drop()


async def forgetful(delivery: Delivery, call_next: CallNext) -> None:
    await call_next(delivery)


async def stamped(message: Outgoing, send: Send) -> None:
    await send(replace(message, headers=(*message.headers, ("tenant", b"acme"))))
    await send("receipts")  # pyright: ignore[reportArgumentType]


def plain(delivery: Delivery, call_next: CallNext) -> None: ...


# -- include ------------------------------------------------------------------------------


def settings(redis: RedisBroker, memory: MemoryBroker) -> None:
    policy = Redelivery(max_attempts=5, on_error={KeyError: retry_after(30)})
    redis.include(streamed, policy, dead_letter="dlq", reply_to="receipts")
    redis.include(streamed, reply_to=receipts, workers=8, by_key="tenant", timeout=30)
    redis.include(claimed, timeout=timedelta(minutes=1), by_key=lambda delivery: delivery.address)
    memory.include(remembered, reply_to="receipts", middleware=[timed, guarded, forgetful])

    # a keyword that is none
    redis.include(claimed, max_atempts=5)  # pyright: ignore[reportCallIssue]
    redis.include(claimed, policy, dead_leter="dlq")  # pyright: ignore[reportCallIssue]
    # a value of another type
    redis.include(claimed, workers="8")  # pyright: ignore[reportArgumentType]
    redis.include(claimed, max_attempts=None)  # pyright: ignore[reportArgumentType]
    redis.include(streamed, reply_to=3)  # pyright: ignore[reportArgumentType]
    redis.include(streamed, reply_to=timed)  # pyright: ignore[reportArgumentType]
    redis.include(claimed, middleware=[plain])  # pyright: ignore[reportArgumentType]
    redis.include(claimed, middleware=timed)  # pyright: ignore[reportArgumentType]
    redis.include(claimed, {"max_attempts": 5})  # pyright: ignore[reportArgumentType]
    # what is no subscriber
    redis.include(timed)  # pyright: ignore[reportArgumentType]


def the_wrong_broker(redis: RedisBroker, memory: MemoryBroker) -> None:
    redis.include(remembered)  # pyright: ignore[reportArgumentType]
    memory.include(streamed)  # pyright: ignore[reportArgumentType]
    memory.include(claimed)  # pyright: ignore[reportArgumentType]


# -- routers ------------------------------------------------------------------------------


def routers(redis: RedisBroker, memory: MemoryBroker) -> None:
    router = Router[RedisSource](prefix="eu.", workers=8, timeout=timedelta(seconds=30))
    router.include(streamed, reply_to="receipts", max_attempts=3)
    router.include(claimed, Redelivery(max_attempts=3))
    redis.include_router(router)

    # one that holds only streams goes where streams are read
    streams = Router[RedisStream](policy=Redelivery(max_attempts=3), middleware=[timed])
    streams.include(streamed)
    redis.include_router(streams)
    router.include_router(streams)

    topics = Router[MemoryTopic]()
    topics.include(remembered)
    memory.include_router(topics)

    router.include(remembered)  # pyright: ignore[reportArgumentType]
    router.include(claimed, max_atempts=3)  # pyright: ignore[reportCallIssue]
    topics.include(streamed)  # pyright: ignore[reportArgumentType]
    topics.include_router(router)  # pyright: ignore[reportArgumentType]
    redis.include_router(topics)  # pyright: ignore[reportArgumentType]
    memory.include_router(router)  # pyright: ignore[reportArgumentType]
    redis.include_router(streamed)  # pyright: ignore[reportArgumentType]
    Router[RedisStream](prefix=3)  # pyright: ignore[reportArgumentType]
    Router[RedisStream](max_attempts=3)  # pyright: ignore[reportCallIssue]
    Router[str]()  # pyright: ignore[reportInvalidTypeArguments]


def by_hand(redis: RedisBroker, handler: Any) -> None:
    redis.include(Subscriber(RedisStream("orders", group="g"), handler), max_attempts=3)


# -- middleware ---------------------------------------------------------------------------


def middleware() -> None:
    around: list[Middleware] = [timed, guarded, forgetful]
    publishing: list[PublishMiddleware] = [stamped]
    App("shop", middleware=around, publish_middleware=publishing)
    MemoryBroker(middleware=around, publish_middleware=publishing)
    RedisBroker("redis://localhost", middleware=around, publish_middleware=publishing)

    App("shop", middleware=publishing)  # pyright: ignore[reportArgumentType]
    App("shop", publish_middleware=around)  # pyright: ignore[reportArgumentType]
    RedisBroker(middleware=[plain])  # pyright: ignore[reportArgumentType]
