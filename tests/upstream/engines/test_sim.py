from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.engines.prompts import NO_TOKENS
from tests.upstream.helpers import SEALER, WEATHER, items
from upstream.engine import Delta, End, Part, Prompt, Start, Stop, Summary
from upstream.engines.sim import Sim, limited, pieces, plan
from upstream.stages.compaction import compact
from upstream.stages.persistent import Seq
from upstream.stages.pipeline import EMPTY, extend
from upstream.stages.resolve import Tool, read_offer
from wire.errors import ApiError

_TOOLS = read_offer(json.dumps([WEATHER]).encode()).tools


def _prompt(*conversation: Any, **changes: Any) -> Prompt:
    base = Prompt("sim", None, Seq(items(*conversation)), (), "auto", {}, None, None, b"\x01" * 16, NO_TOKENS)
    return replace(base, **changes)


def _text(parts: list[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Delta))


def _kinds(prompt: Prompt, turns: int = 5) -> list[str]:
    return [part.kind for part in plan(prompt, turns) if isinstance(part, Start)]


def _loop(count: int) -> list[dict[str, Any]]:
    return [
        one
        for n in range(count)
        for one in (
            {"type": "function_call", "call_id": f"c{n}", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{n}", "output": "ok"},
        )
    ]


@given(st.text())
def test_pieces_put_together_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text


def test_the_same_context_gets_the_same_answer() -> None:
    assert list(plan(_prompt("hi"), 5)) == list(plan(_prompt("hi"), 5))


def test_another_context_gets_another_answer() -> None:
    assert _text(list(plan(_prompt("hi"), 5))) != _text(list(plan(_prompt("hi", digest=b"\x02" * 16), 5)))


def test_it_calls_tools_until_the_set_number_and_then_answers() -> None:
    kinds = [_kinds(_prompt("hi", *_loop(done), tools=_TOOLS), turns=2) for done in range(3)]

    assert kinds == [["function_call"], ["function_call"], ["message"]]


def test_calls_before_the_last_user_message_do_not_count() -> None:
    assert _kinds(_prompt("hi", *_loop(5), "again", tools=_TOOLS)) == ["function_call"]


def test_without_tools_it_answers_at_once() -> None:
    assert _kinds(_prompt("hi")) == ["message"]


def test_a_forced_call_comes_even_after_the_set_number() -> None:
    assert _kinds(_prompt("hi", *_loop(5), tools=_TOOLS, tool_choice="required")) == ["function_call"]


@pytest.mark.parametrize(
    ("model", "reasoning", "expected"),
    [
        ("gpt-5.5", None, True),
        ("o3", None, True),
        ("gpt-4.1", None, False),
        ("sim", None, False),
        ("sim", {"effort": "low"}, True),
        ("gpt-4.1", {}, False),
    ],
)
def test_reasoning_comes_with_models_that_reason_and_when_it_is_asked_for(
    model: str, reasoning: dict[str, Any] | None, *, expected: bool
) -> None:
    assert ("reasoning" in _kinds(_prompt("hi", model=model, reasoning=reasoning))) is expected


def test_a_summary_comes_only_when_it_is_asked_for() -> None:
    asked = list(plan(_prompt("hi", reasoning={"summary": "auto"}), 5))
    not_asked = list(plan(_prompt("hi", reasoning={"effort": "low"}), 5))

    assert any(isinstance(part, Summary) for part in asked)
    assert not any(isinstance(part, Summary) for part in not_asked)


def test_an_answer_asked_for_as_json_fits_its_schema() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string", "minLength": 3}}, "required": ["title"]}
    text = _text(list(plan(_prompt("hi", text={"format": {"type": "json_schema", "schema": schema}}), 5)))

    jsonschema.validate(json.loads(text), schema)
    assert isinstance(json.loads(_text(list(plan(_prompt("hi", text={"format": {"type": "json_object"}}), 5)))), dict)


def test_a_schema_that_it_cannot_answer_is_refused_before_anything_is_written() -> None:
    prompt = _prompt("hi", text={"format": {"type": "json_schema", "schema": {"not": {}}}}, reasoning={"effort": "low"})
    with pytest.raises(ApiError) as caught:
        next(plan(prompt, 5))

    assert (caught.value.status, caught.value.param) == (400, "text.format.schema")


def test_a_limit_cuts_the_answer_with_its_reason() -> None:
    parts = list(limited(plan(_prompt("hi"), 5), 3))

    assert [type(part) for part in parts] == [Start, Delta, Delta, Delta, Stop]
    assert parts[-1] == Stop("max_output_tokens")


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    whole = list(plan(_prompt("hi"), 5))
    said = sum(isinstance(part, Delta) for part in whole)

    assert list(limited(iter(whole), said)) == whole
    assert list(limited(iter(whole), None)) == whole


async def test_the_pace_is_kept_by_the_clock_and_not_by_the_sum_of_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    clock, slept = 100.0, []

    async def sleep(seconds: float) -> None:
        nonlocal clock
        slept.append(round(seconds, 6))
        clock += seconds + 0.05  # every sleep is late

    monkeypatch.setattr(loop, "time", lambda: clock)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    parts = [part async for part in Sim(tokens_per_second=10).generate(_prompt("hi"))]
    monkeypatch.undo()
    said = sum(isinstance(part, Delta) for part in parts)

    assert slept == [0.1] + [0.05] * (said - 1)


async def test_as_fast_as_possible_never_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_seconds: float) -> None:
        raise AssertionError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    parts = [part async for part in Sim().generate(_prompt("hi"))]

    assert parts == list(plan(_prompt("hi"), 5))
    assert isinstance(parts[-2], End)


async def test_closing_lets_go_of_nothing() -> None:
    engine = Sim()
    await engine.close()

    assert engine.accepts("") is False


def _two(**changes: Any) -> list[str]:
    tools = (*_TOOLS, Tool("custom", "search"))
    prompt = _prompt("hi", **({"tools": tools} | changes))
    return [part.name for part in plan(prompt, 5, at_once=2) if isinstance(part, Start) and part.name]


def test_two_calls_are_made_at_once_where_the_request_allows_it() -> None:
    assert len(_two()) == 2
    assert len(_two(parallel_tool_calls=True)) == 2
    assert len(_two(parallel_tool_calls=False)) == 1


def test_not_more_calls_are_made_at_once_than_are_left() -> None:
    prompt = _prompt("hi", *_loop(4), tools=(*_TOOLS, Tool("custom", "search")))

    assert sum(isinstance(part, Start) and bool(part.name) for part in plan(prompt, 5, at_once=2)) == 1


def test_calls_that_a_compaction_tells_of_count_as_made() -> None:
    loop = [one | ({"output": "ok " * 400} if "output" in one else {}) for one in _loop(5)]
    context = extend(EMPTY, items("hi", *loop))
    after = extend(context, [compact(context, SEALER)])

    assert all(item.type == "message" for item in after.items)
    assert _kinds(replace(_prompt(), items=after.items, tools=_TOOLS)) == ["message"]
