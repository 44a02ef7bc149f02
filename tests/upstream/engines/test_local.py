from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import fetch
from tests.support.missing import missing
from tests.upstream.engines.prompts import prompt
from tests.upstream.helpers import check_events, echo, said, turn
from upstream import app
from upstream.engines import local
from upstream.engines.local import Local
from upstream.settings import UpstreamSettings
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import aiohttp

_LISTENS = "import sys; print('http://127.0.0.1:9', flush=True); sys.stdin.read()"


def _engine(code: str) -> Local:
    return Local((sys.executable, "-c", code))


async def test_the_process_lives_as_long_as_the_engine() -> None:
    engine = _engine(_LISTENS)
    await engine.ready()
    process = engine._process
    await engine.ready()
    assert engine._process is process
    await engine.close()

    assert process is not None
    assert process.returncode == 0


async def test_a_process_that_died_is_started_again() -> None:
    engine = _engine(_LISTENS)
    await engine.ready()
    process = engine._process
    assert process is not None
    process.kill()
    await process.wait()
    await engine.ready()

    assert engine._process is not process
    await engine.close()


async def test_a_process_that_does_not_start_is_one_clear_line_and_overloaded_to_a_client() -> None:
    engine = _engine("raise SystemExit(1)")
    with pytest.raises(ValueError, match=r"^the local engine does not start; .*pip install -e '\.\[local\]'"):
        await engine.ready()
    with pytest.raises(ApiError) as refused:
        await anext(engine.generate(prompt("hi")))

    assert refused.value.status == 503


async def test_without_weights_the_command_that_fetches_them_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTAWIRE_MODEL_DIR", str(tmp_path))
    with pytest.raises(ValueError, match="deltawire model fetch"):
        await local.start()


@pytest.fixture
async def real(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[app.Running]:
    """The server in front of the real model."""
    try:
        packages, weights = fetch.engine()
    except fetch.Unavailable as gone:
        missing(gone.what, gone.how)
    monkeypatch.setenv("DELTAWIRE_MODEL_DIR", str(weights))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(fetch.ROOT), str(packages)]))
    server = await app.start(UpstreamSettings(port=0, engine="local"))
    yield server
    await server.close()


_BODY: dict[str, Any] = {"model": "smollm2", "temperature": 0, "max_output_tokens": 24, "store": False}


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _cached(response: dict[str, Any]) -> int:
    count: int = response["usage"]["input_tokens_details"]["cached_tokens"]
    return count


@pytest.mark.engine
async def test_a_real_model_answers_and_reads_a_conversation_once(
    http: aiohttp.ClientSession, real: app.Running
) -> None:
    question, more = _user("What is the capital of France?"), _user("And of Italy?")
    async with http.ws_connect(f"{real.url}/v1/responses") as socket:
        await turn(socket, **_BODY, input=[question], generate=False)
        events = await turn(socket, **_BODY, input=[question])
        first = events[-1]["response"]
        second = (await turn(socket, **_BODY, input=[more], previous_response_id=first["id"]))[-1]["response"]
    async with http.post(f"{real.url}/v1/responses", json=_BODY | {"input": [question, *echo(first), more]}) as answer:
        whole = await answer.json()

    check_events(events)
    assert "Paris" in said(first)
    usage = first["usage"]
    assert _cached(first) >= usage["input_tokens"] - 1, "the warm-up has read it"
    assert _cached(second) >= usage["input_tokens"] + usage["output_tokens"] - 2
    assert said(whole)
    assert whole["usage"]["input_tokens"] == second["usage"]["input_tokens"]


@pytest.mark.engine
async def test_a_real_model_holds_conversations_beside_each_other_apart(
    http: aiohttp.ClientSession, real: app.Running
) -> None:
    async def talk(country: str) -> list[dict[str, Any]]:
        async with http.ws_connect(f"{real.url}/v1/responses") as socket:
            asked = _user(f"What is the capital of {country}?")
            first = (await turn(socket, **_BODY, input=[asked]))[-1]["response"]
            again = {"input": [_user("Say that again.")], "previous_response_id": first["id"]}
            return [first, (await turn(socket, **_BODY, **again))[-1]["response"]]

    talks = await asyncio.gather(talk("France"), talk("Italy"))

    for (first, second), capital in zip(talks, ("Paris", "Rome"), strict=True):
        assert capital in said(first)
        assert _cached(second) >= first["usage"]["input_tokens"] + first["usage"]["output_tokens"] - 2
