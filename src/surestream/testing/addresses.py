"""Which broker of an app a test means, and where its server is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from surestream.app import App
from surestream.broker import Broker
from surestream.declaration import UNSET
from surestream.destination import destination_of
from surestream.errors import DeclarationError, DeclarationTypeError

__all__ = ["Live", "addresses_of", "broker_for"]

Live: TypeAlias = bool | Mapping[Broker[Any], str]
"""Whether a test runs against real servers: those that the app declares, or of some brokers those
at other URLs."""


def addresses_of(app: App, live: Live) -> Mapping[Broker[Any], str]:
    """The servers that are elsewhere than declared. Raises ``DeclarationTypeError`` for a broker
    that is not the app's."""
    if isinstance(live, bool):
        return {}
    for broker in live:
        if broker not in app.brokers:
            raise DeclarationTypeError(
                f"TestApp({app!r}, live={{{broker!r}: …}})",
                why="the app has no such broker",
                write='live={redis: "redis://127.0.0.1:6380"}, with redis = app.add(…)',
            )
    return live


def broker_for(app: App, destination: object, value: object = UNSET) -> Broker[Any]:
    """The one broker of ``app``, or the only one that reads the address: the ``destination``, or
    the one that its type declares where it is all there is to publish. Raises
    ``DeclarationError`` where it is not clear."""
    brokers = app.brokers
    if len(brokers) == 1:
        return brokers[0]
    address = destination_of(destination) if value is UNSET else destination
    reading = [
        broker
        for broker in brokers
        if any(isinstance(address, str) and m.source.reads(address) for m in broker.mounts)
    ]
    if len(reading) == 1:
        return reading[0]
    raise DeclarationError(
        f"publish({address!r}, …) without a broker",
        why=f"{len(reading)} of the app's {len(brokers)} brokers read this address",
        write=f"tb.publish({address!r}, …, broker=the_broker)",
    )
