"""The order for those who validate by pydantic."""

from __future__ import annotations

from pydantic import BaseModel


class OrderModel(BaseModel):
    """`Order` for pydantic."""

    id: int
    customer: str
    sku: str
    quantity: int
    price_cents: int
    currency: str
    express: bool
