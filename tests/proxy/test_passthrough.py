"""Everything that is no turn, and turns that take no link: through to the upstream and back as they are."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from proxy.passthrough import upstream_url
from tests.support.responses import user
from tests.support.rig import Rig, Talk, read, rigged
from upstream.scripted import Play, message
from upstream.scripted.faults import CloseAfter, ErrorFirst, Hold
from upstream.scripted.server import Call, Reply
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@pytest.mark.parametrize(
    ("upstream", "asked", "url"),
    [
        ("https://h/v1", "/v1/models?limit=2", "https://h/v1/models?limit=2"),
        ("https://h/v1", "/models", "https://h/v1/models"),
        ("https://h/v1/", "/v1", "https://h/v1"),
        ("https://h/openai/v1", "/v1/files/a%2Fb", "https://h/openai/v1/files/a%2Fb"),
        ("https://h/openai/v1", "/openai/v1/files", "https://h/openai/v1/files"),
        ("https://h", "/v1/models", "https://h/models"),
        ("https://h/v1", "/v10/models", "https://h/v1/v10/models"),
        ("https://h:8443/v1", "http://other/v1/models", "https://h:8443/v1/models"),
        ("https://h", "https://other/models", "https://h/models"),
        ("https://h", "http://other", "https://h/"),
    ],
)
def test_the_upstreams_base_url_decides_where_a_path_lives(upstream: str, asked: str, url: str) -> None:
    assert upstream_url(upstream, asked) == url


@asynccontextmanager
async def before(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[Rig]:
    """A sidecar before an upstream of one handler."""
    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, auto_decompress=False, handler_cancellation=True, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with rigged(url=f"http://{host}:{port}/v1", transport="http") as rig:
            rig.checked = False
            yield rig
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1?include=a&include=b"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("POST", "/v1/responses/compact"),
        ("GET", "/v1/models"),
        ("PUT", "/v1/anything%2Felse"),
        ("GET", "/v1/responses"),
    ],
)
async def test_other_requests_reach_the_upstream_by_method_path_and_query(method: str, path: str) -> None:
    async with rigged(upstream={"others": lambda _: Reply(201, b'{"a":1}', {"x-a": "b"})}) as rig:
        async with rig.session.request(method, f"{rig.running.url}{path}") as answer:
            got = await read(answer)
        call = rig.up.calls[0]
        assert (call.method, call.path) == (method, path)
        assert (got.status, got.raw, got.headers["x-a"]) == (201, b'{"a":1}', "b")
        assert "x-deltawire-transport" not in got.headers


async def test_bodies_and_headers_go_through_as_they_are_but_for_what_is_meant_for_one_connection() -> None:
    def others(call: Call) -> Reply:
        return Reply(200, call.body, {"x-deltawire-transport": "delta", "keep-alive": "timeout=1", "set-cookie": "a=1"})

    async with rigged(upstream={"others": others}) as rig:
        sent = {
            "authorization": "Bearer k",
            "cookie": "c=1",
            "x-deltawire-transport": "http",
            "connection": "close, x-private",
            "x-private": "1",
            "te": "trailers",
            "proxy-authorization": "Basic x",
            "content-type": "application/x-odd",
            "user-agent": "Client/1",
        }
        body = b"\x00\xff" * 100
        async with rig.session.post(f"{rig.running.url}/v1/files", data=body, headers=sent) as answer:
            got = await read(answer)
        heard = rig.up.calls[0].headers
        assert rig.up.calls[0].body == got.raw == body
        for name in ("authorization", "cookie", "content-type", "user-agent"):
            assert heard[name] == sent[name]
        assert heard["content-length"] == "200"
        assert heard["host"] == rig.up.url.split("/")[2]
        assert not {"x-private", "te", "proxy-authorization", "x-deltawire-transport"} & heard.keys()
        assert got.headers["set-cookie"] == "a=1"
        assert not {"x-deltawire-transport", "keep-alive"} & got.headers.keys()


async def test_nothing_is_added_to_a_request_that_its_client_left_out() -> None:
    heard: list[bytes] = []

    async def far(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(far, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with rigged(url=f"http://127.0.0.1:{port}/v1") as rig:
            status, headers, body = await raw(rig, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    assert heard[0].lower() == b"get /v1/models http/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % port
    assert (status, body) == (204, b"")
    assert "content-type" not in headers


async def raw(rig: Rig, request: bytes, *, end: bool = True) -> tuple[int, dict[str, str], bytes]:
    """The answer to bytes as they are, on a connection of its own."""
    host, port = rig.running.url.removeprefix("http://").rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    if end:
        request = request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    named = (line.split(": ", 1) for line in lines)
    return int(first.split()[1]), {name.lower(): value for name, value in named}, body


async def test_a_request_in_absolute_form_goes_to_the_upstream_and_nowhere_else() -> None:
    async with rigged(upstream={"others": lambda _: Reply()}) as rig:
        status, _, _ = await raw(rig, b"GET http://elsewhere.invalid:1/v1/models?a=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status == 200
        assert rig.up.calls[0].path == "/v1/models?a=1"


async def test_a_client_that_waits_for_100_continue_is_answered_whatever_the_upstream_thinks_of_it() -> None:
    async def far(request: web.Request) -> web.StreamResponse:
        assert "expect" not in request.headers
        return web.Response(body=await request.read())

    async with before(far) as rig:
        head = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"
        status, _, rest = await raw(rig, head)
        assert status == 100
        assert b"200 OK" in rest
        assert rest.endswith(b"abc")


async def test_a_body_of_many_megabytes_is_streamed_both_ways() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for number in range(64):
            yield bytes([number]) * 2**18

    async with rigged(upstream={"others": lambda call: Reply(200, call.body, {})}, max_body=1000) as rig:
        async with rig.session.post(f"{rig.running.url}/v1/files", data=chunks()) as answer:
            got = await answer.read()
        assert len(got) == 2**24
        assert got == rig.up.calls[0].body
        assert rig.up.calls[0].headers["transfer-encoding"] == "chunked"


async def test_a_request_body_goes_on_while_it_comes_in() -> None:
    first, more = asyncio.Event(), asyncio.Event()

    async def far(request: web.Request) -> web.StreamResponse:
        assert await request.content.readany() == b"first"
        first.set()
        return web.Response(body=await request.read())

    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        await more.wait()
        yield b"second"

    async with before(far) as rig:
        asking = asyncio.ensure_future(fetch(rig, "POST", "/v1/files", data=chunks()))
        await first.wait()
        more.set()
        assert (await asking).raw == b"second"


async def fetch(rig: Rig, method: str, path: str, **options: Any) -> Any:
    async with rig.session.request(method, f"{rig.running.url}{path}", allow_redirects=False, **options) as answer:
        return await read(answer)


async def test_each_part_of_an_answer_comes_before_the_next_one_exists() -> None:
    seen = asyncio.Event()

    async def far(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await seen.wait()
        await response.write(b"data: 2\n\n")
        return response

    async with before(far) as rig, rig.session.get(f"{rig.running.url}/v1/events") as answer:
        assert await answer.content.readany() == b"data: 1\n\n"
        seen.set()
        assert await answer.read() == b"data: 2\n\n"


async def test_the_length_of_an_answer_to_head_is_kept_though_it_has_no_body() -> None:
    async def far(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x" * 1234, headers={"etag": '"e"'})

    async with before(far) as rig:
        status, headers, body = await raw(rig, b"HEAD /v1/files/f HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (status, headers["content-length"], headers["etag"], body) == (200, "1234", '"e"', b"")


async def test_an_answer_without_a_type_stays_without() -> None:
    async def far(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        return web.StreamResponse()

    async with before(far) as rig:
        status, headers, body = await raw(rig, b"GET /v1/files/f HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (status, "content-type" in headers, body) == (200, False, b"ok")


async def test_an_answer_with_control_characters_in_its_head_is_passed_on_without_them() -> None:
    async def far(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(b"HTTP/1.1 200 O\x1aK\r\nx-a: 1\x012\r\ncontent-length: 2\r\n\r\nok")
        return web.StreamResponse()

    async with before(far) as rig:
        status, headers, body = await raw(rig, b"GET /v1/files/f HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (status, headers["x-a"], body) == (200, "1 2", b"ok")


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_stays_without(status: int) -> None:
    async def far(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"etag": '"e"'})

    async with before(far) as rig:
        found, headers, body = await raw(rig, b"GET /v1/files/f HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (found, headers["etag"], body) == (status, '"e"', b"")
        assert "transfer-encoding" not in headers


async def test_a_compressed_answer_is_not_touched() -> None:
    packed = gzip.compress(b"x" * 1000)

    async def far(request: web.Request) -> web.StreamResponse:
        assert request.headers["accept-encoding"] == "gzip, br"
        return web.Response(body=packed, headers={"content-encoding": "gzip"})

    async with before(far) as rig:
        got = await fetch(rig, "GET", "/v1/files/f", headers={"accept-encoding": "gzip, br"})
        assert (got.raw, got.headers["content-encoding"]) == (packed, "gzip")
        assert got.headers["content-length"] == str(len(packed))


async def test_a_redirect_is_the_clients_to_follow() -> None:
    async def far(request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect("https://elsewhere.invalid/v1/files")

    async with before(far) as rig:
        got = await fetch(rig, "POST", "/v1/files", data=b"x")
        assert (got.status, got.headers["location"]) == (307, "https://elsewhere.invalid/v1/files")


async def test_repeated_headers_of_an_answer_stay_apart() -> None:
    async def far(request: web.Request) -> web.StreamResponse:
        response = web.Response()
        response.headers.extend([("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-request-id", "theirs")])
        return response

    async with before(far) as rig, rig.session.get(f"{rig.running.url}/v1/models") as answer:
        assert answer.headers.getall("set-cookie") == ["a=1", "b=2"]
        assert answer.headers.getall("x-request-id") == ["theirs"]


@pytest.mark.parametrize("sized", [True, False])
async def test_an_answer_that_the_upstream_breaks_off_is_broken_for_the_client_too(*, sized: bool) -> None:
    async def far(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if sized:
            response.content_length = 1000
        await response.prepare(request)
        await response.write(b"begun")
        assert request.transport is not None
        request.transport.close()
        return response

    async with before(far) as rig, rig.session.get(f"{rig.running.url}/v1/files/f") as answer:
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_client_that_leaves_ends_the_request_upstream() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def far(request: web.Request) -> web.StreamResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return web.Response()

    async with before(far) as rig:
        asking = asyncio.ensure_future(fetch(rig, "GET", "/v1/events"))
        await begun.wait()
        asking.cancel()
        await gone.wait()


@pytest.mark.parametrize("path", ["/v1/models", "/v1/responses"])
async def test_an_upstream_that_cannot_be_reached_is_a_502_that_says_so(path: str) -> None:
    async with rigged(url="http://127.0.0.1:1/v1") as rig:
        rig.checked = False
        got = await fetch(rig, "POST", path, data=b'{"model":"m","input":"a"}')
        assert (got.status, got.own_error) == (502, "upstream_unreachable")
        assert got.fault["code"] == "upstream_unreachable"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_by_http_is_what_the_upstream_answers_with_our_marks(*, stream: bool) -> None:
    async with rigged(transport="http") as rig:
        talk = Talk(rig, stream=stream)
        for text in ("a", "b"):
            got = await talk.say(text)
            assert got.way == ("http", "disabled")
            assert got.headers["x-request-id"].startswith("req_0000")
            assert rig.running.sidecar.recent.newest()[0]["request_id"] == got.headers["x-request-id"]
        assert [turn.raw for turn in rig.up.turns] == list(rig.bodies.values())
        assert rig.up.turns[0].headers["content-type"] == "application/json"


async def test_a_turn_by_http_whose_upstream_names_none_has_our_request_id() -> None:
    async def far(request: web.Request) -> web.StreamResponse:
        return web.Response(body=await request.read())

    async with before(far) as rig:
        got = await rig.post(rig.body("a"))
        assert got.headers["x-request-id"] == rig.running.sidecar.recent.newest()[0]["request_id"]


async def test_an_error_of_the_upstream_by_http_passes_with_its_status_body_and_headers() -> None:
    error = ApiError(429, "Slow.", code="rate_limit_exceeded", headers={"retry-after": "3"})
    async with rigged(lambda _: Play(faults=[ErrorFirst(error)]), transport="http") as rig:
        got = await Talk(rig).say("a")
        assert (got.status, got.headers["retry-after"]) == (429, "3")
        assert got.raw == error.http_body()
        assert got.own_error is None


async def test_a_turn_by_http_that_breaks_off_is_broken_for_the_client_and_on_record() -> None:
    async with rigged(lambda _: Play(items=[message("m")], faults=[CloseAfter(4)]), transport="http") as rig:
        with pytest.raises(aiohttp.ClientPayloadError):
            await Talk(rig).say("a")
        await rig.quiet()
        assert rig.running.sidecar.recent.newest()[0]["upstream_error"] == "broken_off"


async def test_the_stream_of_a_turn_by_http_is_not_held_back() -> None:
    gate = asyncio.Event()
    async with rigged(lambda _: Play(items=[message("m")], faults=[Hold(gate, 1)]), transport="http") as rig:
        async with rig.open(rig.body([user("a")], stream=True)) as answer:
            assert (await answer.content.readany()).startswith(b"event: response.created")
            gate.set()
            assert (await answer.read()).count(b"event: ") == 8
        assert rig.up.turns[0].headers["authorization"] == "Bearer sk-one"


async def test_an_http_fallback_carries_the_clients_body_and_none_of_our_ids() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        await talk.say("a")
        await rig.refuse_links()
        assert (await talk.say("b")).way == ("http", "no_websocket")
        assert rig.up.turns[1].raw == rig.bodies[2]
        assert "previous_response_id" not in json.loads(rig.up.turns[1].raw)
