from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.engines.prompts import PATCH, SPACED, WEATHER, told
from upstream.engine import Delta, End, Part, Start
from upstream.engines.tags import Tags
from upstream.templates.functions import by_name

_TOOLS = by_name((WEATHER, PATCH, SPACED))
_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Bern"}}\n</tool_call>'


def _played(*pieces: str) -> list[Part]:
    tags = Tags(_TOOLS)
    return [part for piece in pieces for part in tags.feed(piece)] + list(tags.end())


def test_text_streams_as_it_comes() -> None:
    tags = Tags(_TOOLS)

    assert list(tags.feed("Hel")) == [Start("message"), Delta("Hel")]
    assert list(tags.feed("lo ")) == [Delta("lo")]
    assert list(tags.feed("you")) == [Delta(" you")]
    assert list(tags.end()) == [End()]


def test_the_beginning_of_a_tag_is_held_back() -> None:
    tags = Tags(_TOOLS)

    assert list(tags.feed("a <tool")) == [Start("message"), Delta("a")]
    assert list(tags.feed("box>")) == [Delta(" <toolbox>")]


def test_thoughts_text_and_calls_are_items_in_their_order() -> None:
    assert told(_played(f"<think>\nhm\n</think>\n\nI look.\n{_CALL}\n{_CALL}")) == [
        ("reasoning", "", "hm"),
        ("message", "", "I look."),
        ("function_call", "get_weather", '{"city": "Bern"}'),
        ("function_call", "get_weather", '{"city": "Bern"}'),
    ]


def test_a_list_of_calls_is_that_many() -> None:
    listed = '<tool_call>[{"name": "mcp__wiki__search", "arguments": {}}, {"name": "other"}]</tool_call>'

    assert told(_played(listed)) == [("function_call", "mcp__wiki__search", "{}"), ("function_call", "other", "{}")]


@pytest.mark.parametrize("arguments", ['{"input": "*** x"}', '"*** x"'])
def test_a_custom_tools_input_is_taken_out(arguments: str) -> None:
    called = f'<tool_call>{{"name": "apply_patch", "arguments": {arguments}}}</tool_call>'

    assert told(_played(called)) == [("custom_tool_call", "apply_patch", "*** x")]


@pytest.mark.parametrize(
    "written",
    [
        "[" * 200_000,
        '{"name": "other", "arguments": ' + "[" * 100_000 + "]" * 100_000 + "}",
        r'{"name": "other", "arguments": {"half": "\ud83d"}}',
        r'{"name": "\ud83d", "arguments": {}}',
        '{"name": "other", "arguments": {"x": NaN}}',
        '{"name": "other", "arguments": {"x": 1e999}}',
    ],
    ids=["open", "deep", "half of a pair", "half of a pair as name", "no number", "infinity"],
)
def test_a_call_that_cannot_be_told_in_json_and_utf_8_is_text(written: str) -> None:
    assert told(_played(f"<tool_call>{written}</tool_call>")) == [("message", "", f"<tool_call>{written}")]


def test_a_call_whose_closing_tag_is_missing_is_one_if_it_is_whole() -> None:
    assert told(_played(_CALL.removesuffix("</tool_call>")))[0][0] == "function_call"


@pytest.mark.parametrize("inner", ["not json", "[]", '{"arguments": {}}', "3"])
def test_what_is_no_call_is_text_after_all(inner: str) -> None:
    assert told(_played(f"<tool_call>{inner}</tool_call>")) == [("message", "", f"<tool_call>{inner}")]


def test_an_answer_that_is_cut_leaves_its_item_open() -> None:
    tags = Tags(_TOOLS)
    parts = [*tags.feed("Hel"), *tags.end(cut=True)]

    assert parts == [Start("message"), Delta("Hel")]


def test_a_closing_tag_that_nothing_opened_is_text() -> None:
    assert told(_played("a </tool_call> b")) == [("message", "", "a </tool_call> b")]


def test_nothing_is_no_item() -> None:
    assert _played("", " \n") == []


@given(st.data())
def test_wherever_the_text_is_cut_the_same_is_told_and_never_half_a_tag(data: st.DataObject) -> None:
    pieces = st.sampled_from(
        ["a", " ", "\n", "<", "<t", "tool", "</think", "ü", _CALL, "<think>", "</think>", "<tool_call>"]
    )
    text = "".join(data.draw(st.lists(pieces, max_size=12)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    cut = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    found = told(_played(*cut))
    assert found == told(_played(text))
    for kind, _, said in found:
        assert kind != "message" or "<tool_call>" in said or "<think>" not in said
