from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.raw import NOT_HTTP, answered
from tests.upstream.helpers import serving

if TYPE_CHECKING:
    from upstream.app import Running


@pytest.mark.parametrize("name", NOT_HTTP)
async def test_what_is_not_http_is_answered_in_the_apis_shape_and_quoted_nowhere(
    server: Running, name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    status, headers, told = await answered(server.url, NOT_HTTP[name])

    assert (status, headers["content-type"]) == (400, "application/json")
    assert headers["x-request-id"].startswith("req_")
    assert told["error"]["type"] == "invalid_request_error"
    assert set(told["error"]) == {"message", "type", "param", "code"}
    said = f"{headers}{told}{caplog.text}{capfd.readouterr()}"
    assert "secret-9d2" not in said
    assert "Traceback" not in said


async def test_the_admin_side_answers_so_too() -> None:
    async with serving(admin_host="127.0.0.1") as server:
        status, _, told = await answered(server.admin_url, NOT_HTTP["no request line"])

    assert (status, told["error"]["type"]) == (400, "invalid_request_error")


async def test_the_server_goes_on_serving_others(server: Running) -> None:
    await answered(server.url, NOT_HTTP["no request line"])
    status, _, told = await answered(server.url, b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")

    assert (status, told) == (200, {"status": "ok"})
