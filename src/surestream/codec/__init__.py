"""How payload bytes become values and values become payload bytes.

JSON by default, MessagePack by ``codec=MsgpackCodec()``. ``bytes`` and ``str`` are raw: what is
annotated or published as one of them is the payload itself, not a string of the format.
"""

from surestream.codec.json import JsonCodec
from surestream.codec.msgpack import MsgpackCodec
from surestream.codec.protocol import (
    DECODE_ERRORS,
    Codec,
    Decode,
    as_decode_error,
    check_codec,
)

__all__ = [
    "DECODE_ERRORS",
    "Codec",
    "Decode",
    "JsonCodec",
    "MsgpackCodec",
    "as_decode_error",
    "check_codec",
]
