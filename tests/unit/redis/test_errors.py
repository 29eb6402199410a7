"""The driver's exceptions end here: which of ours stands for which."""

from __future__ import annotations

import ssl

import pytest
from redis import exceptions as driver
from redis._parsers.hiredis import _AsyncHiredisParser

from surestream.errors import (
    BrokerRefused,
    ConnectFailed,
    ConnectionLost,
    ConnectRefused,
    SureStreamError,
)
from surestream.redis import errors


def reply(text: str) -> driver.RedisError:
    """What the driver makes of an error reply."""
    error: driver.RedisError = _AsyncHiredisParser.parse_error(text)
    return error


@pytest.mark.parametrize(
    ("text", "kind", "code", "permanent"),
    [
        ("WRONGTYPE Operation against a key", errors.WrongType, "WRONGTYPE", True),
        ("OOM command not allowed", errors.OutOfMemory, "OOM", False),
        ("NOGROUP No such key 's'", errors.NoGroup, "NOGROUP", False),
        ("BUSYGROUP Consumer Group name already exists", errors.GroupExists, "BUSYGROUP", True),
        ("NOSCRIPT No matching script", errors.NoScript, "NOSCRIPT", False),
        ("NOPERM this user has no permissions", errors.NotPermitted, "NOPERM", True),
        ("CROSSSLOT Keys in request", errors.CrossSlot, "CROSSSLOT", True),
        ("MOVED 3999 127.0.0.1:6381", errors.Moved, "MOVED", False),
        ("ASK 3999 127.0.0.1:6381", errors.Moved, "ASK", False),
        ("CLUSTERDOWN Hash slot not served", errors.ServerBusy, "CLUSTERDOWN", False),
        ("TRYAGAIN Multiple keys request", errors.ServerBusy, "TRYAGAIN", False),
        ("MISCONF Redis is configured to save", errors.ServerBusy, "MISCONF", False),
        ("BUSY Redis is busy running a script", errors.ServerBusy, "BUSY", False),
        ("NOREPLICAS Not enough good replicas", errors.ServerBusy, "NOREPLICAS", False),
        ("UNBLOCKED client unblocked", errors.Unblocked, "UNBLOCKED", False),
        ("ERR unknown command 'X'", errors.RedisRefusal, "ERR", True),
        ("ERR max number of clients reached", errors.RedisRefusal, "ERR", False),
        ("no code at all", errors.RedisRefusal, "ERR", True),
        ("MYMODULE something", errors.RedisRefusal, "MYMODULE", False),
    ],
)
def test_an_error_reply_concerns_its_command(
    text: str, kind: type[errors.RedisRefusal], code: str, permanent: bool
) -> None:
    refused = errors.refusal(reply(text))

    assert type(refused) is kind
    assert isinstance(refused, BrokerRefused)
    assert refused.code == code
    assert refused.permanent is permanent
    assert text.removeprefix(f"{code} ") == refused.message


@pytest.mark.case("RC-07", "CL-01")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("LOADING Redis is loading the dataset in memory", errors.ServerUnready),
        ("MASTERDOWN Link with MASTER is down", errors.ServerUnready),
        ("READONLY You can't write against a read only replica.", errors.ReadOnly),
        ("NOAUTH Authentication required.", errors.NotAuthenticated),
        ("WRONGPASS invalid username-password pair", errors.NotAuthenticated),
    ],
)
def test_an_unready_server_is_a_fault_of_the_connection(
    text: str, kind: type[errors.ServerUnready]
) -> None:
    refused = errors.refusal(reply(text))

    assert type(refused) is kind
    assert isinstance(refused, ConnectionLost)
    assert str(refused) == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "WRONGTYPE Operation against a key script: 7b5042, on @user_script:1.",
            errors.WrongType,
        ),
        (
            "ERR Error running script (call to f_1b): @user_script:3: WRONGTYPE Operation against",
            errors.WrongType,
        ),
        (
            "ERR Error running script (call to f_1b): @user_script:1: @user_script: 1: "
            "-READONLY You can't write against a read only replica.",
            errors.ReadOnly,
        ),
    ],
)
def test_an_error_inside_a_script_keeps_its_kind(text: str, kind: type[SureStreamError]) -> None:
    assert type(errors.refusal(reply(text))) is kind


def test_a_fault_of_the_connection_is_no_reply() -> None:
    for fault in (
        driver.ConnectionError("Connection closed by server."),
        driver.TimeoutError("Timeout reading"),
        driver.InvalidResponse("Protocol error"),
    ):
        assert errors.refusal(fault) is None


@pytest.mark.parametrize(
    "answer",
    [
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOAUTH Authentication required.",
        "NOPERM this user has no permissions to run the 'select' command",
        "ERR DB index is out of range",
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?",
        "DENIED Redis is running in protected mode",
    ],
)
def test_what_another_try_cannot_change_is_refused_at_once(answer: str) -> None:
    failure = errors.connect_failure("redis://h:1/0", reply(answer))

    assert type(failure) is ConnectRefused
    assert str(failure).startswith("redis://h:1/0 refused this client: ")
    assert answer in str(failure)


def test_a_certificate_that_does_not_hold_is_refused_at_once() -> None:
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_message = "self-signed certificate"
    error = driver.ConnectionError("Error 1 connecting")
    error.__context__ = cause

    failure = errors.connect_failure("rediss://h:1/0", error)

    assert type(failure) is ConnectRefused
    assert "self-signed certificate" in str(failure)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (driver.ConnectionError("Error 111 connecting to h:1."), "Error 111"),
        (TimeoutError(), "no answer in time"),
        (OSError("no route"), "no route"),
        (reply("LOADING Redis is loading"), "is not ready: LOADING Redis is loading"),
        (reply("ERR max number of clients reached"), "is not ready: ERR max number"),
    ],
)
def test_what_may_pass_is_a_failure_that_names_address_and_reason(
    error: Exception, told: str
) -> None:
    failure = errors.connect_failure("redis://h:1/0", error)

    assert type(failure) is ConnectFailed
    assert str(failure).startswith("redis://h:1/0")
    assert told in str(failure)
