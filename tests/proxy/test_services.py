from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tests.support.rig import rigged


async def test_the_parts_of_a_sidecar_are_made_once_and_never_exchanged() -> None:
    async with rigged() as rig:
        services = rig.running.sidecar.services
        assert services is rig.running.sidecar.services
        assert services.settings.upstream == rig.up.url
        assert services.metrics is rig.running.sidecar.metrics
        with pytest.raises(FrozenInstanceError):
            services.links = services.links  # type: ignore[misc]
