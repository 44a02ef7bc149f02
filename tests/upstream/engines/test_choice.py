import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from upstream.engines.choice import choose, choose_some, is_forced
from upstream.stages.resolve import Tool

_CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_CMD = {"type": "object", "properties": {"cmd": {"type": "string"}, "tty": {"type": "boolean"}}, "required": ["cmd"]}
_ARGV = {
    "type": "object",
    "properties": {"command": {"type": "array", "items": {"type": "string"}}, "why": {"type": "string"}},
    "required": ["command", "why"],
}


def _tool(name: str, parameters: dict[str, Any] | None = None, kind: str = "function", namespace: str = "") -> Tool:
    return Tool(kind, name, namespace, _CITY if parameters is None else parameters)


def _name(*tools: Tool, choice: str | dict[str, Any] = "auto") -> str | None:
    call = choose(tools, choice, 1)
    return call.name if call else None


def test_a_shell_is_preferred_and_only_echoes() -> None:
    call = choose([_tool("get_weather"), _tool("exec_command", _CMD)], "auto", 3)

    assert call is not None
    assert call.name == "exec_command"
    assert json.loads(call.arguments) == {"cmd": "echo deltawire 3"}


def test_a_shell_that_takes_a_list_gets_one_and_whatever_else_it_requires() -> None:
    call = choose([_tool("shell", _ARGV)], "auto", 1)

    assert call is not None
    assert json.loads(call.arguments) == {"command": ["echo", "deltawire", "1"], "why": "deltawire"}
    jsonschema.validate(json.loads(call.arguments), _ARGV)


def test_a_shell_whose_command_line_is_not_found_is_left_alone() -> None:
    assert (
        _name(_tool("bash", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}))
        is None
    )


@pytest.mark.parametrize(
    "name",
    [
        "get_weather",
        "read_file",
        "listFiles",
        "search",
        "echo",
        "weatherLookup".lower(),
        "lookup_user",
        "query-db",
        "get_goal",
    ],
)
def test_a_tool_that_only_reads_by_its_name_is_called(name: str) -> None:
    if name == "weatherlookup":  # one word that is none of the known ones
        assert _name(_tool(name)) is None
    else:
        assert _name(_tool(name)) == name


@pytest.mark.parametrize(
    "name",
    ["write_stdin", "deleteFile", "apply_patch", "create_goal", "update_plan", "get_and_delete", "kill_shell",
     "send_message", "spawn_agent", "request_user_input", "task", "run_tests", ""],
)  # fmt: skip
def test_any_other_tool_is_left_alone(name: str) -> None:
    assert _name(_tool(name)) is None


def test_a_custom_tool_is_never_taken_for_a_shell() -> None:
    assert _name(_tool("exec_command", kind="custom"), _tool("bash", kind="custom")) is None


def test_a_tool_whose_arguments_cannot_be_made_is_passed_over() -> None:
    never = {
        "type": "object",
        "properties": {"x": {"type": "string", "pattern": "^[^a-zA-Z0-9]{9}$"}},
        "required": ["x"],
    }

    assert _name(_tool("get_a", never), _tool("get_b")) == "get_b"
    assert _name(_tool("get_a", {"type": "array"}), _tool("get_b", {"properties": 3, "required": ["x"]})) is None


def test_a_namespace_goes_with_the_call() -> None:
    call = choose([_tool("list_agents", {}, namespace="collaboration")], "auto", 1)

    assert call is not None
    assert (call.namespace, call.arguments) == ("collaboration", "{}")


def test_none_means_no_call() -> None:
    assert _name(_tool("get_weather"), choice="none") is None


def test_a_named_function_is_called_whatever_its_name_says() -> None:
    choice = {"type": "function", "name": "send_mail"}

    assert _name(_tool("get_weather"), _tool("send_mail"), choice=choice) == "send_mail"
    assert _name(_tool("get_weather"), choice=choice) is None


def test_required_calls_an_unknown_tool_rather_than_none_but_never_one_that_changes_things() -> None:
    assert _name(_tool("delete_all"), _tool("plan"), choice="required") == "plan"
    assert _name(_tool("delete_all"), choice="required") is None


def test_only_allowed_tools_are_called() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_b"}]}

    assert _name(_tool("get_a"), _tool("get_b"), choice=choice) == "get_b"
    assert _name(_tool("get_a"), choice=choice) is None
    assert _name(_tool("get_a"), choice={"type": "web_search"}) is None


@pytest.mark.parametrize(
    ("choice", "forced"),
    [
        ("auto", False),
        ("required", True),
        ({"type": "function", "name": "f"}, True),
        ({"type": "allowed_tools", "mode": "required"}, True),
        ({"type": "allowed_tools", "mode": "auto"}, False),
    ],
)
def test_a_request_may_want_a_call_in_any_case(choice: str | dict[str, Any], *, forced: bool) -> None:
    assert is_forced(choice) is forced


def test_a_custom_tool_is_called_with_text_when_its_name_is_harmless() -> None:
    call = choose([_tool("search_notes", kind="custom")], "auto", 2)

    assert call is not None
    assert (call.kind, call.name, call.arguments) == ("custom_tool_call", "search_notes", "deltawire 2")


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "custom", "name": "apply_patch"}])
def test_a_custom_tool_that_may_change_something_is_never_called(choice: str | dict[str, Any]) -> None:
    assert choose([_tool("apply_patch", kind="custom")], choice, 1) is None


def test_a_custom_tool_with_a_grammar_is_never_called() -> None:
    assert choose([Tool("custom", "search", format="grammar")], {"type": "custom", "name": "search"}, 1) is None


def test_several_calls_are_of_several_tools_as_far_as_there_are() -> None:
    tools = [_tool("get_weather"), _tool("delete_all"), _tool("search", kind="custom"), _tool("list_files")]

    assert [call.name for call in choose_some(tools, "auto", 1, 2)] == ["get_weather", "search"]
    assert [call.name for call in choose_some(tools[:2], "auto", 1, 2)] == ["get_weather"]
    assert len(choose_some(tools, {"type": "function", "name": "get_weather"}, 1, 2)) == 1
    assert choose_some(tools, "none", 1, 2) == []


def test_a_shell_may_be_called_twice_with_another_line() -> None:
    calls = choose_some([_tool("exec_command", _CMD)], "auto", 1, 2)

    assert [json.loads(call.arguments)["cmd"] for call in calls] == ["echo deltawire 1", "echo deltawire 2"]


def test_allowed_tools_are_told_apart_by_kind() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "search"}]}
    calls = choose_some([_tool("search"), _tool("search", kind="custom")], allowed, 1, 2)

    assert [call.kind for call in calls] == ["custom_tool_call"]
