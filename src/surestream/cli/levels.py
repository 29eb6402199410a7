"""The log levels that can be asked for."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["LEVELS"]

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
"""By the names that ``--log-level`` takes."""
