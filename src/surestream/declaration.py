"""What a mount site declares about redelivery, checked where it is written."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Literal, cast

from surestream.delivery import Delivery
from surestream.errors import DeclarationError, DeclarationTypeError, calling_site
from surestream.outcome import Outcome, seconds

__all__ = [
    "UNSET",
    "DetailLevel",
    "ErrorRules",
    "Redelivery",
    "RetryTo",
    "Unset",
    "check_address",
    "check_of_delivery",
    "duration",
]


class Unset(enum.Enum):
    """The type of :data:`UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""Not declared. Explicit ``None`` is refused where it could be taken for "no limit"."""

MAX_ATTEMPTS: Final = 2**31
MAX_ADDRESS: Final = 65_535
COMMON_LENGTH: Final = 256
"""Longer addresses are not remembered."""
_WRITE: Final = {
    "dead_letter": 'dead_letter="refunds.dlq"',
    "quarantine": 'quarantine="refunds.undecodable"',
    "publish address": 'publish("refunds", …)',
    "retry_to(delivery)": 'a function that returns an address, such as "refunds"',
}

RetryTo = str | Callable[[Delivery], str]
"""Where copies go: an address, or a function of the delivery (rule 4.2)."""

ErrorRules = Mapping[type[Any], Outcome] | Callable[[BaseException, int], Outcome]
"""``on_error=``: outcomes by exception class, or a callable of exception and attempt (2.3)."""

DetailLevel = Literal["short", "full", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery:
    """A reusable set of redelivery settings: ``broker.include(handler, POLICY)``.

    ``max_attempts``: how many deliveries a message gets, the first included (1 to 2**31; rule
    3.3). ``dead_letter``: where it goes then (4.1 to 4.5). ``retry_to``: where copies go, for
    sources that read many addresses (4.2). ``on_error``: outcomes by exception class, or a
    callable (2.3); what is not listed waits by ``Backoff(first=1 s, factor=2, limit=60 s)``.
    ``on_decode_error``: the outcome for a payload that cannot be decoded, instead of
    ``quarantine``, the address it is kept at (``None`` drops it; 2.6). ``dead_letter_details``:
    "short", "full" (adds message and traceback) or "none" (4.3). ``hand_over``: publish delays
    that wait in memory at a graceful stop (5.8). ``hold_limit``: seconds after which a running
    handler's claim is not renewed any more (6.2; 1 h). ``max_unsettled``: how many messages may
    wait for a successor that cannot be stored before intake pauses (5.2; 1,000).

    Raises ``DeclarationError`` (a ``ValueError``) or ``DeclarationTypeError`` (a ``TypeError``).
    """

    max_attempts: int | Unset = UNSET
    dead_letter: str | Unset = UNSET
    retry_to: RetryTo | Unset = UNSET
    on_error: ErrorRules | Unset = UNSET
    on_decode_error: Outcome | Unset = UNSET
    quarantine: str | Unset | None = UNSET
    dead_letter_details: DetailLevel | Unset = UNSET
    hand_over: bool | Unset = UNSET
    hold_limit: float | timedelta | Unset = UNSET
    max_unsettled: int | Unset = UNSET

    def __post_init__(self) -> None:
        try:
            self._check()
        except DeclarationError as error:
            raise error.at(calling_site("Redelivery(…)")) from None

    def _check(self) -> None:
        _check_max_attempts(self.max_attempts)
        for name in ("dead_letter", "quarantine"):
            value: object = getattr(self, name)
            if value is not UNSET and not (value is None and name == "quarantine"):
                check_address(value, name)
        if callable(self.retry_to):
            check_of_delivery(self.retry_to, "retry_to")
        elif self.retry_to is not UNSET:
            check_address(self.retry_to, "retry_to")
        _check_rules(self.on_error)
        if self.on_decode_error is not UNSET:
            _want_outcome(self.on_decode_error, "on_decode_error")
            if self.quarantine is not UNSET:
                raise DeclarationError(
                    "quarantine= together with on_decode_error=",
                    why="an undecodable message has one destiny (rule 2.6)",
                    write="one of the two",
                )
        if self.dead_letter_details not in (UNSET, "short", "full", "none"):
            raise DeclarationError(
                f"dead_letter_details={self.dead_letter_details!r}",
                why="there are three levels of detail (rule 4.3)",
                write='dead_letter_details="short", "full" or "none"',
            )
        if self.hand_over is not UNSET and not isinstance(cast(object, self.hand_over), bool):
            raise DeclarationTypeError(
                f"hand_over={self.hand_over!r}", why="it is a yes or no", write="hand_over=False"
            )
        _check_number(self.max_unsettled, "max_unsettled", 1)
        if self.hold_limit is not UNSET:
            duration("hold_limit", self.hold_limit)

    def joined(self, other: Redelivery) -> Redelivery:
        """These settings and ``other`` together; setting one thing in both is refused."""
        changes: dict[str, Any] = {}
        for field in fields(self):
            theirs: object = getattr(other, field.name)
            if theirs is UNSET:
                continue
            if getattr(self, field.name) is not UNSET:
                raise DeclarationError(
                    f"{field.name}={theirs!r} beside Redelivery({field.name}="
                    f"{getattr(self, field.name)!r})",
                    why="one setting in two places; nobody could tell which one holds",
                    write=f"{field.name}= in one of them",
                )
            changes[field.name] = theirs
        return replace(self, **changes)


def duration(name: str, value: object) -> float:
    """A positive duration in seconds, or a refusal that names the setting."""
    try:
        number = seconds(value, name)
    except TypeError as error:
        raise DeclarationTypeError(
            f"{name}={value!r}", why=str(error), write=f"{name}=30 or timedelta(seconds=30)"
        ) from None
    except ValueError as error:
        raise DeclarationError(
            f"{name}={value!r}", why=str(error), write=f"{name}=30 or timedelta(seconds=30)"
        ) from None
    if number <= 0:
        raise DeclarationError(
            f"{name}={value!r}", why=f"{name} is a time span above zero", write=f"{name}=30"
        )
    return number


def check_address(value: object, setting: str) -> str:
    """An address that something can be published to, or a refusal (rule 4.6).

    Refused: other types, nothing or blank, white space and control characters, more than
    65,535 bytes, a level that is a wildcard on one of the brokers.
    """
    if not isinstance(value, str):
        why = "an address is text"
        if value is None:
            why = "None is no address; leave the setting out where you want none"
        raise DeclarationTypeError(
            f"{setting}={_cut(value)}", why=why, write=_WRITE.get(setting, f'{setting}="refunds"')
        )
    why = _address_fault(value) if len(value) <= COMMON_LENGTH else _look(value)
    if why is not None:
        raise DeclarationError(
            f"{setting}={_cut(value)}", why=why, write=_WRITE.get(setting, f'{setting}="refunds"')
        )
    return value


def _look(value: str) -> str | None:
    """Why nothing can be published to ``value``, or ``None``."""
    if not value.strip():
        return "an address needs a name"
    if any(sign.isspace() or ord(sign) < 32 or ord(sign) == 127 for sign in value):
        return "an address has no white space or control characters"
    if any("\ud800" <= sign <= "\udfff" for sign in value):
        return "an address is text that can be written as UTF-8"
    if len(value.encode()) > MAX_ADDRESS:
        return f"an address has at most {MAX_ADDRESS:,} bytes"
    if any(level in ("*", "+", "#", ">") for level in re.split(r"[./]", value)):
        return "nothing can be published to a wildcard (rule 4.6)"
    return None


_address_fault = lru_cache(1024)(_look)
"""A service publishes to few addresses, over and over."""


def check_of_delivery(function: Callable[..., object], setting: str) -> None:
    """Refuse what cannot be asked with a delivery, and what would have to be awaited."""
    check_asked(function, setting, "delivery")


def check_asked(function: Callable[..., object], setting: str, arguments: str) -> None:
    """Refuse what cannot be called with ``arguments``, and what would have to be awaited."""
    name = getattr(function, "__qualname__", repr(function)).rpartition("<locals>.")[2]
    why = None
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except TypeError:
        why = f"it is called with ({arguments}), and with nothing else"
    except ValueError:  # not written in Python: nothing can be told
        return
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.iscoroutinefunction(called):
        why = "it is an async function: nothing would await it"
    if why is not None:
        raise DeclarationTypeError(
            f"{setting}={name}", why=why, write=f"{setting}=lambda {arguments}: …"
        )


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"


def _check_max_attempts(value: object) -> None:
    if value is UNSET:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise DeclarationTypeError(
            f"max_attempts={value!r}",
            why=f"a cap is a whole number of deliveries, not {type(value).__name__} (rule 3.3)",
            write="max_attempts=5, or leave it out for no cap",
        )
    if not 1 <= value <= MAX_ATTEMPTS:
        raise DeclarationError(
            f"max_attempts={value}",
            why="the cap counts all deliveries, the first included: 1 to 2**31 (rule 3.3)",
            write="max_attempts=5, or leave it out for no cap",
        )


def _check_number(value: object, name: str, least: int) -> None:
    if value is UNSET:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise DeclarationTypeError(
            f"{name}={value!r}", why="it is a whole number", write=f"{name}=1000"
        )
    if value < least:
        raise DeclarationError(
            f"{name}={value}", why=f"it is {least} or more", write=f"{name}=1000"
        )


def _check_rules(rules: object) -> None:
    if rules is UNSET:
        return
    if callable(rules) and not isinstance(rules, type):
        check_asked(rules, "on_error", "error, attempt")
        return
    if not isinstance(rules, Mapping):
        raise DeclarationTypeError(
            f"on_error={rules!r}",
            why="it maps exception classes to outcomes, or is a callable (rule 2.3)",
            write="on_error={Busy: retry_after(30), Declined: drop()}",
        )
    for key, value in cast(Mapping[object, object], rules).items():
        if not (isinstance(key, type) and issubclass(key, BaseException)):
            raise DeclarationTypeError(
                f"on_error key {key!r}",
                why="rules are told by exception class (rule 2.3)",
                write="on_error={Busy: retry_after(30)}",
            )
        _want_outcome(value, f"on_error[{key.__name__}]")


def _want_outcome(value: object, name: str) -> None:
    if not isinstance(value, Outcome):
        hint = f"{name} is the function itself: call it" if callable(value) else "no outcome"
        raise DeclarationTypeError(
            f"{name}={value!r}", why=hint, write="retry_after(30), retry(), drop() or ack()"
        )
