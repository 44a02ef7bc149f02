from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.upstream.engines.prompts import WEATHER, prompt, told
from tests.upstream.engines.token_servers import SglangServer, listening
from tests.upstream.engines.vocabularies import BYTES, Given
from upstream.engine import Accepted, End, Part, Prompt, Stop, Usage
from upstream.engines import sglang, threads
from upstream.engines.chains import packed
from upstream.engines.reading import CHATML, HARMONY, reading
from upstream.engines.salt import Salts
from upstream.engines.sglang import Sglang
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_SALTS = Salts("a secret of the server")
_HI = BYTES.ids("Hi<|im_end|>")


@asynccontextmanager
async def _serving(
    text: str = "Hi<|im_end|>", name: str = CHATML, most: int = 64, **options: Any
) -> AsyncIterator[tuple[SglangServer, Sglang]]:
    server = SglangServer(**options)
    server.script.tokens = BYTES.ids(text)
    async with listening(server) as url:
        engine = Sglang(url, reading=reading(name, BYTES), salts=_SALTS, threads=most)
        yield server, engine
        await engine.close()


def _prompt(*ids: int, **changed: Any) -> Prompt:
    return prompt("hi", tokens=Given(*ids, tail=1), **changed)


async def _asked(engine: Sglang, given: Prompt) -> list[Part]:
    return [part async for part in engine.generate(given)]


async def _talked(engine: Sglang, turns: int, first: int = 5, **changed: Any) -> list[list[int]]:
    """A conversation that goes on; the prompt of each turn."""
    prompts = [[first, 6, 7]]
    for _ in range(turns):
        await _asked(engine, _prompt(*prompts[-1], **changed))
        prompts.append([*prompts[-1], *_HI, 8, 9])
    return prompts[:turns]


@pytest.mark.parametrize("incremental", [True, False])
async def test_a_prompt_goes_as_tokens_and_its_answer_streams(*, incremental: bool) -> None:
    async with _serving(incremental=incremental) as (server, engine):
        parts = await _asked(engine, _prompt(5, 6, 7, owner=b"a"))

    assert parts[0] == Accepted()
    assert told(parts[1:]) == [("message", "", "Hi")]
    assert parts[-1] == Stop(usage=Usage(3, 3, 3))
    (body,) = server.bodies
    assert (body["input_ids"], body["cache_salt"]) == ([5, 6, 7], _SALTS.of(b"a"))
    assert "session_params" not in body
    assert parts[-2] == End(packed([7, *_HI]))
    assert engine.takes == "tokens"


async def test_a_conversation_that_goes_on_sends_only_its_new_tokens() -> None:
    async with _serving() as (server, engine):
        prompts = await _talked(engine, 5)
        assert server.prompts == prompts, "the model is shown the whole prompt each time"
        (key,) = server.opens

    assert [body["input_ids"] for body in server.bodies] == [*prompts[:2], [8, 9], [8, 9], [8, 9]]
    assert [body.get("session_params", {}).get("id") for body in server.bodies] == [None, *[key] * 4]
    assert server.closed == [key], "an engine that is closed leaves nothing behind"


async def test_a_prompt_that_was_rewritten_goes_on_from_what_is_the_same() -> None:
    async with _serving() as (server, engine):
        prompts = await _talked(engine, 3)
        changed = [*prompts[-1][:8], 1, 2, 3]
        await _asked(engine, _prompt(*changed))

    assert server.prompts[-1] == changed
    assert server.bodies[-1]["input_ids"] == [1, 2, 3]


async def test_an_engine_that_drops_a_first_token_is_never_sent_one_that_it_would_drop() -> None:
    opening = reading(CHATML, BYTES).opening
    async with _serving(bos=opening) as (server, engine):
        prompts = [[opening, 6, 7]]
        for _ in range(4):
            await _asked(engine, _prompt(*prompts[-1]))
            prompts.append([*prompts[-1], *_HI, opening, 9])

    assert server.prompts == prompts[:4]


async def test_a_thread_that_the_engine_has_lost_is_sent_whole_and_begun_anew() -> None:
    async with _serving() as (server, engine):
        prompts = await _talked(engine, 3)
        server.opens.clear()
        prompts.append([*prompts[-1], *_HI, 1])
        parts = await _asked(engine, _prompt(*prompts[-1]))
        prompts.append([*prompts[-1], *_HI, 2])
        await _asked(engine, _prompt(*prompts[-1]))
        prompts.append([*prompts[-1], *_HI, 3])
        await _asked(engine, _prompt(*prompts[-1]))

    assert told(parts[1:]) == [("message", "", "Hi")]
    assert server.prompts == prompts
    assert server.bodies[-1]["input_ids"] == [3]


async def test_a_server_without_threads_is_sent_everything() -> None:
    async with _serving() as (server, engine):
        server.can_open = False
        prompts = await _talked(engine, 3)

    assert [body["input_ids"] for body in server.bodies] == prompts


async def test_owners_share_neither_threads_nor_salts() -> None:
    async with _serving() as (server, engine):
        await _talked(engine, 3, owner=b"a")
        await _talked(engine, 3, owner=b"b")
        assert len(server.opens) == 2

    keys = [body["session_params"]["id"] for body in server.bodies if "session_params" in body]
    assert not set(keys[:2]) & set(keys[2:])
    assert not {body["cache_salt"] for body in server.bodies[:3]} & {body["cache_salt"] for body in server.bodies[3:]}


