from __future__ import annotations

import pytest

from tests.support.raw import NOT_HTTP, answered
from tests.support.rig import rigged


@pytest.mark.parametrize("name", NOT_HTTP)
async def test_what_is_not_http_is_answered_in_the_apis_shape_and_quoted_nowhere(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async with rigged() as rig:
        for url in (rig.running.url, rig.running.admin_url):
            status, headers, told = await answered(url, NOT_HTTP[name])

            assert (status, headers["content-type"]) == (400, "application/json")
            assert headers["x-deltawire-error"] == "invalid_http"
            assert headers["x-request-id"].startswith("req_")
            assert told["error"]["type"] == "invalid_request_error"
            said = f"{headers}{told}{caplog.text}{capfd.readouterr()}"
            assert "secret-9d2" not in said
            assert "Traceback" not in said
