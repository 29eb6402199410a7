"""Refunds through a card processor that can be busy, down, or say no."""
