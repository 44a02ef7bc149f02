from __future__ import annotations

from typing import Any

import pytest

from upstream.stages.resolve import Tool
from upstream.turns.tool_choice import check, matched
from wire.errors import ApiError

_TOOLS = (Tool("function", "f"), Tool("custom", "c"))


@pytest.mark.parametrize(
    "choice",
    [
        None,
        "none",
        "auto",
        "required",
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "c"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        {"type": "allowed_tools", "mode": "required", "tools": []},
        {"type": "file_search"},
        {"type": "mcp", "server_label": "s", "name": "t"},
        {"type": "apply_patch"},
    ],
)
def test_every_form_of_the_api_is_taken(choice: Any) -> None:
    check(choice)
    matched(choice, _TOOLS, b'[{"type":"file_search"},{"type":"mcp"},{"type":"apply_patch"}]')


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        ({}, "tool_choice.type"),
        ({"type": 3}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "custom", "name": None}, "tool_choice.name"),
        ({"type": "mcp"}, "tool_choice.server_label"),
        ({"type": "allowed_tools", "tools": []}, "tool_choice.mode"),
        ({"type": "allowed_tools", "mode": "none", "tools": []}, "tool_choice.mode"),
        ({"type": "allowed_tools", "mode": "auto"}, "tool_choice.tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": ["f"]}, "tool_choice.tools[0].type"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function"}]}, "tool_choice.tools[0].name"),
    ],
)
def test_a_form_that_is_none_is_refused_with_its_path(choice: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        check(choice)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "c"},
        {"type": "custom", "name": "f"},
        {"type": "file_search"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "none"}]},
    ],
)
def test_a_tool_that_is_not_on_offer_cannot_be_chosen(choice: Any) -> None:
    with pytest.raises(ApiError) as caught:
        matched(choice, _TOOLS, b'[{"type":"function"},{"type":"custom"}]')
    assert caught.value.message.endswith("not found in 'tools' parameter.")


def test_required_needs_a_tool_of_any_kind() -> None:
    matched("required", (), b'[{"type":"file_search"}]')
    matched("required", _TOOLS, b"[]")
    matched("auto", (), b"[]")
    with pytest.raises(ApiError):
        matched("required", (), b"[]")
