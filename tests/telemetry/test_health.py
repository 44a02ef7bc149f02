from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from telemetry.health import READY_LAG, routes, trouble


@pytest.mark.parametrize(
    ("draining", "lag", "word"),
    [(False, 0.0, ""), (False, READY_LAG, ""), (False, READY_LAG + 0.1, "wedged"), (True, 99.0, "draining")],
)
def test_what_drains_or_is_late_is_in_trouble(draining: bool, lag: float, word: str) -> None:  # noqa: FBT001 (a case)
    assert trouble(draining=draining, lag=lag) == word


@pytest.mark.parametrize(("word", "status", "text"), [("", 200, "ready\n"), ("draining", 503, "draining\n")])
async def test_trouble_makes_a_process_unready_but_not_dead(word: str, status: int, text: str) -> None:
    app = web.Application()
    app.add_routes(routes(lambda: word, lambda: (b"a_metric 1\n", "text/plain; version=0.0.4")))
    async with TestClient(TestServer(app)) as client:
        ready, alive, metrics = [await client.get(path) for path in ("/readyz", "/healthz", "/metrics")]
        assert (ready.status, await ready.text()) == (status, text)
        assert alive.status == 200
        assert (metrics.headers["content-type"], await metrics.text()) == ("text/plain; version=0.0.4", "a_metric 1\n")
