from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from telemetry.server_metrics import ServerMetrics
from tests.upstream.helpers import post, serving, turn
from upstream import admin
from upstream.access.keys import entry_toml, make
from upstream.app import start
from upstream.settings import UpstreamSettings

if TYPE_CHECKING:
    from upstream.app import Running

_BESIDE = {"admin_host": "127.0.0.1"}
_CREATE = '{"type":"response.create","model":"m","input":"hi"}'


async def _get(http: aiohttp.ClientSession, running: Running, path: str) -> tuple[int, str]:
    async with http.get(f"{running.admin_url}{path}") as answer:
        return answer.status, await answer.text()


async def _value(http: aiohttp.ClientSession, running: Running, name: str, **labels: str) -> float:
    _, text = await _get(http, running, "/metrics")
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return sum(
        one.value
        for one in samples
        if one.name == f"deltawire_upstream_{name}" and labels.items() <= one.labels.items()
    )


async def test_there_is_no_admin_side_unless_asked_for() -> None:
    async with serving() as server:
        assert server.admin_url == ""


async def test_a_server_is_alive_and_ready_and_none_of_it_is_on_the_port_of_clients(
    http: aiohttp.ClientSession,
) -> None:
    async with serving(**_BESIDE) as server:
        assert await _get(http, server, "/healthz") == (200, "ok\n")
        assert await _get(http, server, "/readyz") == (200, "ready\n")
        for path in ("/readyz", "/metrics"):
            async with http.get(f"{server.url}{path}") as answer:
                assert answer.status == 404


async def test_a_server_that_drains_is_not_ready_until_it_is_gone(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, drain_seconds=60, tokens_per_second=50, **_BESIDE))  # type: ignore[arg-type]  # one table for all tests
    async with http.ws_connect(f"{server.url}/v1/responses") as socket:
        await socket.send_str(_CREATE)
        await socket.receive(timeout=10)
        closing = asyncio.ensure_future(server.close())
        await asyncio.sleep(0)
        assert await _get(http, server, "/readyz") == (503, "draining\n")
        assert await _get(http, server, "/healthz") == (200, "ok\n")
    await asyncio.wait_for(closing, 30)
    with pytest.raises(aiohttp.ClientConnectorError):
        await http.get(f"{server.admin_url}/readyz")


async def test_metrics_tell_of_turns_tokens_connections_and_what_is_kept(
    http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async with serving(ledger=str(tmp_path / "ledger"), tool_turns=0, **_BESIDE) as server:
        await post(http, server.url, model="m", input="hello")
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            first = (await turn(socket, model="m", input="x " * 4000))[-1]["response"]
            for name in ("a", "b"):
                await turn(socket, model="m", input="hi", previous_response_id=first["id"], stream_id=name)
            assert await _value(http, server, "connections") == 1
            assert await _value(http, server, "lanes") == 3
            assert await _value(http, server, "turns_total", transport="http", status="completed") == 1
            assert await _value(http, server, "turns_total", transport="websocket", status="completed") == 3
            assert await _value(http, server, "tokens_total", kind="cached") >= 2000
            assert await _value(http, server, "tokens_total", kind="output") > 0
            assert await _value(http, server, "engine_start_seconds_count", transport="websocket") == 3
            assert await _value(http, server, "first_token_seconds_count", transport="http") == 1
            assert await _value(http, server, "stored_responses") == 4
            kept = [
                await _value(http, server, "cache_bytes", scope=level) for level in ("process", "key", "connection")
            ]
            assert kept == sorted(kept, reverse=True)
            assert kept[-1] > 8000
        async with asyncio.timeout(30):
            while await _value(http, server, "settling_waiting", sink="ledger"):
                continue  # each look is a request, in which the writer has its turn
        assert await _value(http, server, "build_info") == 1


async def test_metrics_tell_of_evictions_and_of_refusals_by_limits(http: aiohttp.ClientSession, tmp_path: Path) -> None:
    made, keys = make("team"), tmp_path / "keys"
    keys.write_text(entry_toml(made.entry) + "requests_per_minute = 2\n")
    http.headers["authorization"] = f"Bearer {made.key}"
    async with serving(keys=str(keys), max_lane_cache=2000, tool_turns=0, **_BESIDE) as server:
        statuses = [(await post(http, server.url, model="m", input="hi"))[0] for _ in range(4)]
        assert statuses == [200, 200, 429, 429]
        assert await _value(http, server, "rate_limited_total", limit="requests") == 2
        assert await _value(http, server, "evictions_total", scope="lane") == 2


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_behind() -> None:
    async with serving() as server:
        with pytest.raises(OSError, match="address already in use"):
            await admin.start("127.0.0.1", server.port, ServerMetrics(), lambda: False)
        with pytest.raises(OSError, match="address already in use"):
            await start(UpstreamSettings(port=0, admin_host="127.0.0.1", admin_port=server.port))


async def test_every_metric_stands_in_the_documentation_and_no_other(
    http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "server-metrics.md").read_text()
    async with serving(ledger=str(tmp_path / "ledger"), **_BESIDE) as server:
        _, text = await _get(http, server, "/metrics")
    told = {
        family.name + ("_total" if family.type == "counter" else "") for family in text_string_to_metric_families(text)
    }
    assert set(re.findall(r"`(deltawire_upstream_[a-z_]+)", page)) == told
