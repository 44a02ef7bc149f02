from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

import brotli
import pytest
from openai.types.responses import Response
from openresponses_types.types import ResponseResource
from structlog.testing import capture_logs

from tests.upstream.helpers import check_events, post, serving, stream, without_ids
from upstream.app import Running, start
from upstream.settings import UpstreamSettings

if TYPE_CHECKING:
    import aiohttp


async def _get(http: aiohttp.ClientSession, url: str, key: str = "k") -> tuple[int, dict[str, Any]]:
    async with http.get(url, headers={"authorization": f"Bearer {key}"}) as answer:
        return answer.status, await answer.json()


async def _sent(
    http: aiohttp.ClientSession, server: Running, body: bytes, **headers: str
) -> tuple[int, dict[str, Any]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with http.post(f"{server.url}/v1/responses", data=body, headers=named) as answer:
        return answer.status, await answer.json()


async def test_a_plain_request_is_answered_with_the_whole_response(
    server: Running, http: aiohttp.ClientSession
) -> None:
    status, body = await post(http, server.url, model="gpt-5.5", input="hi")

    assert status == 200
    Response.model_validate(body, strict=False)
    ResponseResource.model_validate(body)
    assert body["status"] == "completed"


async def test_a_streamed_request_is_answered_with_every_event(server: Running, http: aiohttp.ClientSession) -> None:
    events = await stream(http, server.url, model="gpt-5.5", input="hi", reasoning={"summary": "auto"})

    check_events(events)
    assert events[-1]["type"] == "response.completed"


async def test_the_stream_is_framed_as_the_api_frames_it_and_has_no_done(
    server: Running, http: aiohttp.ClientSession
) -> None:
    async with http.post(f"{server.url}/responses", json={"model": "m", "input": "hi", "stream": True}) as answer:
        raw = await answer.read()
    *events, rest = raw.split(b"\n\n")

    assert rest == b""
    assert b"[DONE]" not in raw
    for event in events:
        first, second = event.split(b"\n")
        assert first == b"event: " + json.loads(second.removeprefix(b"data: "))["type"].encode()


async def test_both_ways_to_ask_get_the_same_answer(server: Running, http: aiohttp.ClientSession) -> None:
    _, plain = await post(http, server.url, model="gpt-5.5", input="hi")
    events = await stream(http, server.url, model="gpt-5.5", input="hi")

    assert without_ids(events[-1]["response"]) == without_ids(plain)


async def test_every_answer_has_a_request_id_of_its_own(server: Running, http: aiohttp.ClientSession) -> None:
    seen = set()
    for path in ("/healthz", "/v1/models", "/nowhere", "/v1/responses"):
        async with http.get(server.url + path) as answer:
            seen.add(answer.headers["x-request-id"])

    assert len(seen) == 4


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("POST", "/v1/chat/completions", 404),
        ("PUT", "/v1/responses/compact", 405),
        ("GET", "/v1/responses", 405),
        ("PUT", "/v1/responses", 405),
    ],
)
async def test_what_is_not_offered_is_refused_in_the_apis_shape(
    server: Running, http: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    async with http.request(method, server.url + path) as answer:
        body = await answer.json()

    assert answer.status == status
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert ("allow" in answer.headers) is (status == 405)


async def test_health_and_models_are_told(server: Running, http: aiohttp.ClientSession) -> None:
    assert await _get(http, f"{server.url}/healthz") == (200, {"status": "ok"})
    _, models = await _get(http, f"{server.url}/v1/models")
    assert [model["id"] for model in models["data"]] == ["gpt-5.2", "gpt-5.5", "sim"]
    assert (await _get(http, f"{server.url}/v1/models/sim"))[1]["object"] == "model"
    assert (await _get(http, f"{server.url}/v1/models/none"))[0] == 404


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"not json", None),
        (b'{"input":"x"}', "model"),
        (b'{"model":"m","input":[{"role":3}]}', "input[0].role"),
        (b'{"model":"m","input":"x","stream":"yes"}', "stream"),
        (b'{"model":"m","input":"x","conversation":"conv_1"}', "conversation"),
        (b'{"model":"m","input":"x","previous_response_id":"resp_none"}', "previous_response_id"),
        (b'{"model":"m","input":"\\ud800"}', None),
    ],
)
async def test_a_bad_request_is_refused_with_the_path_of_what_is_wrong(
    server: Running, http: aiohttp.ClientSession, body: bytes, param: str | None
) -> None:
    status, answer = await _sent(http, server, body)

    assert status == 400
    assert answer["error"]["param"] == param
    assert answer["error"]["type"] == "invalid_request_error"


async def test_an_error_comes_as_json_even_when_a_stream_was_asked_for(
    server: Running, http: aiohttp.ClientSession
) -> None:
    status, answer = await _sent(http, server, b'{"model":"m","stream":true}')

    assert (status, answer["error"]["param"]) == (400, "input")


