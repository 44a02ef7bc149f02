from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.engines.prompts import PATCH, SPACED, WEATHER, prompt
from upstream.templates.functions import (
    by_name,
    custom_arguments,
    custom_input,
    function_name,
    functions,
    offered,
)
from wire.errors import ApiError

_ALL = (WEATHER, PATCH, SPACED)


def test_a_function_keeps_what_describes_it() -> None:
    assert functions([WEATHER]) == [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "The weather.",
                "parameters": {"type": "object"},
                "strict": True,
            },
        }
    ]


def test_a_custom_tool_is_a_function_with_one_string() -> None:
    (made,) = functions([PATCH])
    parameters = made["function"]["parameters"]

    assert list(parameters["properties"]) == parameters["required"] == ["input"]
    assert parameters["properties"]["input"]["type"] == "string"


def test_a_function_without_parameters_has_an_empty_object_of_them() -> None:
    assert functions([SPACED])[0]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_namespaces_are_part_of_the_name() -> None:
    assert function_name("search", "mcp__wiki__") == "mcp__wiki__search"
    assert function_name("search", "wiki") == "wiki__search"
    assert by_name(_ALL)["mcp__wiki__search"] is SPACED


@given(st.text(min_size=1), st.text())
def test_every_name_becomes_one_that_other_apis_take(name: str, namespace: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", function_name(name, namespace))


def test_names_that_are_shortened_stay_apart() -> None:
    assert function_name("x" * 100 + "a") != function_name("x" * 100 + "b")
    assert function_name("a.b") != function_name("a:b")


@pytest.mark.parametrize(("choice", "expected"), [("auto", None), ("none", "none"), ("required", "required")])
def test_a_word_as_choice_is_passed_on(choice: str, expected: str | None) -> None:
    assert offered(prompt(tools=_ALL, tool_choice=choice)) == (_ALL, expected)


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "function", "name": "get_weather"}, "get_weather"),
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "function", "name": "search"}, "mcp__wiki__search"),
    ],
)
def test_a_chosen_tool_is_a_chosen_function(choice: dict[str, str], name: str) -> None:
    expected = {"type": "function", "function": {"name": name}}

    assert offered(prompt(tools=_ALL, tool_choice=choice)) == (_ALL, expected)


@pytest.mark.parametrize(("mode", "expected"), [("auto", None), ("required", "required")])
def test_allowed_tools_are_all_that_is_offered(mode: str, expected: str | None) -> None:
    choice = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "custom", "name": "apply_patch"}, 3]}

    assert offered(prompt(tools=_ALL, tool_choice=choice)) == ((PATCH,), expected)


def test_a_hosted_tool_as_choice_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        offered(prompt(tool_choice={"type": "web_search"}))

    assert (refused.value.status, refused.value.param) == (400, "tool_choice")


@given(st.text())
def test_a_custom_input_survives_the_way_there_and_back(text: str) -> None:
    assert custom_input(custom_arguments(text)) == text


@pytest.mark.parametrize(("arguments", "text"), [("*** x", "*** x"), ('"y"', "y"), ('{"a":1}', '{"a":1}'), ("", "")])
def test_arguments_of_another_form_are_the_input_themselves(arguments: str, text: str) -> None:
    assert custom_input(arguments) == text


@pytest.mark.parametrize(
    "arguments",
    ["[" * 200_000, r'{"input": "\ud83d"}', r'"\ud83d"', '{"input": NaN}'],
    ids=["deep", "half", "text", "no number"],
)
def test_arguments_that_cannot_be_told_in_json_and_utf_8_are_the_input_as_they_were_written(arguments: str) -> None:
    assert custom_input(arguments) == arguments
