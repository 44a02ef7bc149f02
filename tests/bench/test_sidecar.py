import sys

import aiohttp
import pytest

from bench.child import StartFailed
from bench.sidecar import spawned


async def test_the_real_sidecar_listens_and_ends(http_session: aiohttp.ClientSession) -> None:
    async with spawned("http://127.0.0.1:9/v1") as origin, http_session.get(f"{origin}/v1/models") as answer:
        assert answer.status == 502
    with pytest.raises(aiohttp.ClientConnectionError):
        await http_session.get(f"{origin}/v1/models")


async def test_it_gets_the_upstream_free_ports_and_what_else_is_said() -> None:
    text = "import sys; raise SystemExit(' '.join(sys.argv[1:]))"
    told = "--upstream http://up/v1 --listen 127.0.0.1:0 --admin 127.0.0.1:0 --echo lenient"
    with pytest.raises(StartFailed, match=told):
        async with spawned("http://up/v1", "--echo", "lenient", command=(sys.executable, "-c", text)):
            pass
