from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.upstream.engines.prompts import WEATHER, prompt, told
from tests.upstream.engines.token_servers import VllmServer, listening
from tests.upstream.engines.vocabularies import BYTES, Given
from upstream.engine import Accepted, End, Part, Prompt, Stop, Usage
from upstream.engines.chains import packed
from upstream.engines.reading import CHATML, HARMONY, reading
from upstream.engines.salt import Salts
from upstream.engines.vllm import Vllm
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_SALTS = Salts("a secret of the server")
_IDS = [5, 6, 7]


@asynccontextmanager
async def _serving(
    text: str = "Hi<|im_end|>", name: str = CHATML, **options: Any
) -> AsyncIterator[tuple[VllmServer, Vllm]]:
    server = VllmServer(**options)
    server.script.tokens = BYTES.ids(text)
    async with listening(server) as url:
        engine = Vllm(url, reading=reading(name, BYTES), salts=_SALTS)
        yield server, engine
        await engine.close()


def _prompt(**changed: Any) -> Prompt:
    return prompt("hi", tokens=Given(*_IDS, tail=1), **changed)


async def _asked(engine: Vllm, given: Prompt) -> list[Part]:
    return [part async for part in engine.generate(given)]


@pytest.mark.parametrize("scale_out", [True, False])
async def test_a_prompt_goes_as_tokens_and_its_answer_streams(*, scale_out: bool) -> None:
    async with _serving(scale_out=scale_out) as (server, engine):
        parts = await _asked(engine, _prompt(owner=b"a"))

    assert parts[0] == Accepted()
    assert told(parts[1:]) == [("message", "", "Hi")]
    assert parts[-1] == Stop(usage=Usage(3, 3, 3))
    (body,) = server.bodies
    assert body["token_ids" if scale_out else "prompt"] == _IDS
    assert body["cache_salt"] == _SALTS.of(b"a")
    assert parts[-2] == End(packed([7, *BYTES.ids("Hi<|im_end|>")]))
    assert engine.takes == "tokens"


async def test_a_server_is_asked_once_what_it_has_and_again_after_a_failure() -> None:
    async with _serving(scale_out=True) as (server, engine):
        await _asked(engine, _prompt())
        await _asked(engine, _prompt())
        assert server.probes == 1
        server.scale_out = False
        with pytest.raises(ApiError):
            await _asked(engine, _prompt())
        assert told((await _asked(engine, _prompt()))[1:]) == [("message", "", "Hi")]

    assert server.probes == 2


async def test_a_request_that_the_client_has_to_change_says_nothing_of_the_server() -> None:
    async with _serving() as (server, engine):
        server.script.refusal = (400, {"error": {"message": "no", "code": 400}}, {})
        for _ in range(2):
            with pytest.raises(ApiError):
                await _asked(engine, _prompt())

    assert server.probes == 1


async def test_owners_never_share_a_salt() -> None:
    async with _serving() as (server, engine):
        for owner in (b"a", b"b", b"a"):
            await _asked(engine, _prompt(owner=owner))

    first, second, third = (body["cache_salt"] for body in server.bodies)
    assert first == third != second


async def test_what_a_harmony_model_writes_is_items() -> None:
    written = (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}<|call|>"
    )
    async with _serving(written, HARMONY) as (server, engine):
        parts = await _asked(engine, _prompt(tools=(WEATHER,)))

    assert told(parts[1:]) == [("reasoning", "", "hm"), ("function_call", "get_weather", "{}")]
    assert isinstance(parts[-1], Stop)
    assert parts[-1].usage is not None
    assert parts[-1].usage.reasoning_tokens == 2
    assert server.bodies[0]["sampling_params"]["stop_token_ids"] == BYTES.ids("<|return|><|call|>")


@pytest.mark.parametrize("scale_out", [True, False])
async def test_warming_writes_one_token(*, scale_out: bool) -> None:
    async with _serving(scale_out=scale_out) as (server, engine):
        await engine.warm(_prompt(owner=b"a"))

    (body,) = server.bodies
    assert body.get("sampling_params", body)["max_tokens"] == 1
    assert body["cache_salt"] == _SALTS.of(b"a")


async def test_an_answer_of_nothing_and_one_that_was_cut_by_its_limit() -> None:
    async with _serving("") as (server, engine):
        assert (await _asked(engine, _prompt()))[1:] == [Stop(usage=Usage(3, 3, 0))]
        server.script.tokens, server.script.finish = BYTES.ids("Hi"), "length"
        parts = await _asked(engine, _prompt())

    assert isinstance(parts[-1], Stop)
    assert parts[-1].incomplete == "max_output_tokens"


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, {"message": "temperature must be non-negative", "code": 400}, (400, None)),
        (400, {"message": "This model's maximum context length is 9", "code": 400}, (400, "context_length_exceeded")),
        (404, {"message": "The model `x` does not exist.", "code": 404}, (404, "model_not_found")),
        (401, {"message": "Unauthorized"}, (502, None)),
        (429, {"message": "slow"}, (429, "rate_limit_exceeded")),
        (503, {"message": "scaling"}, (503, "server_is_overloaded")),
        (500, {"message": "EngineCore died", "code": 500}, (502, None)),
    ],
)
async def test_what_the_server_refuses_is_an_error_before_any_part(
    status: int, error: dict[str, Any], expected: tuple[int, str | None]
) -> None:
    async with _serving() as (server, engine):
        server.script.refusal = (status, {"error": error}, {"retry-after": "7"})
        with pytest.raises(ApiError) as refused:
            await anext(engine.generate(_prompt()))

    assert (refused.value.status, refused.value.code) == expected
    assert ("retry-after" in refused.value.headers) == (status in {429, 503})


@pytest.mark.parametrize("error", [None, {"error": {"message": "EngineCore died", "code": 500}}])
async def test_a_stream_that_is_cut_or_fails_ends_in_an_error_after_what_was_written(
    error: dict[str, Any] | None,
) -> None:
    async with _serving() as (server, engine):
        server.script.cut, server.script.error = error is None, error
        parts = engine.generate(_prompt())
        assert await anext(parts) == Accepted()
        assert told([await anext(parts) for _ in range(3)]) == [("message", "", "Hi")]
        with pytest.raises(ApiError) as failed:
            await anext(parts)

    assert failed.value.status == 502


async def test_leaving_early_closes_the_connection() -> None:
    async with _serving() as (server, engine):
        server.script.hangs = True
        parts = engine.generate(_prompt())
        while await anext(parts) == Accepted():
            pass
        await parts.aclose()
        await asyncio.wait_for(server.script.left.wait(), 10)


async def test_an_engine_that_is_not_there_is_overloaded_to_the_client() -> None:
    async with _serving() as (_, engine):
        pass
    with pytest.raises(ApiError) as refused:
        await _asked(engine, _prompt())
    await engine.close()

    assert (refused.value.status, refused.value.code) == (503, "server_is_overloaded")
