"""Which tool a request may be answered with: all forms of `tool_choice`, checked against the tools on offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from upstream.problems import invalid_value, missing
from wire.errors import ApiError, invalid_request

if TYPE_CHECKING:
    from collections.abc import Collection

    from upstream.stages.resolve import Tool

WORDS: Final = ("none", "auto", "required")
_NAMED: Final = ("function", "custom")
_MODES: Final = ("auto", "required")


def check(choice: str | dict[str, Any] | None) -> None:
    """Raise `ApiError` for a choice of no known form."""
    if not isinstance(choice, dict):
        _one_of("tool_choice", choice, WORDS)
        return
    kind = choice.get("type")
    if not isinstance(kind, str):
        raise missing("tool_choice.type")
    if kind in _NAMED and not isinstance(choice.get("name"), str):
        raise missing("tool_choice.name")
    if kind == "mcp" and not isinstance(choice.get("server_label"), str):
        raise missing("tool_choice.server_label")
    if kind == "allowed_tools":
        mode = choice.get("mode")
        if not isinstance(mode, str):
            raise missing("tool_choice.mode")
        _one_of("tool_choice.mode", mode, _MODES)
        _check_allowed(choice.get("tools"))


def matched(choice: str | dict[str, Any] | None, tools: Collection[Tool], sent: bytes) -> None:
    """Raise `ApiError` when the choice asks for a tool that is not there. `sent` is the request's own list, as JSON."""
    if not isinstance(choice, dict):
        if choice == "required" and not tools and sent == b"[]":
            raise _not_found("Tool choice 'required' must be specified with 'tools' parameter.")
        return
    kinds = {tool["type"] for tool in msgspec.json.decode(sent)}
    wanted = choice["tools"] if choice["type"] == "allowed_tools" else [choice]
    for one in wanted:
        kind, name = one["type"], one.get("name")
        if kind in _NAMED:
            if not any(tool.type == kind and tool.name == name for tool in tools):
                raise _not_found(f"Tool choice '{str(name)[:128]}' not found in 'tools' parameter.")
        elif kind not in kinds:
            raise _not_found(f"Tool choice '{kind[:128]}' not found in 'tools' parameter.")


def _check_allowed(tools: Any) -> None:
    if not isinstance(tools, list):
        raise missing("tool_choice.tools")
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            raise missing(f"tool_choice.tools[{index}].type")
        if tool["type"] in _NAMED and not isinstance(tool.get("name"), str):
            raise missing(f"tool_choice.tools[{index}].name")


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        known = ", ".join(f"'{one}'" for one in allowed)
        raise invalid_value(name, f"Invalid value for '{name}'. Supported values are: {known}.")


def _not_found(message: str) -> ApiError:
    return invalid_request(message, param="tool_choice")
