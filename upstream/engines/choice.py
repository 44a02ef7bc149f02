"""Which tool the simulated agent calls, and with what.

Clients run the calls for real, so only harmless ones are made: a shell tool gets an `echo`, a tool that by its name
only reads gets the smallest valid arguments, and any other tool is left alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from upstream.engines.schema import Impossible, value_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upstream.stages.resolve import Tool

SHELLS = ("exec_command", "shell", "bash", "local_shell", "container.exec", "shell_command", "run_terminal_cmd")
"""Names of tools that run a command line, the first ones preferred."""
_READS = frozenset(
    {
        "get",
        "read",
        "list",
        "search",
        "find",
        "echo",
        "weather",
        "lookup",
        "query",
        "fetch",
        "show",
        "describe",
        "count",
        "calculate",
        "compute",
        "check",
        "ping",
        "time",
        "glob",
        "grep",
        "ls",
        "view",
    }
)
_CHANGES = frozenset(
    {
        "write",
        "delete",
        "remove",
        "patch",
        "edit",
        "apply",
        "kill",
        "send",
        "create",
        "update",
        "set",
        "put",
        "post",
        "insert",
        "drop",
        "move",
        "rename",
        "replace",
        "exec",
        "execute",
        "run",
        "spawn",
        "start",
        "stop",
        "install",
        "push",
        "commit",
        "deploy",
        "upload",
        "buy",
        "pay",
        "order",
        "book",
        "cancel",
        "close",
        "reset",
        "clear",
        "merge",
        "submit",
        "publish",
        "add",
    }
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_COMMANDS = ("cmd", "command", "script", "commands")


@dataclass(frozen=True, slots=True)
class Call:
    """A call to make; `arguments` is a JSON text, or the input of a custom tool."""

    name: str
    namespace: str
    arguments: str
    kind: Literal["function_call", "custom_tool_call"] = "function_call"


def choose(tools: Sequence[Tool], tool_choice: str | dict[str, Any], number: int) -> Call | None:
    """The call for this step of the loop, None when the answer is to come instead. `number` counts from 1."""
    return next(iter(choose_some(tools, tool_choice, number, 1)), None)


def choose_some(tools: Sequence[Tool], tool_choice: str | dict[str, Any], number: int, most: int) -> list[Call]:
    """Up to `most` calls to make at once, each of another tool, or of a shell with another command line.

    A function that the request names is called whatever its name says: the client asked for exactly that.
    """
    if tool_choice == "none":
        return []
    if isinstance(tool_choice, dict):
        kind, name = tool_choice.get("type"), tool_choice.get("name")
        if kind == "allowed_tools":
            allowed = {(one.get("type"), one.get("name")) for one in tool_choice.get("tools", ())}
            tools = [tool for tool in tools if (tool.type, tool.name) in allowed]
            return choose_some(tools, tool_choice.get("mode", "auto"), number, most)
        named = [tool for tool in tools if (tool.type, tool.name) == (kind, name)]
        return _callable([tool for tool in named if kind == "function" or _is_harmless(tool)], number, 1)
    shells = _shells([tool for tool in tools if tool.type == "function"])
    calls = _callable([*shells, *(tool for tool in tools if _is_harmless(tool))], number, most)
    if not calls and tool_choice == "required":
        functions = (tool for tool in tools if tool.type == "function")
        calls = _callable([tool for tool in functions if not _CHANGES & set(_words(tool.name))], number, most)
    if shells and len(calls) == 1 < most and calls[0].name == shells[0].name:
        calls += _callable(shells[:1], number + 1, 1)
    return calls


def is_forced(tool_choice: str | dict[str, Any]) -> bool:
    """Whether the request wants a call in any case."""
    if isinstance(tool_choice, dict):
        return tool_choice.get("type") in {"function", "custom"} or tool_choice.get("mode") == "required"
    return tool_choice == "required"


def _shells(functions: Sequence[Tool]) -> list[Tool]:
    return sorted((tool for tool in functions if tool.name in SHELLS), key=lambda tool: SHELLS.index(tool.name))


def _is_harmless(tool: Tool) -> bool:
    return _only_reads(tool.name) and (tool.type == "function" or tool.format == "text")


def _only_reads(name: str) -> bool:
    words = _words(name)
    return bool(words) and words[0] in _READS and not _CHANGES & set(words)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _callable(tools: Sequence[Tool], number: int, most: int) -> list[Call]:
    calls: list[Call] = []
    for tool in tools:
        if len(calls) == most:
            break
        if tool.type == "custom":
            calls.append(Call(tool.name, tool.namespace, f"deltawire {number}", "custom_tool_call"))
            continue
        try:
            arguments = _arguments(tool, number + len(calls))
        except (Impossible, TypeError, ValueError, re.error, AttributeError):  # a schema that is none
            continue
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        calls.append(Call(tool.name, tool.namespace, text))
    return calls


def _arguments(tool: Tool, number: int) -> dict[str, Any]:
    schema = tool.parameters
    made = value_for(schema) if schema else {}
    if not isinstance(made, dict):
        raise Impossible
    if tool.name not in SHELLS:
        return made
    properties = schema.get("properties", {})
    where = next((name for name in _COMMANDS if name in properties), None)
    if where is None:
        raise Impossible  # a shell whose command line is not found is not called at all
    words = ["echo", "deltawire", str(number)]
    wants_list = "array" in str(properties[where].get("type", "string"))
    return made | {where: words if wants_list else " ".join(words)}