async def test_coded_bodies_are_read_and_others_named(server: Running, http: aiohttp.ClientSession) -> None:
    body = b'{"model":"m","input":"hi"}'

    assert (await _sent(http, server, gzip.compress(body), content_encoding="gzip"))[0] == 200
    assert (await _sent(http, server, bytes(brotli.compress(body)), content_encoding="br"))[0] == 200
    assert (await _sent(http, server, body, content_encoding="identity"))[0] == 200
    assert (await _sent(http, server, body, content_encoding="gzip"))[0] == 400
    assert (await _sent(http, server, body, content_encoding="lzma"))[0] == 415
    assert (await _sent(http, server, body, content_encoding="gzip, br, gzip"))[0] == 415
    assert (await post(http, server.url, model="m", input="still served"))[0] == 200


async def test_a_body_beyond_the_limit_is_413_coded_or_not(http: aiohttp.ClientSession) -> None:
    body = json.dumps({"model": "m", "input": "x" * 3000}).encode()
    async with serving(max_body=2000) as server:
        for status, answer in (
            await _sent(http, server, body),
            await _sent(http, server, gzip.compress(body), content_encoding="gzip"),
        ):
            assert (status, answer["error"]["code"]) == (413, "request_too_large")


async def test_a_stored_response_can_be_had_listed_and_deleted(server: Running, http: aiohttp.ClientSession) -> None:
    async with http.post(
        f"{server.url}/v1/responses",
        json={"model": "m", "input": [{"role": "user", "content": t} for t in "abc"]},
        headers={"authorization": "Bearer k"},
    ) as answer:
        made = await answer.json()
    url = f"{server.url}/v1/responses/{made['id']}"

    assert await _get(http, url) == (200, made)
    assert (await _get(http, url, key="other"))[0] == 404
    _, listed = await _get(http, f"{url}/input_items?limit=2")
    assert [item["content"][0]["text"] for item in listed["data"]] == ["c", "b"]
    assert listed["has_more"] is True
    _, rest = await _get(http, f"{url}/input_items?after={listed['last_id']}")
    assert [item["content"][0]["text"] for item in rest["data"]] == ["a"]
    assert (await _get(http, f"{url}/input_items?order=asc"))[1]["first_id"] == rest["last_id"]
    assert (await _get(http, f"{url}/input_items?limit=0"))[0] == 400
    assert (await _get(http, f"{url}?stream=true"))[0] == 400
    async with http.delete(url, headers={"authorization": "Bearer k"}) as answer:
        assert await answer.json() == {"id": made["id"], "object": "response", "deleted": True}
    assert (await _get(http, url))[0] == 404


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key"])
async def test_what_one_key_stored_no_other_key_finds_in_whatever_header_it_comes(
    name: str, server: Running, http: aiohttp.ClientSession
) -> None:
    _, stored = await _sent(http, server, b'{"model":"m","input":"hi"}', **{name: "one"})
    for key, status in (("two", 404), ("one", 200)):
        async with http.get(f"{server.url}/v1/responses/{stored['id']}", headers={name: key}) as answer:
            assert answer.status == status


async def test_a_response_that_was_not_to_be_stored_cannot_be_had(server: Running, http: aiohttp.ClientSession) -> None:
    _, made = await post(http, server.url, model="m", input="hi", store=False)
    async with http.get(f"{server.url}/v1/responses/{made['id']}") as answer:
        assert answer.status == 404


async def test_a_client_that_leaves_ends_the_generation(http: aiohttp.ClientSession) -> None:
    async with serving(tokens_per_second=0.01, drain_seconds=30) as server:
        async with http.post(
            f"{server.url}/v1/responses", json={"model": "m", "input": "hi", "stream": True}
        ) as answer:
            await answer.content.readline()
            assert server._http.idle.is_set() is False
            answer.close()
        await asyncio.wait_for(server._http.idle.wait(), 10)


async def test_each_turn_is_one_line_of_the_log_without_content(server: Running, http: aiohttp.ClientSession) -> None:
    with capture_logs() as logs:
        await post(http, server.url, model="m", input="secret", instructions="secret")
        await stream(http, server.url, model="m", input="secret")

    assert [(line["event"], line["transport"], line["status"]) for line in logs] == [
        ("turn", "json", "completed"),
        ("turn", "sse", "completed"),
    ]
    assert "secret" not in str(logs)


async def test_a_turn_whose_client_left_is_logged_as_abandoned(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, tokens_per_second=0.01))
    with capture_logs() as logs:
        async with http.post(
            f"{server.url}/v1/responses", json={"model": "m", "input": "hi", "stream": True}
        ) as answer:
            await answer.content.readline()
            answer.close()
        await asyncio.wait_for(server._http.idle.wait(), 10)
        await server.close()

    assert [line["status"] for line in logs] == ["abandoned"]
