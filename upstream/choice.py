"""Which tool the simulated agent calls, and with what.

Clients run the calls for real, so only harmless ones are made: a shell tool gets an `echo`, a tool that by its name
only reads gets the smallest valid arguments, and any other tool is left alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from upstream.schema import Impossible, value_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upstream.resolve import Tool

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
    """A call to make; `arguments` is a JSON text."""

    name: str
    namespace: str
    arguments: str


def choose(tools: Sequence[Tool], tool_choice: str | dict[str, Any], number: int) -> Call | None:
    """The call for this step of the loop, None when the answer is to come instead. `number` counts from 1.

    A function that the request names is called whatever its name says: the client asked for exactly that.
    """
    functions = [tool for tool in tools if tool.type == "function"]
    if tool_choice == "none" or not functions:
        return None
    if isinstance(tool_choice, dict):
        kind = tool_choice.get("type")
        if kind == "function":
            return _first_callable([tool for tool in functions if tool.name == tool_choice.get("name")], number)
        if kind != "allowed_tools":
            return None
        allowed = {one.get("name") for one in tool_choice.get("tools", ()) if isinstance(one, dict)}
        functions = [tool for tool in functions if tool.name in allowed]
        tool_choice = tool_choice.get("mode", "auto")
    call = _first_callable([*_shells(functions), *(tool for tool in functions if _only_reads(tool.name))], number)
    if call is None and tool_choice == "required":
        call = _first_callable([tool for tool in functions if not _CHANGES & set(_words(tool.name))], number)
    return call


def is_forced(tool_choice: str | dict[str, Any]) -> bool:
    """Whether the request wants a call in any case."""
    if isinstance(tool_choice, dict):
        return tool_choice.get("type") == "function" or tool_choice.get("mode") == "required"
    return tool_choice == "required"


def _shells(functions: Sequence[Tool]) -> list[Tool]:
    return sorted((tool for tool in functions if tool.name in SHELLS), key=lambda tool: SHELLS.index(tool.name))


def _only_reads(name: str) -> bool:
    words = _words(name)
    return bool(words) and words[0] in _READS and not _CHANGES & set(words)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _first_callable(tools: Sequence[Tool], number: int) -> Call | None:
    for tool in tools:
        try:
            arguments = _arguments(tool, number)
        except (Impossible, TypeError, ValueError, re.error, AttributeError):  # a schema that is none
            continue
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        return Call(tool.name, tool.namespace, text)
    return None


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
