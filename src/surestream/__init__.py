"""Typed asynchronous messaging in which a message that fails is never lost.

Everything a service imports stands here; brokers are in :mod:`surestream.redis` and
:mod:`surestream.memory`, the test room is :mod:`surestream.testing`.
"""

from surestream.app import App, Lifespan
from surestream.broker import Broker
from surestream.codec import Codec, JsonCodec
from surestream.context import Attempt, Publisher, State
from surestream.declaration import Redelivery
from surestream.delivery import Delivery, Key
from surestream.destination import outgoing
from surestream.errors import (
    BrokerRefused,
    ConnectFailed,
    ConnectionLost,
    ConnectRefused,
    DeclarationError,
    DeclarationTypeError,
    DecodeError,
    EncodeError,
    HandlerTimeout,
    MissingExtra,
    NotRunning,
    ServiceFailed,
    SureStreamError,
)
from surestream.message import RETRY_COUNT_HEADER, Headers, Outgoing
from surestream.middleware import CallNext, Middleware, PublishMiddleware, Send
from surestream.outcome import (
    Backoff,
    Drop,
    Outcome,
    Retry,
    ack,
    drop,
    fail_fast,
    retry,
    retry_after,
)
from surestream.router import Router
from surestream.runtime.health import Health, Phase
from surestream.runtime.lifecycle import Run
from surestream.subscriber import Subscriber, subscriber

__version__ = "0.1.0"

__all__ = [
    "RETRY_COUNT_HEADER",
    "App",
    "Attempt",
    "Backoff",
    "Broker",
    "BrokerRefused",
    "CallNext",
    "Codec",
    "ConnectFailed",
    "ConnectRefused",
    "ConnectionLost",
    "DeclarationError",
    "DeclarationTypeError",
    "DecodeError",
    "Delivery",
    "Drop",
    "EncodeError",
    "HandlerTimeout",
    "Headers",
    "Health",
    "JsonCodec",
    "Key",
    "Lifespan",
    "Middleware",
    "MissingExtra",
    "NotRunning",
    "Outcome",
    "Outgoing",
    "Phase",
    "PublishMiddleware",
    "Publisher",
    "Redelivery",
    "Retry",
    "Router",
    "Run",
    "Send",
    "ServiceFailed",
    "State",
    "Subscriber",
    "SureStreamError",
    "__version__",
    "ack",
    "drop",
    "fail_fast",
    "outgoing",
    "retry",
    "retry_after",
    "subscriber",
]
