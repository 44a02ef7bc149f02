from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import make_mocked_request

from tests.support.rig import rigged

if TYPE_CHECKING:
    from aiohttp import web


async def test_the_parts_of_a_sidecar_are_made_once_and_never_exchanged() -> None:
    async with rigged() as rig:
        services = rig.running.sidecar.services
        assert services is rig.running.sidecar.services
        assert services.settings.upstream == rig.up.url
        assert services.metrics is rig.running.sidecar.metrics
        with pytest.raises(FrozenInstanceError):
            services.links = services.links  # type: ignore[misc]


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer a"}, {"openai-beta": "b", "cookie": "c=1"}])
async def test_a_turn_and_an_upgrade_of_the_same_caller_are_of_one_tenant(headers: dict[str, str]) -> None:
    def asked(method: str, query: str, **more: str) -> web.Request:
        return make_mocked_request(method, f"/responses?api-version={query}", headers=headers | more)

    async with rigged() as rig:
        tenant = rig.running.sidecar.services.tenant
        assert tenant(asked("POST", "1")) == tenant(asked("GET", "1", upgrade="websocket"))
        assert tenant(asked("POST", "1")) != tenant(asked("POST", "2"))
