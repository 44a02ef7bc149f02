"""An engine that runs somewhere, behind the server: that tokens mean the same there, and that turns go on and end.

    python -m pytest tests/e2e/test_engines_live.py --live vllm:http://127.0.0.1:8000

Which model it is, the server's own variables say: `DELTAWIRE_TEMPLATE`, `DELTAWIRE_VOCABULARY`, `DELTAWIRE_ENGINE_KEY`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.support.commands import Command
from tests.upstream.helpers import check_events, post, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.live

_TOLD = ("DELTAWIRE_TEMPLATE", "DELTAWIRE_VOCABULARY", "DELTAWIRE_ENGINE_KEY", "DELTAWIRE_ENGINE_MODEL")
_BODY: dict[str, Any] = {"model": "live", "temperature": 0, "max_output_tokens": 500, "store": False}


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    told = {name: os.environ[name] for name in _TOLD if name in os.environ}
    engine = request.config.getoption("--live")
    command = Command(tmp_path, "upstream", "--engine", engine, "--listen", "127.0.0.1:0", env=told)
    yield command.url("upstream")
    assert command.stop() == 0


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def test_the_engine_reads_as_many_tokens_as_the_server_makes(url: str, http: aiohttp.ClientSession) -> None:
    asked = {"model": "live", "input": [_user("Name a city — “in one word”. 👋")]}
    async with http.post(f"{url}/v1/responses/input_tokens", json=asked) as counted:
        expected = (await counted.json())["input_tokens"]
    _, response = await post(http, url, **_BODY | asked)

    assert response["usage"]["input_tokens"] == expected


async def test_a_conversation_goes_on_by_deltas(url: str, http: aiohttp.ClientSession) -> None:
    parent: dict[str, Any] = {}
    used = 0
    async with http.ws_connect(f"{url}/v1/responses") as socket:
        for text in ("What is the capital of France? In one word.", "And of Italy?", "¿Y de España?", "Thank you."):
            events = await turn(socket, **_BODY, **parent, input=[_user(text)])
            check_events(events)
            response = events[-1]["response"]
            assert response["status"] == "completed"
            assert response["output"], "the model has written something"
            assert "\ufffd" not in str(response["output"]), "in tokens of this vocabulary"
            assert response["usage"]["input_tokens"] > used, "and was shown all that came before"
            used = response["usage"]["input_tokens"]
            parent = {"previous_response_id": response["id"]}


async def test_a_limit_makes_the_answer_incomplete(url: str, http: aiohttp.ClientSession) -> None:
    _, response = await post(http, url, **_BODY | {"max_output_tokens": 1}, input=[_user("Count to a hundred.")])

    assert response["status"] == "incomplete"
    assert response["usage"]["output_tokens"] == 1


async def test_a_client_that_leaves_does_not_hold_up_the_next(url: str, http: aiohttp.ClientSession) -> None:
    body = _BODY | {"max_output_tokens": 2000, "stream": True, "input": [_user("Count to a thousand, in words.")]}
    async with http.post(f"{url}/v1/responses", json=body) as answer:
        await answer.content.readline()
    _, response = await post(http, url, **_BODY, input=[_user("Hi")])

    assert response["status"] in {"completed", "incomplete"}


async def test_a_warmed_prompt_is_answered(url: str, http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{url}/v1/responses") as socket:
        warmed = (await turn(socket, **_BODY, input=[_user("Hi")], generate=False))[-1]["response"]
        answered = await turn(socket, **_BODY, input=[_user("there")], previous_response_id=warmed["id"])

    assert answered[-1]["response"]["output"]
