"""What a codec is, and what its failures mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

import msgspec

from surestream.errors import DeclarationTypeError, DecodeError

__all__ = ["DECODE_ERRORS", "Codec", "Decode", "as_decode_error", "check_codec"]

Decode = Callable[[bytes], object]

DECODE_ERRORS: Final[tuple[type[Exception], ...]] = (Exception,)
"""What a decoder may raise. Besides the errors of the parsers (``ValueError``,
``RecursionError``) that is whatever a validator or ``__post_init__`` of the payload's own type
raises: trying the same bytes again would raise it again (rule 2.6)."""

_SHOWN_PROBLEMS: Final = 3


class Codec(Protocol):
    """What turns payloads into typed values and back; give your own as ``codec=``."""

    @property
    def content_type(self) -> str:
        """The media type of what :meth:`encode` writes."""
        ...

    def decoder(self, type_: Any) -> Decode:
        """A callable that decodes payloads into ``type_`` (any annotation), built once per mount.

        It is called for every message, directly; any exception it raises means that the
        payload cannot be decoded. Raises ``DeclarationTypeError`` (or anything else) for a type
        that can never be decoded: the mount is refused.
        """
        ...

    def encode(self, value: object) -> bytes:
        """``value`` as a payload. Raises ``EncodeError``."""
        ...


def check_codec(value: object) -> Codec:
    """A codec, or a ``DeclarationTypeError`` that says what to give instead."""
    methods = (getattr(value, name, None) for name in ("decoder", "encode"))
    if not isinstance(value, type) and all(map(callable, methods)):
        return cast(Codec, value)
    if isinstance(value, type):
        why, write = "it is a class: what is wanted is one of its codecs", f"{value.__name__}()"
    else:
        why, write = "it cannot read and write payloads", "MsgpackCodec()"
    raise DeclarationTypeError(f"codec={value!r}", why=why, write=f"codec={write}")


def as_decode_error(error: Exception) -> DecodeError:
    """What a decoder raised, as the one error that stands for an undecodable payload.

    The message names the place in the document where there is one. The original is its cause.
    """
    if isinstance(error, DecodeError):
        return error
    told = DecodeError(_reason(error))
    told.__cause__ = error
    return told


class _ValidationError(Protocol):
    """The part of ``pydantic.ValidationError`` in use here."""

    def errors(self, *, include_url: bool, include_input: bool) -> list[dict[str, object]]: ...


def _reason(error: Exception) -> str:
    if type(error).__module__.partition(".")[0] == "pydantic_core" and hasattr(error, "errors"):
        found = cast(_ValidationError, error).errors(include_url=False, include_input=False)
        told = [_problem(each) for each in found[:_SHOWN_PROBLEMS]]
        more = len(found) - len(told)
        return "; ".join(told) + (f"; and {more} more" if more else "")
    if isinstance(error, msgspec.DecodeError):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} at byte {error.start}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"{type(error).__name__}: {error}"


def _problem(found: Mapping[str, object]) -> str:
    path = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}"
        for step in cast(Sequence[object], found["loc"])
    )
    return f"{found['msg']} - at `${path}`" if path else str(found["msg"])
