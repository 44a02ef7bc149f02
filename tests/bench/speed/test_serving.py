import asyncio
import sys

import uvloop

from bench.child import running
from bench.speed.serving import arguments, loop_factory

_SCRIPT = """
from aiohttp import web
from bench.speed.serving import serve
async def make():
    app = web.Application()
    async def said(_):
        return web.Response(text="here")
    app.router.add_get("/", said)
    return app
serve("test", make)
"""


async def test_a_server_says_where_it_listens_and_ends_when_told(http_session: object) -> None:
    async with running((sys.executable, "-c", _SCRIPT), {"test"}) as child:
        url = child.urls["test"]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert (await reader.read()).endswith(b"here")
        writer.close()


def test_the_loop_is_that_of_the_commands_where_it_is_installed() -> None:
    assert loop_factory() is uvloop.new_event_loop


def test_a_parser_says_what_it_is_for() -> None:
    assert "An echo." in arguments("An echo.").format_help()
