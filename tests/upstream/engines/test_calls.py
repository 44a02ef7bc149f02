from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.engines.prompts import PATCH, SPACED, WEATHER, told
from upstream.engine import Delta, End, Part, Start
from upstream.engines.calls import Calls, start_of
from upstream.templates.functions import by_name, function_name

_TOOLS = by_name((WEATHER, PATCH, SPACED))


def _piece(index: int | None, arguments: Any = None, name: str | None = None, key: str | None = None) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": key, "function": {key: value for key, value in function.items() if value is not None}}


def _played(*pieces: dict[str, Any]) -> list[Part]:
    calls = Calls(_TOOLS)
    return [part for piece in pieces for part in calls.add(piece, 0)] + list(calls.finish())


def test_a_call_is_told_as_it_streams() -> None:
    calls = Calls(_TOOLS)

    assert list(calls.add(_piece(0, "", "get_weather", "x"), 0)) == [Start("function_call", "get_weather")]
    assert list(calls.add(_piece(0, '{"a"'), 0)) == [Delta('{"a"')]
    assert list(calls.add(_piece(0, ":1}"), 0)) == [Delta(":1}")]
    assert list(calls.finish()) == [End()]


def test_the_next_call_begins_once_the_first_is_whole() -> None:
    calls = Calls(_TOOLS)
    list(calls.add(_piece(0, "{}", "get_weather"), 0))

    assert list(calls.add(_piece(1, "", "mcp__wiki__search"), 0)) == [
        End(),
        Start("function_call", "search", "mcp__wiki__"),
    ]
    assert list(calls.add(_piece(1, "{"), 0)) == [Delta("{")]


def test_a_custom_tools_input_is_told_whole() -> None:
    parts = _played(_piece(0, '{"inp', "apply_patch"), _piece(0, 'ut": "*** x"}'))

    assert told(parts) == [("custom_tool_call", "apply_patch", "*** x")]


def test_calls_without_an_index_are_told_apart_by_their_id() -> None:
    parts = _played(
        _piece(None, '{"a":1}', "get_weather", "x"),
        _piece(None, '{"b"', "get_weather", "y"),
        _piece(None, ":2}", key="y"),
    )

    assert [text for _, _, text in told(parts)] == ['{"a":1}', '{"b":2}']


def test_arguments_that_come_as_an_object_are_written_as_text() -> None:
    assert told(_played(_piece(0, {"a": 1}, "get_weather"))) == [("function_call", "get_weather", '{"a":1}')]


def test_a_name_that_was_not_on_offer_is_told_as_it_is() -> None:
    assert told(_played(_piece(0, "{}", "other"))) == [("function_call", "other", "{}")]


def test_the_last_call_of_a_cut_answer_does_not_end() -> None:
    calls = Calls(_TOOLS)
    list(calls.add(_piece(0, "{", "get_weather"), 0))
    list(calls.add(_piece(1, "{", "get_weather"), 0))

    assert list(calls.finish(cut=True)) == [End(), Start("function_call", "get_weather"), Delta("{")]


@given(st.data())
def test_however_the_pieces_of_parallel_calls_are_mixed_each_call_is_told_whole_and_in_order(
    data: st.DataObject,
) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(_TOOLS)), min_size=1, max_size=4))
    texts = [json.dumps({"input": f"{number} äö"}) for number, _ in enumerate(names)]
    waiting = {
        number: [_piece(number, text[:cut], names[number]), _piece(number, text[cut:])]
        for number, text in enumerate(texts)
        for cut in [data.draw(st.integers(0, len(text)))]
    }
    pieces = [waiting[number].pop(0) for number in waiting]  # calls begin in their order
    while waiting := {number: left for number, left in waiting.items() if left}:
        pieces.append(waiting[data.draw(st.sampled_from(sorted(waiting)))].pop(0))

    found = told(_played(*pieces))
    expected = [
        ("custom_tool_call", name, f"{number} äö") if name == "apply_patch" else ("function_call", name, texts[number])
        for number, name in enumerate(names)
    ]
    assert found == expected


def test_a_call_begins_as_that_of_the_tool_that_its_name_stands_for() -> None:
    assert start_of(_TOOLS, "get_weather") == Start("function_call", "get_weather")
    for tool in (WEATHER, PATCH, SPACED):
        begun = start_of(_TOOLS, function_name(tool.name, tool.namespace))
        assert (begun.name, begun.namespace) == (tool.name, tool.namespace)
        assert begun.kind == ("custom_tool_call" if tool.type == "custom" else "function_call")
    assert start_of(_TOOLS, "nobody") == Start("function_call", "nobody")
