"""`state.items`: the table has a row for every item type, and its helpers name what an item is."""

from dataclasses import FrozenInstanceError
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from openai.types.responses import ResponseInputItem, ResponseItem, ResponseOutputItem
from pydantic import BaseModel

from state.items import SERVER_MADE, TABLE, is_answer, is_reference, kind, reference_id

TYPES = [
    "additional_tools",
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "file_search_call",
    "function_call",
    "function_call_output",
    "image_generation_call",
    "item_reference",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "message",
    "program",
    "program_output",
    "reasoning",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
]

NEWER = {"configuration_update"}
"""Types that the SDK knows and the table does not: they are compared exactly, as any unknown type is."""
# The short form of a message has no id at all; Codex leaves out that of a local shell call.
ID_DEMANDED_YET_IGNORED = {"message", "local_shell_call"}


def _models(union: Any) -> list[type[BaseModel]]:
    """The models in a union of the SDK, whose types are made from the API's own description."""
    found, left = [], [union]
    while left:
        part = left.pop()
        if get_origin(part) is Annotated:
            left.append(get_args(part)[0])
        elif hasattr(part, "__value__"):
            left.append(part.__value__)
        elif isinstance(part, type):
            found.append(part)
        else:
            left += get_args(part)
    return found


def _words(annotation: Any) -> set[str]:
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    return {word for part in get_args(annotation) for word in _words(part)}


def _named(union: Any) -> set[str]:
    return {word for model in _models(union) for word in _words(model.model_fields["type"].annotation)}


def test_every_item_type_has_a_row() -> None:
    assert sorted(TABLE) == sorted(TYPES)


def test_the_types_are_those_of_the_sdk() -> None:
    assert _named(ResponseInputItem) | _named(ResponseOutputItem) | _named(ResponseItem) == {*TYPES} | NEWER


def test_an_id_counts_where_the_sdk_demands_it_of_an_input_item() -> None:
    demanding = [model for model in _models(ResponseInputItem) if "id" in model.model_fields]
    demanded = {
        word
        for model in demanding
        if model.model_fields["id"].is_required()
        for word in _words(model.model_fields["type"].annotation)
    }
    ignored = {named for named, row in TABLE.items() if "id" in row.ignored}
    assert ignored & demanded == ID_DEMANDED_YET_IGNORED
    assert ignored | demanded | {"compaction_trigger"} == {*TYPES} | (NEWER & demanded)


def test_what_a_model_can_answer_with_is_known_to_the_sdk() -> None:
    assert _named(ResponseOutputItem) >= SERVER_MADE


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TABLE["message"] = TABLE["reasoning"]  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        TABLE["message"].report = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "reasoning"}, "reasoning"),
        ({"type": "new_thing", "role": "user", "content": ""}, "new_thing"),
        ({"role": "user", "content": "a"}, "message"),
        ({"role": "user"}, None),
        ({"content": "a"}, None),
        ({"role": 1, "content": "a"}, None),
        ({"type": None, "role": "user", "content": "a"}, None),
        ({"type": ["message"], "role": "user", "content": "a"}, None),
        ({"id": "msg_1"}, "item_reference"),
        ({"id": "msg_1", "type": None}, "item_reference"),
        ({"id": "msg_1", "more": None}, None),
        ({"id": 1}, None),
        ({}, None),
        ("text", None),
        (None, None),
    ],
)
def test_an_item_without_a_type_is_what_the_schema_says_or_in_doubt(item: object, expected: str | None) -> None:
    assert kind(item) == expected


@pytest.mark.parametrize("named", sorted(SERVER_MADE - {"message", "tool_search_output"}))
def test_calls_reasoning_and_compaction_are_answers(named: str) -> None:
    assert is_answer({"type": named})


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"role": "assistant", "content": "b"}, True),
        ({"type": "message", "role": "assistant", "content": []}, True),
        ({"role": "user", "content": "a"}, False),
        ({"type": "message", "role": "developer", "content": "a"}, False),
        ({"type": "message", "role": "system", "content": "a"}, False),
        ({"type": "tool_search_output", "execution": "server", "tools": []}, True),
        ({"type": "tool_search_output", "execution": "client", "tools": []}, False),
        ({"type": "tool_search_output", "tools": []}, False),
        ({"type": "new_call"}, True),
        ({"type": "new_call_output"}, False),
        ({"type": "new_thing"}, False),
        ({"type": "item_reference", "id": "msg_1"}, False),
        ({"id": "msg_1"}, False),
        ({}, False),
        ("text", False),
    ],
)
def test_who_made_an_item_follows_from_its_type_and_role(item: object, expected: bool) -> None:  # noqa: FBT001
    assert is_answer(item) is expected


@pytest.mark.parametrize("named", [named for named in TYPES if named not in SERVER_MADE])
def test_inputs_and_outputs_of_tools_are_no_answers(named: str) -> None:
    assert not is_answer({"type": named})


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "item_reference", "id": "rs_1"}, "rs_1"),
        ({"type": None, "id": "rs_1"}, "rs_1"),
        ({"id": "rs_1"}, "rs_1"),
        ({"type": "item_reference", "id": "rs_1", "status": None}, "rs_1"),
        ({"type": "item_reference", "id": "rs_1", "status": "completed"}, None),
        ({"type": "item_reference", "id": 7}, None),
        ({"type": "item_reference"}, None),
        ({"type": "reasoning", "id": "rs_1"}, None),
        ([], None),
    ],
)
def test_a_reference_says_its_id_and_nothing_else(item: object, expected: str | None) -> None:
    assert reference_id(item) == expected


def test_a_reference_that_says_more_is_still_a_reference() -> None:
    assert is_reference({"type": "item_reference", "id": "rs_1", "more": 1})
    assert not is_reference({"type": "reasoning", "id": "rs_1"})
