"""The client's side: one answer per request, marked with how it came to be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from proxy.client import ClientSide
from telemetry.turn import TurnRecord
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Answer = Callable[[ClientSide, TurnRecord], Awaitable[web.StreamResponse]]


async def answered(answer: Answer) -> tuple[aiohttp.ClientResponse, bytes, TurnRecord]:
    """What a client reads of an answer."""
    record = TurnRecord(request_id="req_1")

    async def handler(request: web.Request) -> web.StreamResponse:
        return await answer(ClientSide(request, record), record)

    app = web.Application()
    app.router.add_post("/", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession() as session, session.post(f"http://{host}:{port}/") as got:
            return got, await got.read(), record
    finally:
        await runner.cleanup()


async def test_a_response_object_is_answered_as_it_is() -> None:
    async def answer(client: ClientSide, record: TurnRecord) -> web.StreamResponse:
        record.transport, record.reason = "full", "first_turn"
        return await client.json(b'{"id": "resp_1", "n": 1.00}')

    got, body, record = await answered(answer)
    assert (got.status, body) == (200, b'{"id": "resp_1", "n": 1.00}')
    assert got.content_type == "application/json"
    assert got.headers["x-request-id"] == "req_1"
    assert got.headers["x-deltawire-transport"] == "full"
    assert got.headers["x-deltawire-reason"] == "first_turn"
    assert "x-deltawire-error" not in got.headers
    assert record.status == 200


async def test_a_delta_has_no_reason_and_what_took_no_transport_names_none() -> None:
    async def delta(client: ClientSide, record: TurnRecord) -> web.StreamResponse:
        record.transport = "delta"
        return await client.json(b"{}")

    async def none(client: ClientSide, record: TurnRecord) -> web.StreamResponse:
        return await client.json(b"{}")

    got, _, _ = await answered(delta)
    assert "x-deltawire-reason" not in got.headers
    got, _, _ = await answered(none)
    assert not any(name.lower().startswith("x-deltawire") for name in got.headers)


async def test_an_error_has_its_status_its_body_and_the_headers_that_it_carried() -> None:
    async def answer(client: ClientSide, record: TurnRecord) -> web.StreamResponse:
        record.error = "link_lost"
        error = ApiError(
            429, "Slow.", code="c", headers={"retry-after": "1", "content-length": "9", "x-bad": "a\r\nb: c"}
        )
        return await client.error(error, {"upgrade": "websocket"})

    got, body, record = await answered(answer)
    assert (got.status, record.status) == (429, 429)
    assert json.loads(body)["error"]["code"] == "c"
    assert got.headers["retry-after"] == "1"
    assert got.headers["x-deltawire-error"] == "link_lost"
    assert got.headers["upgrade"] == "websocket"
    assert int(got.headers["content-length"]) == len(body)
    assert not {"x-bad", "b"} & {name.lower() for name in got.headers}


async def test_what_stands_in_the_way_of_any_answer_is_told_and_recorded_in_one_word() -> None:
    async def unreachable(client: ClientSide, _: TurnRecord) -> web.StreamResponse:
        return await client.unreachable()

    async def shutting_down(client: ClientSide, _: TurnRecord) -> web.StreamResponse:
        return await client.shutting_down()

    for answer, status, code in ((unreachable, 502, "upstream_unreachable"), (shutting_down, 503, "shutting_down")):
        got, body, record = await answered(answer)
        assert (got.status, record.status) == (status, status)
        assert (json.loads(body)["error"]["code"], got.headers["x-deltawire-error"], record.error) == (code,) * 3


async def test_the_marks_of_a_stream_are_those_of_the_moment_at_which_it_opens() -> None:
    async def answer(client: ClientSide, record: TurnRecord) -> web.StreamResponse:
        record.transport = "full"
        opened = [client.opened]
        await client.write(b"data: 1\n\n")
        opened.append(client.opened)
        assert opened == [False, True]
        record.transport = "delta"
        await client.write(b"data: 2\n\n")
        await client.comment()
        assert await client.open() is await client.end()
        return await client.open()

    got, body, record = await answered(answer)
    assert body == b"data: 1\n\ndata: 2\n\n: keep-alive\n"
    assert got.headers["x-deltawire-transport"] == "full"
    assert (got.status, record.status) == (200, 200)


@pytest.mark.parametrize("opened", [True, False])
async def test_an_empty_stream_may_end(*, opened: bool) -> None:
    async def answer(client: ClientSide, record: TurnRecord) -> web.StreamResponse:
        if opened:
            await client.open()
        return await client.end()

    got, body, _ = await answered(answer)
    assert (got.status, body) == (200, b"")
    assert got.headers["content-type"].startswith("text/event-stream")
