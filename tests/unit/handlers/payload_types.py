"""One payload type of each kind that a handler may be annotated with."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
from pydantic.dataclasses import dataclass as pydantic_dataclass


class Struct(msgspec.Struct):
    id: int
    card: str = "none"


class Model(pydantic.BaseModel):
    id: int
    card: str = "none"


class Aliased(pydantic.BaseModel):
    amount: int = pydantic.Field(alias="amountCents")


@dataclasses.dataclass
class Data:
    id: int
    card: str = "none"


@pydantic_dataclass
class Checked:
    id: int
    card: str = "none"


@attrs.define
class Attrs:
    id: int = attrs.field(validator=attrs.validators.gt(0))
    card: str = "none"


class Typed(TypedDict):
    id: int
    card: str


class Named(NamedTuple):
    id: int
    card: str = "none"


@dataclasses.dataclass
class Holder:
    model: Model
