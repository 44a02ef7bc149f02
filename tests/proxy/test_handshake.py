"""Where handshakes go, and where they never go."""

from __future__ import annotations

import pytest

from proxy.handshake import websocket_url
from tests.support.rig import Talk, rigged
from upstream.scripted.faults import RefuseUpgrade


@pytest.mark.parametrize(
    ("upstream", "url"),
    [
        ("https://api.openai.com/v1", "wss://api.openai.com/v1/responses"),
        ("http://127.0.0.1:80/v1/", "ws://127.0.0.1:80/v1/responses"),
        ("https://host", "wss://host/responses"),
    ],
)
def test_the_url_of_links_is_made_of_the_base_url(upstream: str, url: str) -> None:
    assert websocket_url(upstream) == url
    assert websocket_url(upstream, "api-version=a%2Fb") == f"{url}?api-version=a%2Fb"


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_a_redirected_handshake_is_not_followed_with_anybodys_credentials(status: int) -> None:
    async with rigged() as elsewhere:
        redirect = RefuseUpgrade(status, headers={"location": f"{elsewhere.up.url}/responses"})
        async with rigged(upstream={"upgrades": redirect}) as rig:
            got = await Talk(rig).say("a", api_key="k")
            assert (got.status, got.way[0]) == (200, "http")
            assert len(rig.up.upgrade_attempts) == 1
            assert elsewhere.up.upgrade_attempts == []