async def test_turns_beside_each_other_do_not_meet() -> None:
    async with _serving() as (server, engine):
        (*_, last) = await _talked(engine, 3)
        both = [[*last, *_HI, 1], [*last, *_HI, 2]]
        await asyncio.gather(*(_asked(engine, _prompt(*ids)) for ids in both))

    assert sorted(server.prompts[-2:]) == both


async def test_threads_that_are_too_many_or_hold_too_much_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _serving(most=1) as (server, engine):
        await _talked(engine, 2, first=5)
        await _talked(engine, 2, first=4)
        first = await asyncio.wait_for(server.closings.get(), 10)
        assert first not in server.opens
        monkeypatch.setattr(threads, "_MAX_HELD", 20)
        prompts = await _talked(engine, 4, first=3)
        assert server.prompts[-4:] == prompts
        await asyncio.wait_for(server.closings.get(), 10)


async def test_an_engine_that_does_not_answer_holds_nobody_up_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sglang, "_CLOSING", 0.01)
    async with _serving() as (server, engine):
        await _talked(engine, 2)
        server.can_close = False
        await asyncio.wait_for(engine.close(), 10)

    assert server.closed == []


async def test_warming_reads_the_prompt_and_writes_nothing() -> None:
    async with _serving() as (server, engine):
        await engine.warm(_prompt(5, 6, owner=b"a"))

    (body,) = server.bodies
    assert (body["input_ids"], body["cache_salt"]) == ([5, 6], _SALTS.of(b"a"))


async def test_what_a_harmony_model_writes_is_items() -> None:
    written = (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary json"
    )
    async with _serving(f"{written}<|message|>{{}}<|call|>", HARMONY) as (server, engine):
        parts = await _asked(engine, _prompt(5, tools=(WEATHER,)))

    assert told(parts[1:]) == [("reasoning", "", "hm"), ("function_call", "get_weather", "{}")]
    assert server.bodies[0]["sampling_params"]["stop_token_ids"] == BYTES.ids("<|return|><|call|>")


async def test_an_answer_of_nothing_and_one_that_was_cut_by_its_limit() -> None:
    async with _serving("") as (server, engine):
        assert (await _asked(engine, _prompt(5)))[1:] == [Stop(usage=Usage(1, 1, 0))]
        server.script.tokens, server.script.finish = BYTES.ids("Hi"), "length"
        parts = await _asked(engine, _prompt(5))

    assert isinstance(parts[-1], Stop)
    assert parts[-1].incomplete == "max_output_tokens"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, {"error": {"message": "temperature must be a non-negative number"}}, (400, None)),
        (400, {"error": "unknown field `x`"}, (400, None)),
        (404, {"detail": "Not Found"}, (404, "model_not_found")),
        (401, {"error": "Unauthorized"}, (502, None)),
        (429, {"error": {"message": "slow"}}, (429, "rate_limit_exceeded")),
        (503, {"error": {"message": "draining"}}, (503, "server_is_overloaded")),
    ],
)
async def test_what_the_server_refuses_is_an_error_before_any_part(
    status: int, body: dict[str, Any], expected: tuple[int, str | None]
) -> None:
    async with _serving() as (server, engine):
        server.script.refusal = (status, body, {})
        with pytest.raises(ApiError) as refused:
            await anext(engine.generate(_prompt(5)))

    assert (refused.value.status, refused.value.code) == expected


async def test_what_the_engine_refuses_behind_a_200_is_an_error_before_any_part_as_well() -> None:
    error = {"message": "The input is longer than the model's context length (8 tokens).", "code": 400}
    async with _serving("") as (server, engine):
        server.script.error = {"error": error}
        with pytest.raises(ApiError) as refused:
            await anext(engine.generate(_prompt(5)))

    assert (refused.value.status, refused.value.code) == (400, "context_length_exceeded")


@pytest.mark.parametrize("error", [None, {"error": {"message": "died", "code": 500}}])
async def test_a_stream_that_is_cut_or_fails_ends_in_an_error_after_what_was_written(
    error: dict[str, Any] | None,
) -> None:
    async with _serving() as (server, engine):
        server.script.cut, server.script.error = error is None, error
        parts = engine.generate(_prompt(5))
        assert await anext(parts) == Accepted()
        assert told([await anext(parts) for _ in range(3)]) == [("message", "", "Hi")]
        with pytest.raises(ApiError) as failed:
            await anext(parts)

    assert failed.value.status == 502


async def test_leaving_early_closes_the_connection_and_the_thread_goes_on_from_before() -> None:
    async with _serving() as (server, engine):
        (*_, last) = await _talked(engine, 3)
        server.script.hangs = True
        parts = engine.generate(_prompt(*last, *_HI, 1))
        while await anext(parts) == Accepted():
            pass
        await parts.aclose()
        await asyncio.wait_for(server.script.left.wait(), 10)
        server.script.hangs = False
        await _asked(engine, _prompt(*last, *_HI, 2))

    assert server.prompts[-1] == [*last, *_HI, 2]
    assert server.bodies[-1]["input_ids"] == [2]


async def test_an_engine_that_is_not_there_is_overloaded_to_the_client() -> None:
    async with _serving() as (_, engine):
        pass
    with pytest.raises(ApiError) as refused:
        await _asked(engine, _prompt(5))
    await engine.close()

    assert (refused.value.status, refused.value.code) == (503, "server_is_overloaded")
