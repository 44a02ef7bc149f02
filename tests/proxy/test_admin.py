"""What a person or a machine asks of a running sidecar, on a port of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from telemetry.health import READY_LAG
from tests.support.rig import Got, Rig, Talk, read, rigged

if TYPE_CHECKING:
    from collections.abc import Mapping


async def get(rig: Rig, path: str) -> Got:
    async with rig.session.get(f"{rig.running.admin_url}{path}") as answer:
        return await read(answer)


async def rows(rig: Rig, path: str) -> list[dict[str, Any]]:
    got = await get(rig, path)
    assert got.headers["content-type"] == "application/json"
    listed: Any = got.response
    assert isinstance(listed, list)
    return listed


async def test_a_sidecar_that_serves_is_alive_and_ready() -> None:
    async with rigged() as rig:
        for path in ("/healthz", "/readyz"):
            assert (await get(rig, path)).status == 200


async def test_a_sidecar_that_drains_or_whose_loop_is_late_is_alive_but_not_ready() -> None:
    async with rigged() as rig:
        sidecar = rig.running.sidecar
        sidecar._lagged(READY_LAG + 1)
        assert ((await get(rig, "/readyz")).status, (await get(rig, "/readyz")).raw) == (503, b"wedged\n")
        sidecar._lagged(0.0)
        sidecar.draining = True
        assert ((await get(rig, "/readyz")).status, (await get(rig, "/readyz")).raw) == (503, b"draining\n")
        assert (await get(rig, "/healthz")).status == 200


async def test_metrics_tell_of_turns_bytes_links_and_heads() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        await talk.say("a" * 1000)
        await rig.spare()
        await talk.say("b")
        got = await get(rig, "/metrics")
        assert got.headers["content-type"].startswith("text/plain; version=0.0.4")
        value = await rig.metrics()
        assert value("deltawire_turns_total", transport="full", reason="first_turn") == 1
        assert value("deltawire_turns_total", transport="delta", reason="") == 1
        assert value("deltawire_client_bytes_total") == sum(map(len, rig.bodies.values()))
        assert value("deltawire_upstream_bytes_total") == sum(turn.size for turn in rig.up.turns)
        assert value("deltawire_links", state="idle") == 2
        assert value("deltawire_heads") == 2
        assert 5 < value("deltawire_tasks") < 50
        assert value("deltawire_overhead_seconds_count") == 2
        assert value("deltawire_first_event_seconds_count", transport="delta") == 1
        assert value("deltawire_transport_mode", mode="auto") == 1
        assert value("deltawire_answers_total", **{"class": "2xx"}) == 2


async def test_turns_are_listed_the_newest_first_and_as_many_as_asked_for() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        for text in ("a", "b", "c"):
            await talk.say(text)
        listed = await rows(rig, "/api/turns")
        assert [turn["number"] for turn in listed] == [3, 2, 1]
        assert [turn["transport"] for turn in listed] == ["delta", "delta", "full"]
        assert (listed[0]["items_total"], listed[0]["items_covered"], listed[0]["items_sent"]) == (5, 4, 1)
        assert listed[0]["response_id"] == "resp_000003"
        assert [turn["number"] for turn in await rows(rig, "/api/turns?limit=2")] == [3, 2]


@pytest.mark.parametrize("limit", ["", "0", "-1", "x", "²", "9" * 400])
async def test_a_limit_that_is_no_number_is_none(limit: str) -> None:
    async with rigged() as rig:
        await Talk(rig).say("a")
        for path in ("turns", "heads"):
            assert len(await rows(rig, f"/api/{path}?limit={limit}")) == 1


async def test_heads_and_links_are_listed_without_content() -> None:
    async with rigged() as rig:
        talk = Talk(rig, store=False)
        await talk.say("very private words")
        await talk.say("b")
        await rig.spare()
        heads = await rows(rig, "/api/heads?limit=1")
        tenant = (await rows(rig, "/api/turns"))[0]["tenant"]
        expected: Mapping[str, Any] = {
            "tenant": tenant,
            "response_id": "resp_000002",
            "items": 4,
            "turns": 2,
            "stored": False,
            "link": 1,
            "leases": 0,
        }
        assert heads == [expected]
        assert await rows(rig, "/api/links") == [
            {"link": 1, "tenant": tenant, "state": "idle", "response_id": "resp_000002"},
            {"link": 2, "tenant": tenant, "state": "idle", "response_id": None},
        ]
        for path in ("/api/turns", "/api/heads", "/api/links", "/metrics", "/"):
            assert b"private" not in (await get(rig, path)).raw
            assert b"sk-one" not in (await get(rig, path)).raw


async def test_the_page_is_html_and_needs_nothing_from_elsewhere() -> None:
    async with rigged() as rig:
        got = await get(rig, "/")
        assert got.headers["content-type"].startswith("text/html")
        assert b"<title>deltawire</title>" in got.raw
        assert b"http://" not in got.raw
        assert b"https://" not in got.raw


async def test_nothing_of_the_admin_side_is_on_the_clients_port() -> None:
    async with rigged() as rig:
        for path in ("/healthz", "/metrics", "/api/turns"):
            async with rig.session.get(f"{rig.running.url}{path}") as answer:
                assert answer.status == 404
        assert len(rig.up.calls) == 3
        async with rig.session.post(f"{rig.running.admin_url}/v1/responses", data=b"{}") as answer:
            assert answer.status == 404
