"""Fixtures that need the helm binary."""

from __future__ import annotations

import pytest

from tests.helm.chart import Helm
from tests.helm.fetch import PINS, Pin, helm
from tests.support.fetch import Unavailable
from tests.support.missing import missing


def binary(pin: Pin) -> Helm:
    """The pinned helm, or the end of the test that asked for it."""
    try:
        return Helm(helm(pin))
    except Unavailable as gone:
        missing(f"{gone.what} (the chart is not checked with it)", gone.how)


@pytest.fixture(scope="session", params=PINS, ids=lambda pin: f"helm{pin.major}")
def any_helm(request: pytest.FixtureRequest) -> Helm:
    """Each helm that the chart supports, in turn."""
    return binary(request.param)


@pytest.fixture(scope="session")
def newest_helm() -> Helm:
    """One helm, for what does not depend on its version."""
    return binary(PINS[0])
