from __future__ import annotations

import pytest

from tests.upstream.engines.prompts import PATCH, WEATHER, prompt
from upstream.engines.chat_request import body


def test_what_the_client_left_open_is_left_out() -> None:
    assert body(prompt("hi"), "other") == {
        "model": "other",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_sampling_and_limits_are_passed_on() -> None:
    made = body(prompt("hi", temperature=0.0, top_p=0.5, max_output_tokens=9, reasoning={"effort": "low"}), "m")

    assert (made["temperature"], made["top_p"], made["max_tokens"], made["reasoning_effort"]) == (0.0, 0.5, 9, "low")


def test_tools_come_with_how_they_may_be_called() -> None:
    made = body(prompt("hi", tools=(WEATHER, PATCH), tool_choice="required", parallel_tool_calls=False), "m")

    assert [one["function"]["name"] for one in made["tools"]] == ["get_weather", "apply_patch"]
    assert (made["tool_choice"], made["parallel_tool_calls"]) == ("required", False)


def test_without_tools_nothing_is_said_of_them() -> None:
    made = body(prompt("hi", tool_choice="none", parallel_tool_calls=True), "m")

    assert not {"tools", "tool_choice", "parallel_tool_calls"} & made.keys()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True, "description": None},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}},
        ),
    ],
)
def test_the_format_of_the_answer_is_passed_on(wanted: dict[str, object], expected: object) -> None:
    assert body(prompt("hi", text={"format": wanted}), "m").get("response_format") == expected
