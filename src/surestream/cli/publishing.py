"""``surestream publish``: one message, on the app's own broker."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from surestream.app import App
from surestream.broker import Broker
from surestream.cli.addressing import chosen_broker, doubts, readers, shown_broker
from surestream.cli.faults import UseError, fault_of, place, print_fault, reason
from surestream.cli.logs import set_up_logging
from surestream.cli.running import import_app
from surestream.cli.statuses import CLEAN, FAILED, WRONG_USE, signaled
from surestream.cli.suggestions import Invocation
from surestream.cli.text import one_line, without_secrets
from surestream.cli.verbatim import Verbatim
from surestream.declaration import check_address
from surestream.errors import DeclarationError, EncodeError, MissingExtra, SureStreamError
from surestream.message import HeaderValues, header_pairs
from surestream.runtime.lifecycle import Run, Solitary

__all__ = ["Letter", "publish_once"]

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What ``surestream publish`` was asked to publish, as it was typed."""

    target: str
    address: str
    text: str
    """JSON; ``-`` reads it from standard input."""
    headers: Sequence[str] = ()
    broker: str | None = None
    factory: bool = False
    raw: bool = False
    """The text is the payload, whatever it is."""
    timeout: float = 10.0
    """Seconds to connect, and again for the broker's confirmation."""


def publish_once(letter: Letter) -> int:
    """Publish, and say so; or say what is wrong. Returns the exit status."""
    try:
        return _publish(letter)
    except UseError as fault:
        print_fault(fault)
        return WRONG_USE
    except KeyboardInterrupt:
        _say("interrupted: whether it was published is not known")
        return signaled(2)


def _publish(letter: Letter) -> int:
    if not 0 < letter.timeout < float("inf"):
        raise UseError(
            f"--timeout {letter.timeout:g} is no time span", "write a number of seconds above zero"
        )
    headers = parsed_headers(letter.headers)
    rest = f"{letter.address} …"
    app = import_app(letter.target, factory=letter.factory, invocation=Invocation("publish", rest))
    try:
        check_address(letter.address, "ADDRESS")
    except DeclarationError as error:
        raise fault_of(error, "publishing") from error
    broker = chosen_broker(app, letter.broker, letter.address)
    payload = _typed(letter.text)
    if not letter.raw:
        payload = _encoded(broker, letter.address, payload)
    set_up_logging("warning")
    for doubt in doubts(app, broker, letter.address, payload):
        _say(f"warning: {doubt}")
    return asyncio.run(_send(app, broker, letter, payload, headers))


def parsed_headers(texts: Sequence[str]) -> HeaderValues:
    """``name=value`` each. Raises ``UseError``."""
    headers: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            name, _, value = text.partition(":")
            meant = f"{name.strip() or 'name'}={value.strip() or 'value'}"
            raise UseError(f"--header {text!r} has no =", f"write `--header {meant}`")
        if name in headers:
            raise UseError(f"--header {name} is given twice", "one value per name")
        headers[name] = value
    try:
        header_pairs(headers)
    except (TypeError, ValueError) as error:
        raise UseError(f"--header: {error}") from None
    return headers


def _typed(text: str) -> bytes:
    if text != "-":
        # As the shell gave it, whatever its encoding.
        return text.encode(errors="surrogateescape")
    payload = sys.stdin.buffer.read()
    # The line end is echo's, not the message's.
    return payload.removesuffix(b"\n").removesuffix(b"\r")


def _encoded(broker: Broker[Any], address: str, payload: bytes) -> bytes:
    """JSON as it was typed; where the reader's codec writes something else, in that form."""
    try:
        value: object = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UseError(
            f"the message is no JSON: {error}",
            """JSON is written in quotes for the shell, such as '{"id": 1}' or '"text"'""",
            "--raw publishes it as it is",
        ) from None
    reading = readers(broker, address)
    codec = reading[0].codec if reading else broker.codec
    kind: object = getattr(codec, "content_type", JSON)
    if kind == JSON:
        return payload
    try:
        return codec.encode(value)
    except EncodeError as error:
        raise UseError(f"it cannot be written as {kind}: {error}") from None


async def _send(
    app: App, broker: Broker[Any], letter: Letter, payload: bytes, headers: HeaderValues
) -> int:
    verbatim = Verbatim(broker)
    run = Run(
        Solitary(
            verbatim,
            title=app.title,
            version=app.version,
            connect_timeout=letter.timeout,
            shutdown_timeout=letter.timeout,
            publish_middleware=app.publish_middleware,
        ),
        consume=False,
    )
    where = f"{letter.address} on {shown_broker(broker)}"
    try:
        await run.start()
        try:
            async with asyncio.timeout(letter.timeout):
                await run.publish(verbatim, letter.address, payload, headers)
        finally:
            await run.stop()
    except (DeclarationError, MissingExtra) as error:
        raise fault_of(error, "publishing") from error
    except TimeoutError:
        _say(f"not confirmed within {letter.timeout:g} s: it may be in {where}, or not")
        return FAILED
    except Exception as error:
        at = "" if isinstance(error, SureStreamError) else f" (at {place(error)})"
        _say(f"not published to {where}: {reason(error)}{at}")
        return FAILED
    many = "" if not headers else f", {len(headers)} header{'s' if len(headers) > 1 else ''}"
    print(f"published to {where}: {len(payload):,} bytes{many}")
    return CLEAN


def _say(text: str) -> None:
    print(f"surestream: {one_line(without_secrets(text))}", file=sys.stderr)
