from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given

from tests.upstream.engines.prompts import call, custom, histories, output, prompt, said
from tests.upstream.helpers import items
from upstream.engines.messages import messages
from wire.errors import ApiError

_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}
_SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}


def _called(call_id: str, name: str = "get_weather", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _tool(call_id: str, content: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_instructions_come_first_and_developers_speak_for_the_system() -> None:
    made = messages(prompt(said("developer", "d"), "hi", said("assistant", "yes"), instructions="be kind"))

    assert made == [
        {"role": "system", "content": "be kind"},
        {"role": "system", "content": "d"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes"},
    ]


def test_images_and_files_are_passed() -> None:
    file = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}
    audio = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    parts = [{"type": "input_text", "text": "see"}, _IMAGE, file, audio]

    assert messages(prompt({"role": "user", "content": parts}))[0]["content"] == [
        {"type": "text", "text": "see"},
        _SHOWN,
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
        audio,
    ]


def test_the_calls_of_one_answer_stand_in_its_message_and_the_outputs_behind_it() -> None:
    made = messages(prompt("hi", said("assistant", "I look."), call("a"), call("b"), output("b"), output("a", "fine")))

    assert made[1] == {"role": "assistant", "content": "I look.", "tool_calls": [_called("a"), _called("b")]}
    assert made[2:] == [_tool("b"), _tool("a", "fine")]


def test_a_call_after_outputs_is_another_answer() -> None:
    made = messages(prompt("hi", call("a"), output("a"), call("b"), output("b")))

    assert [message["role"] for message in made] == ["user", "assistant", "tool", "assistant", "tool"]


def test_an_output_stands_behind_its_call_wherever_it_came() -> None:
    made = messages(prompt("hi", call("a"), "wait", output("a")))

    assert [message["role"] for message in made] == ["user", "assistant", "tool", "user"]


def test_images_in_outputs_are_shown_after_the_outputs() -> None:
    parts = [{"type": "input_text", "text": "look"}, _IMAGE]
    made = messages(prompt("hi", call("a"), call("b"), output("a", parts), output("b", [_IMAGE])))

    assert made[2:] == [
        _tool("a", "look"),
        _tool("b", "(see the following message)"),
        {"role": "user", "content": [_SHOWN, _SHOWN]},
    ]


def test_custom_calls_are_functions_with_one_string() -> None:
    made = messages(prompt("hi", custom("a", "*** é"), output("a", "done", "custom_tool_call")))

    assert made[1]["tool_calls"] == [_called("a", "apply_patch", '{"input": "*** é"}')]
    assert made[2] == _tool("a", "done")


def test_other_calls_with_an_output_are_functions_of_their_type() -> None:
    shell = {"type": "local_shell_call", "call_id": "a", "id": "x", "action": {"command": ["ls"]}}
    made = messages(prompt("hi", shell, {"type": "local_shell_call_output", "call_id": "a", "output": {"code": 0}}))

    assert made[1]["tool_calls"] == [_called("a", "local_shell", '{"action": {"command": ["ls"]}}')]
    assert made[2] == _tool("a", '{"code": 0}')


def test_a_namespace_is_part_of_the_called_name() -> None:
    made = messages(prompt("hi", call("a", "search", namespace="mcp__wiki__"), output("a")))

    assert made[1]["tool_calls"][0]["function"]["name"] == "mcp__wiki__search"


def test_reasoning_is_shown_since_the_user_spoke_last_and_not_before() -> None:
    old, new = (
        dataclasses.replace(items({"type": "reasoning", "id": f"rs_{text}", "summary": []})[0], hidden=text)
        for text in ("old", "new")
    )
    made = messages(prompt("hi", old, said("assistant", "yes"), "again", new, call("a"), output("a")))

    assert [message.get("reasoning_content") for message in made] == [None, None, None, "new", None]


def test_reasoning_between_calls_begins_another_message() -> None:
    (thought,) = (
        dataclasses.replace(one, hidden="hm") for one in items({"type": "reasoning", "id": "rs_1", "summary": []})
    )
    made = messages(prompt("hi", call("a"), thought, call("b"), output("a"), output("b")))

    assert [message["role"] for message in made] == ["user", "assistant", "tool", "assistant", "tool"]


def test_tools_that_come_as_an_item_are_no_message() -> None:
    assert len(messages(prompt("hi", {"type": "additional_tools", "tools": []}))) == 1


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"role": "user", "content": [{"type": "input_video"}]},
        {"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]},
        {"type": "function_call_output", "call_id": "none", "output": "x"},
    ],
)
def test_what_has_no_form_as_a_message_is_refused_and_never_left_out(item: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        messages(prompt("hi", item))

    assert (refused.value.status, refused.value.param) == (400, "input")


@given(histories())
def test_any_history_keeps_its_order_and_its_pairs(history: list[dict[str, Any]]) -> None:
    made = messages(prompt(*history))
    texts = [item["content"][0]["text"] for item in history if item["type"] == "message"]
    calls = [item["call_id"] for item in history if item["type"].endswith("_call")]

    assert [message["content"] for message in made if message["role"] != "tool" and message["content"]] == texts
    assert [one["id"] for message in made for one in message.get("tool_calls", ())] == calls
    open_calls: set[str] = set()
    for message in made:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
        else:
            assert not open_calls, "outputs follow their calls at once"
            open_calls = {one["id"] for one in message.get("tool_calls", ())}
    assert not open_calls


@given(histories())
def test_messages_and_calls_stand_in_the_order_of_their_items(history: list[dict[str, Any]]) -> None:
    made = messages(prompt(*history))
    order: list[str] = []
    for message in made:
        if message["role"] != "tool":
            order += [message["content"]] if message["content"] else []
            order += [one["id"] for one in message.get("tool_calls", ())]

    assert order == [
        item["content"][0]["text"] if item["type"] == "message" else item["call_id"]
        for item in history
        if not item["type"].endswith("_output")
    ]
