from __future__ import annotations

import pytest
from aiohttp import ClientSession, web
from structlog.testing import capture_logs

from telemetry.listener import Runner
from tests.support.raw import NOT_HTTP, answered


def _teapot(status: int) -> web.Response:
    return web.json_response({"was": status}, status=418)


async def _breaks(_: web.Request) -> web.Response:
    raise ValueError("secret-9d2")


async def _listening() -> tuple[Runner, str]:
    app = web.Application()
    app.router.add_get("/", _breaks)
    runner = Runner(app, _teapot, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


@pytest.mark.parametrize("name", NOT_HTTP)
async def test_what_is_no_http_is_answered_as_told_and_quoted_nowhere(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    runner, url = await _listening()
    status, _, told = await answered(url, NOT_HTTP[name])  # which reads until the server closes
    await runner.cleanup()

    assert (status, told) == (418, {"was": 400})
    assert "secret-9d2" not in f"{caplog.text}{capfd.readouterr()}"


async def test_a_handler_that_fails_is_answered_so_too_and_its_words_are_not_logged() -> None:
    runner, url = await _listening()
    with capture_logs() as logs:
        async with ClientSession() as client, client.get(url) as answer:
            assert (answer.status, await answer.json()) == (418, {"was": 500})
    await runner.cleanup()

    told = {"event": "request_failed", "status": 500, "error": "ValueError", "log_level": "warning"}
    assert [entry for entry in logs if entry["event"] == "request_failed"] == [told]
