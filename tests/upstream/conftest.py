from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.upstream.helpers import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from upstream.app import Running


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    """The shipped server with its defaults, on a free port."""
    async with serving(drain_seconds=1.0) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session
