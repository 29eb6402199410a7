"""The default codec: JSON by msgspec, and by pydantic for pydantic's own types."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from surestream.codec import models
from surestream.codec.protocol import Decode
from surestream.codec.typed import TypedCodec

__all__ = ["JsonCodec"]


class JsonCodec(TypedCodec):
    """JSON by msgspec; pydantic models, pydantic dataclasses and what holds them by pydantic.

    Undecodable are also: numbers beyond a double, a byte order mark, lone surrogates, nesting
    beyond the parser's limit. Of an object's repeated keys the last counts. Not-a-number and
    infinity are written as ``null``. Pydantic models are written with their aliases, so that
    the same type reads them. Validators of attrs classes run, converters do not.
    """

    content_type: str = "application/json"
    format: ClassVar[str] = "JSON"

    def __init__(self) -> None:
        super().__init__(msgspec.json.Encoder(enc_hook=_foreign).encode)

    def value_decoder(self, type_: Any) -> Decode:
        return msgspec.json.Decoder(type_).decode

    def model_decoder(self, type_: Any) -> Decode:
        return models.json_decoder(type_)

    def encode_dataclass(self, value: object) -> bytes:
        return models.dataclass_as_json(value)


def _foreign(value: object) -> msgspec.Raw:
    return JsonCodec.foreign(value, models.model_as_json(value))
