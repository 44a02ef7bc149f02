from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from upstream.engines.endpoint import Endpoint
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def _server() -> AsyncIterator[tuple[str, list[web.Request]]]:
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        if request.path.endswith("refused"):
            return web.json_response({"error": {"message": "sk-1 is no key"}}, status=401)
        if request.path.endswith("broken") and request.transport is not None:
            request.transport.abort()
        if request.path.endswith("stream"):
            reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await reply.prepare(request)
            await reply.write(b"data: 1\n\ndata: 2\n\n")
            return reply
        return web.json_response([] if request.path.endswith("list") else {"method": request.method})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", seen
    await runner.cleanup()


async def test_a_call_with_a_body_is_a_post_and_one_without_is_a_get() -> None:
    async with _server() as (url, _):
        endpoint = Endpoint(url)
        assert await endpoint.call("/a") == {"method": "GET"}
        assert await endpoint.call("/a", {}) == {"method": "POST"}
        await endpoint.close()


async def test_a_stream_begins_with_its_acceptance() -> None:
    async with _server() as (url, _):
        endpoint = Endpoint(url)
        assert [data async for data in endpoint.events("/stream", {})] == [b"", b"1", b"2"]
        await endpoint.close()


@pytest.mark.parametrize(("keeps", "connection"), [(True, None), (False, "close")])
async def test_a_connection_that_may_not_carry_more_is_asked_to_end(*, keeps: bool, connection: str | None) -> None:
    async with _server() as (url, seen):
        endpoint = Endpoint(url, keeps_streams=keeps)
        assert [data async for data in endpoint.events("/stream", {"stream": True})][1:] == [b"1", b"2"]
        await endpoint.call("/a", {"stream": False})
        await endpoint.close()

    assert [request.headers.get("connection") for request in seen] == [connection, None]


async def test_a_status_can_be_asked_for_whatever_it_is_and_a_body_that_is_no_object() -> None:
    async with _server() as (url, seen):
        endpoint = Endpoint(url)
        with capture_logs() as logs:
            assert [await endpoint.status(path, {}) for path in ("/a", "/refused")] == [200, 401]
        assert await endpoint.tell("/list", {}) == b"[]"
        with pytest.raises(ApiError) as broken:
            await endpoint.status("/broken", {})
        await endpoint.close()

    assert broken.value.status == 502
    assert [request.method for request in seen[:3]] == ["POST"] * 3
    assert logs == []


async def test_an_answer_that_is_no_object_is_an_error() -> None:
    async with _server() as (url, _):
        endpoint = Endpoint(url)
        with pytest.raises(ApiError) as broken:
            await endpoint.call("/list")
        await endpoint.close()

    assert broken.value.status == 502


async def test_the_key_is_shown_as_bearer() -> None:
    async with _server() as (url, seen):
        endpoint = Endpoint(url, "sk-1")
        await endpoint.call("/a")
        await endpoint.close()

    assert seen[0].headers["authorization"] == "Bearer sk-1"
    assert "sk-1" not in str(seen[0].url)


async def test_the_operator_is_told_why_an_engine_fails_and_nothing_of_its_words() -> None:
    async with _server() as (url, _):
        endpoint = Endpoint(url, "sk-1")
        with capture_logs() as logs:
            for path, status in (("/refused", 502), ("/broken", 502)):
                with pytest.raises(ApiError) as failed:
                    await endpoint.call(path)
                assert failed.value.status == status
        await endpoint.close()
    endpoint = Endpoint(url, "sk-1")
    with capture_logs() as later, pytest.raises(ApiError):
        await endpoint.call("/gone")
    await endpoint.close()

    assert logs[0] == {"event": "engine_refused", "status": 401, "path": "/refused", "log_level": "warning"}
    assert [line["event"] for line in (*logs[1:], *later)] == ["engine_broke_off", "engine_unreachable"]
    assert "sk-1" not in str(logs + later)
