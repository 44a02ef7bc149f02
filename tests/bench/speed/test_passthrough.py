from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.speed.passthrough import PassThrough


@asynccontextmanager
async def _through(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", handler)
    async with (
        TestServer(app) as behind,
        TestServer(PassThrough(str(behind.make_url("/")).rstrip("/")).application()) as hop,
    ):
        yield str(hop.make_url("/"))


async def test_request_and_answer_are_copied_with_their_headers() -> None:
    async def handler(request: web.Request) -> web.Response:
        body = await request.read()
        seen = f"{request.method} {request.path_qs} {request.headers['x-one']} {len(body)}"
        return web.Response(status=418, text=seen, headers={"x-two": "2"})

    async with _through(handler) as url, aiohttp.ClientSession() as session:
        answer = await session.put(f"{url}a/b?c=d", data=bytes(900_000), headers={"x-one": "1"})
        assert (answer.status, answer.headers["x-two"]) == (418, "2")
        assert await answer.text() == f"PUT /a/b?c=d 1 {900_000}"


async def test_an_answer_is_passed_on_while_it_is_written() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await request.content.read()
        await response.write(b"second")
        return response

    async with _through(handler) as url, aiohttp.ClientSession() as session, session.post(url) as answer:
        pieces = [chunk async for chunk in answer.content.iter_any()]
        assert b"".join(pieces) == b"firstsecond"
