from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from upstream.app import Running, start
from upstream.settings import UpstreamSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    """The shipped server with its defaults, on a free port."""
    running = await start(UpstreamSettings(port=0, drain_seconds=1.0))
    yield running
    await running.close()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session
