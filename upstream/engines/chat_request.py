"""The body of a request for chat completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from upstream.engines.messages import messages
from upstream.templates.functions import functions, offered

if TYPE_CHECKING:
    from upstream.engine import Prompt


def body(prompt: Prompt, model: str) -> dict[str, Any]:
    """The body, of members that all endpoints know; what the client left open is left out."""
    made: dict[str, Any] = {
        "model": model,
        "messages": messages(prompt),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    tools, choice = offered(prompt)
    if tools:
        optional = {"tool_choice": choice, "parallel_tool_calls": prompt.parallel_tool_calls}
        made["tools"] = functions(tools)
        made |= {name: value for name, value in optional.items() if value is not None}
    optional = {
        "max_tokens": prompt.max_output_tokens,
        "temperature": prompt.temperature,
        "top_p": prompt.top_p,
        "reasoning_effort": (prompt.reasoning or {}).get("effort"),
        "response_format": _format(prompt.text.get("format")),
    }
    return made | {name: value for name, value in optional.items() if value is not None}


def _format(wanted: object) -> dict[str, Any] | None:
    if not isinstance(wanted, dict):
        return None
    if wanted.get("type") == "json_schema":
        members = ("name", "description", "schema", "strict")
        schema = {name: wanted[name] for name in members if wanted.get(name) is not None}
        return {"type": "json_schema", "json_schema": schema}
    return {"type": "json_object"} if wanted.get("type") == "json_object" else None
