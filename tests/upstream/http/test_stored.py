from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response
from openresponses_types.types import ResponseResource

from tests.upstream.helpers import check_events, post, serving
from upstream.app import Running, start
from upstream.settings import UpstreamSettings
from wire.sse import Parser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

_BACKGROUND = {"model": "m", "input": "hi", "background": True}


@pytest.fixture
async def slow() -> AsyncIterator[Running]:
    """A server whose engine does not come to an end by itself."""
    async with serving(tokens_per_second=0.01, drain_seconds=0.05) as running:
        yield running


async def _call(http: aiohttp.ClientSession, method: str, url: str, key: str | None = None) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with http.request(method, url, headers=headers) as answer:
        return answer.status, await answer.json()


async def _followed(http: aiohttp.ClientSession, url: str) -> list[dict[str, Any]]:
    async with http.get(url) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        return [json.loads(event.data) for event in Parser().feed(await answer.read())]


def _url(server: Running, made: dict[str, Any]) -> str:
    return f"{server.url}/v1/responses/{made['id']}"


async def _ended(http: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    while True:
        _, response = await _call(http, "GET", url)
        if response["status"] not in {"queued", "in_progress"}:
            return dict(response)
        await asyncio.sleep(0.01)


async def test_a_response_in_the_background_is_told_at_once_and_ends_by_itself(
    server: Running, http: aiohttp.ClientSession
) -> None:
    status, made = await post(http, server.url, **_BACKGROUND)
    assert (status, made["status"], made["background"], made["output"]) == (200, "queued", True, [])
    Response.model_validate(made)
    ResponseResource.model_validate(made)
    ended = await _ended(http, _url(server, made))

    assert ended["status"] == "completed"
    assert ended["output"]
    _, more = await post(http, server.url, model="m", input="more", previous_response_id=made["id"])
    assert more["status"] == "completed"


async def test_it_runs_on_when_its_client_leaves_and_its_events_can_be_had_again(
    server: Running, http: aiohttp.ClientSession
) -> None:
    async with http.post(f"{server.url}/v1/responses", json=_BACKGROUND | {"stream": True}) as answer:
        await answer.content.readline()
        made = json.loads((await answer.content.readline()).removeprefix(b"data: "))["response"]
        answer.close()
    await _ended(http, _url(server, made))
    events = await _followed(http, f"{_url(server, made)}?stream=true")

    check_events(events)
    assert events[-1]["type"] == "response.completed"
    assert await _followed(http, f"{_url(server, made)}?stream=true&starting_after=3") == events[4:]


async def test_events_are_followed_live_after_those_that_were(slow: Running, http: aiohttp.ClientSession) -> None:
    async with AsyncOpenAI(api_key="k", base_url=f"{slow.url}/v1", max_retries=0) as client:
        begun = await client.responses.create(model="m", input="hi", background=True, stream=True)
        first = await anext(aiter(begun))
        assert first.type == "response.created"
        await begun.close()
        again = await client.responses.retrieve(first.response.id, stream=True, starting_after=1)
        kinds = [(await anext(aiter(again))).type for _ in range(2)]
        assert kinds == ["response.in_progress", "response.output_item.added"]
        cancelled = await client.responses.cancel(first.response.id)
        rest = [event.type async for event in again]

    assert cancelled.status == "cancelled"
    assert "response.completed" not in rest


@pytest.mark.parametrize("stream", [True, False])
async def test_a_running_one_is_cancelled_and_stays_so(
    slow: Running,
    http: aiohttp.ClientSession,
    stream: bool,  # noqa: FBT001 - a parameter
) -> None:
    async with http.post(f"{slow.url}/v1/responses", json=_BACKGROUND | {"stream": stream}) as answer:
        raw = await (answer.content.readany() if stream else answer.read())
    text = raw.split(b"data: ")[1].split(b"\n")[0] if stream else raw
    made = json.loads(text).get("response") or json.loads(text)
    for _ in range(2):
        status, cancelled = await _call(http, "POST", f"{_url(slow, made)}/cancel")
        assert (status, cancelled["status"], cancelled["id"]) == (200, "cancelled", made["id"])
        Response.model_validate(cancelled)
    assert (await _call(http, "GET", _url(slow, made)))[1]["status"] == "cancelled"
    _, refused = await post(http, slow.url, model="m", input="more", previous_response_id=made["id"])
    assert refused["error"]["code"] == "previous_response_not_found"


async def test_one_that_has_ended_is_told_as_it_is_when_cancelled(server: Running, http: aiohttp.ClientSession) -> None:
    _, made = await post(http, server.url, **_BACKGROUND)
    ended = await _ended(http, _url(server, made))

    assert await _call(http, "POST", f"{_url(server, made)}/cancel") == (200, ended)


async def test_only_the_background_can_be_cancelled(server: Running, http: aiohttp.ClientSession) -> None:
    _, made = await post(http, server.url, model="m", input="hi")
    status, answer = await _call(http, "POST", f"{_url(server, made)}/cancel")

    assert status == 400
    assert answer["error"] == {
        "message": "Cannot cancel a synchronous response.",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


async def test_what_is_not_there_or_not_ones_own_is_404(slow: Running, http: aiohttp.ClientSession) -> None:
    _, made = await post(http, slow.url, **_BACKGROUND)
    for url, key in ((f"{slow.url}/v1/responses/resp_none", None), (_url(slow, made), "other")):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
            status, answer = await _call(http, method, url + path, key)
            assert (status, answer["error"]["type"]) == (404, "invalid_request_error")
            assert answer["error"]["message"].startswith("Response with id 'resp_")


async def test_a_running_one_lists_its_input_and_can_be_deleted(slow: Running, http: aiohttp.ClientSession) -> None:
    _, made = await post(http, slow.url, **_BACKGROUND)
    _, listed = await _call(http, "GET", f"{_url(slow, made)}/input_items")
    assert [item["content"][0]["text"] for item in listed["data"]] == ["hi"]
    assert (await _call(http, "DELETE", _url(slow, made)))[1]["deleted"] is True
    assert (await _call(http, "GET", _url(slow, made)))[0] == 404


async def test_only_what_was_asked_for_as_a_stream_can_be_streamed_again(
    server: Running, http: aiohttp.ClientSession
) -> None:
    for body in (_BACKGROUND, {"model": "m", "input": "hi"}):
        _, made = await post(http, server.url, **body)
        status, answer = await _call(http, "GET", f"{_url(server, made)}?stream=true")
        assert (status, answer["error"]["param"]) == (400, "stream")
        assert (await _call(http, "GET", f"{_url(server, made)}?stream=false"))[0] == 200


@pytest.mark.parametrize("number", ["x", "-1", "1e3", "9" * 30])
async def test_a_number_that_is_none_is_refused(server: Running, http: aiohttp.ClientSession, number: str) -> None:
    _, made = await post(http, server.url, model="m", input="hi")
    status, answer = await _call(http, "GET", f"{_url(server, made)}?stream=true&starting_after={number}")

    assert (status, answer["error"]["param"]) == (400, "starting_after")


async def test_too_many_are_refused_and_the_others_run(http: aiohttp.ClientSession) -> None:
    settings = UpstreamSettings(
        port=0, tokens_per_second=0.01, drain_seconds=0.01, background_jobs=1, background_waiting=1
    )
    server = await start(settings)
    try:
        statuses = [(await post(http, server.url, **_BACKGROUND))[0] for _ in range(3)]
    finally:
        await server.close()

    assert statuses == [200, 200, 429]
