"""What the tests of refusals share."""

from __future__ import annotations

import pytest

from tests.in_process.core.service import Service


@pytest.fixture
def service() -> Service:
    """A service without handlers."""
    return Service()
