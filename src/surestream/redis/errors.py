"""What a Redis server refuses, by kind. The driver's own exceptions end here.

Two families. A :class:`RedisRefusal` concerns one command: the connection goes on. A
:class:`ServerUnready` concerns the connection: the command did not run, and neither will the
next one, so the link drops itself and is opened anew, which resolves the address again (CL-01)
and waits until the server is ready (RC-07).
"""

from __future__ import annotations

import re
import ssl
from typing import ClassVar

from surestream.errors import BrokerRefused, ConnectFailed, ConnectionLost, ConnectRefused
from surestream.redis.driver import RedisError, ResponseError

__all__ = [
    "CrossSlot",
    "GroupExists",
    "Moved",
    "NoGroup",
    "NoScript",
    "NotAuthenticated",
    "NotPermitted",
    "OutOfMemory",
    "ReadOnly",
    "RedisRefusal",
    "ServerBusy",
    "ServerUnready",
    "Unblocked",
    "WrongType",
    "connect_failure",
    "loss",
    "refusal",
]


class RedisRefusal(BrokerRefused):
    """The server answered a command with an error.

    ``code`` is its first word (``WRONGTYPE``; ``ERR`` where it has none), ``message`` the rest.
    """

    lasting: ClassVar[bool] = False

    def __init__(self, code: str, message: str, *, permanent: bool | None = None) -> None:
        self.code = code
        self.message = message
        super().__init__(
            f"{code} {message}", permanent=self.lasting if permanent is None else permanent
        )


class WrongType(RedisRefusal):
    """``WRONGTYPE``: the key holds another type. Permanent until a person renames or deletes it."""

    lasting = True


class NotPermitted(RedisRefusal):
    """``NOPERM``: the access list of this user forbids the command or the key."""

    lasting = True


class CrossSlot(RedisRefusal):
    """``CROSSSLOT``: the keys of one script lie on different nodes; they need one hash tag."""

    lasting = True


class NoGroup(RedisRefusal):
    """``NOGROUP``: the stream or its consumer group does not exist (any more)."""


class GroupExists(RedisRefusal):
    """``BUSYGROUP``: the consumer group is there already."""

    lasting = True


class NoScript(RedisRefusal):
    """``NOSCRIPT``: the server does not know the script. The link sends it again by itself."""


class OutOfMemory(RedisRefusal):
    """``OOM``: the server is at its ``maxmemory`` and takes no writes for now."""


class Unblocked(RedisRefusal):
    """``UNBLOCKED``: a blocking read was ended by ``CLIENT UNBLOCK`` or by the key's deletion."""


class Moved(RedisRefusal):
    """``MOVED`` or ``ASK``: the key lives on another node of a cluster."""


class ServerBusy(RedisRefusal):
    """The server cannot do it now: ``BUSY``, ``TRYAGAIN``, ``CLUSTERDOWN``, ``MISCONF``, …"""


class ServerUnready(ConnectionLost):
    """The server refuses commands on this connection for now: ``LOADING``, ``MASTERDOWN``.

    Unlike with a lost connection the command is known not to have run.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code} {message}")


class ReadOnly(ServerUnready):
    """``READONLY``: this server has become a replica; the primary is elsewhere now (CL-01)."""


class NotAuthenticated(ServerUnready):
    """``NOAUTH`` or ``WRONGPASS`` on a connection that was let in before."""


_KINDS: dict[str, type[RedisRefusal] | type[ServerUnready]] = {
    "ASK": Moved,
    "BUSY": ServerBusy,
    "BUSYGROUP": GroupExists,
    "CLUSTERDOWN": ServerBusy,
    "CROSSSLOT": CrossSlot,
    "LOADING": ServerUnready,
    "MASTERDOWN": ServerUnready,
    "MISCONF": ServerBusy,
    "MOVED": Moved,
    "NOAUTH": NotAuthenticated,
    "NOGROUP": NoGroup,
    "NOPERM": NotPermitted,
    "NOREPLICAS": ServerBusy,
    "NOSCRIPT": NoScript,
    "OOM": OutOfMemory,
    "READONLY": ReadOnly,
    "TRYAGAIN": ServerBusy,
    "UNBLOCKED": Unblocked,
    "WRONGPASS": NotAuthenticated,
    "WRONGTYPE": WrongType,
}

_CODE = re.compile(r"-?([A-Z][A-Z0-9]+) ")
# Before Redis 7 an error inside a script is wrapped, its code buried behind the script's line.
_IN_SCRIPT = re.compile(r"@user_script: ?\d+: -?([A-Z][A-Z0-9]+) (.*)", re.DOTALL)


def refusal(error: RedisError) -> RedisRefusal | ServerUnready | None:
    """The error reply that the driver turned into ``error``; ``None`` if it is not one."""
    code = error.status_code
    if code is None and not isinstance(error, ResponseError):
        return None
    text = str(error)
    if code is None:
        match = _CODE.match(text)
        code = "ERR" if match is None else match[1]
        text = text if match is None else text[match.end() :]
    if code == "ERR" and (wrapped := _IN_SCRIPT.search(text)) is not None:
        code, text = wrapped[1], wrapped[2]
    kind = _KINDS.get(code)
    if kind is not None:
        return kind(code, text)
    # A plain error is about the command's form or size; codes not listed are modules' own.
    return RedisRefusal(code, text, permanent=code == "ERR" and "max number of" not in text)


def loss(display: str, reason: str) -> ConnectionLost:
    """The error of a command whose reply will not come."""
    return ConnectionLost(f"{display}: {reason}; the command may or may not have run")


def connect_failure(display: str, error: BaseException) -> ConnectFailed:
    """Why a connection could not be opened.

    :class:`~surestream.errors.ConnectRefused` where another try is pointless: credentials, rights,
    the database number, the certificate.
    """
    told: BaseException | None = error
    while told is not None:
        if isinstance(told, ssl.SSLCertVerificationError):
            return ConnectRefused(f"{display}: certificate refused: {told.verify_message}")
        answer = refusal(told) if isinstance(told, RedisError) else told
        if isinstance(answer, NotAuthenticated) or (
            isinstance(answer, RedisRefusal) and (answer.permanent or answer.code == "DENIED")
        ):
            return ConnectRefused(f"{display} refused this client: {answer}")
        if isinstance(answer, RedisRefusal | ServerUnready):
            return ConnectFailed(f"{display} is not ready: {answer}")
        if isinstance(answer, ConnectionLost):
            return ConnectFailed(str(answer))
        told = told.__cause__ or told.__context__
    reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
    return ConnectFailed(f"{display}: {reason or type(error).__name__}")
