"""What a test needs and a machine lacks: a skip that names it, or a failure where nothing may be skipped."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRE_ALL = "DELTAWIRE_REQUIRE_ALL"
"""Set (and not `0`) in CI: whatever would be skipped fails."""


def all_required() -> bool:
    return os.environ.get(REQUIRE_ALL, "0") not in {"", "0"}


def missing(what: str, how: str) -> NoReturn:
    """End the running test: `what` it cannot have here, `how` to have it."""
    message = f"{what} is missing; {how}"
    if all_required():
        pytest.fail(f"{message} ({REQUIRE_ALL} is set)", pytrace=False)
    pytest.skip(message)
