"""MessagePack by msgspec, and through pydantic for pydantic's own types."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from surestream.codec import models
from surestream.codec.protocol import Decode
from surestream.codec.typed import TypedCodec

__all__ = ["MsgpackCodec"]

_read: Final = msgspec.msgpack.Decoder().decode
_write_dumped: Final = msgspec.msgpack.Encoder(enc_hook=models.jsonable).encode


class MsgpackCodec(TypedCodec):
    """MessagePack by msgspec; pydantic models, pydantic dataclasses and what holds them are
    dumped and validated by pydantic: ``RedisBroker(codec=MsgpackCodec())``.

    Unlike in JSON, ``bytes`` inside a value, not-a-number, infinity and the types of dictionary
    keys stay what they are, a datetime with a zone becomes a timestamp (and comes back in UTC),
    and whole numbers are limited to 64 bits. Pydantic models are written with their aliases; a
    serializer that they use for JSON only is not used, and a *strict* pydantic field sees what
    MessagePack has: text where a UUID was, a list where a tuple was. Undecodable are also: bytes
    after the document, nesting beyond the parser's limit.
    """

    content_type: str = "application/msgpack"
    format: ClassVar[str] = "MessagePack"

    def __init__(self) -> None:
        super().__init__(msgspec.msgpack.Encoder(enc_hook=_foreign).encode)

    def value_decoder(self, type_: Any) -> Decode:
        return msgspec.msgpack.Decoder(type_).decode

    def model_decoder(self, type_: Any) -> Decode:
        validate = models.value_validator(type_)
        return lambda payload: validate(_read(payload))

    def encode_dataclass(self, value: object) -> bytes:
        return _write_dumped(models.dumped_dataclass(value))


def _foreign(value: object) -> msgspec.Raw:
    dump = models.dump_of(value)
    return MsgpackCodec.foreign(value, None if dump is None else _write_dumped(dump()))
