"""The response object: what the API tells of a turn, members of the request included.

The rule by which it is made stands here once, since both ends need it: a server writes the object by it, and a client
of the extension `append` (docs/wire.md) rebuilds by it what it is not sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from wire.split import Malformed, splice

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENCODER: Final = msgspec.json.Encoder()
_ABSENT: Final = (b"", b"null")


class Echoed(msgspec.Struct, gc=False):
    """Members of a request that the object shows, but for the two large ones, `instructions` and `tools`."""

    model: str | None = None
    store: bool | None = None
    background: bool | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    reasoning: dict[str, Any] | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    temperature: float | None = None
    text: dict[str, Any] | None = None
    tool_choice: str | dict[str, Any] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    truncation: str | None = None
    user: str | None = None


_ECHOED: Final = msgspec.json.Decoder(Echoed)
_SMALL: Final = frozenset(Echoed.__struct_fields__)
ECHOED: Final = _SMALL | {"instructions", "tools"}
"""Names of all members of a request that the object shows."""


def shown(fields: Echoed, *, instructions: bytes, tools: bytes) -> dict[str, bytes]:
    """The object of a request before its answer: all members as raw JSON in the API's order, defaults spelled out.

    `instructions` are raw JSON, `tools` are as `shown_tools` has them. What belongs to one turn alone (`id`,
    `created_at`, `previous_response_id`) is blank.
    """
    members: dict[str, Any] = {
        "id": "",
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "background": fields.background is True,
        "completed_at": None,
        "error": None,
        "frequency_penalty": 0.0,
        "incomplete_details": None,
        "instructions": msgspec.Raw(instructions),
        "max_output_tokens": fields.max_output_tokens,
        "max_tool_calls": fields.max_tool_calls,
        "model": fields.model,
        "output": (),
        "parallel_tool_calls": fields.parallel_tool_calls is not False,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt_cache_key": fields.prompt_cache_key,
        "prompt_cache_retention": fields.prompt_cache_retention,
        "reasoning": {"effort": None, "summary": None} | (fields.reasoning or {}),
        "safety_identifier": fields.safety_identifier,
        "service_tier": "default" if fields.service_tier in {None, "auto"} else fields.service_tier,
        "store": fields.store is not False,
        "temperature": _or(fields.temperature, 1.0),
        "text": _text(fields.text or {}),
        "tool_choice": fields.tool_choice or "auto",
        "tools": msgspec.Raw(tools),
        "top_logprobs": fields.top_logprobs or 0,
        "top_p": _or(fields.top_p, 1.0),
        "truncation": fields.truncation or "disabled",
        "usage": None,
        "user": fields.user,
        "metadata": fields.metadata or {},
    }
    return encoded(members)


def encoded(members: Mapping[str, Any]) -> dict[str, bytes]:
    """Members as raw JSON."""
    return {
        name: bytes(value) if isinstance(value, msgspec.Raw) else _ENCODER.encode(value)
        for name, value in members.items()
    }


def shown_for(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """As `shown`, from the raw members of a request that a server has taken. Raises `Malformed` for any other."""
    try:
        fields = _ECHOED.decode(splice((name, value) for name, value in members.items() if name in _SMALL))
        given = members.get("instructions", b"null")
        instructions = shown_instructions(msgspec.json.decode(given, type=str | None))
        return shown(fields, instructions=instructions, tools=shown_tools(_tools(members.get("tools", b""))))
    except (msgspec.DecodeError, RecursionError, UnicodeError, TypeError, KeyError):
        raise Malformed("not a request that was taken") from None


def shown_instructions(instructions: str | None) -> bytes:
    """Instructions as the object has them."""
    return _ENCODER.encode(instructions)


def shown_tools(tools: list[dict[str, Any]]) -> bytes:
    """Tools as the object has them: defaults of functions are spelled out."""
    return _ENCODER.encode([_tool(tool) for tool in tools])


def usage(*, input_tokens: int, cached_tokens: int, output_tokens: int, reasoning_tokens: int) -> dict[str, Any]:
    """Tokens of a turn. `input_tokens` is the whole context, however much of it had been kept."""
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": cached_tokens, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": input_tokens + output_tokens,
    }


def _tools(given: bytes) -> list[dict[str, Any]]:
    return [] if given in _ABSENT else msgspec.json.decode(given, type=list[dict[str, Any]])


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool["type"] != "function":
        return tool
    return {"description": None, "parameters": None, "strict": True} | tool


def _text(text: dict[str, Any]) -> dict[str, Any]:
    wanted = text.get("format") or {"type": "text"}
    if wanted["type"] == "json_schema":
        wanted = {"description": None, "strict": False} | wanted
    return {"verbosity": "medium"} | text | {"format": wanted}


def _or(value: float | None, default: float) -> float:
    return default if value is None else float(value)
