"""The response object: what the API tells of a turn, members of the request included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from upstream.request import Request

_ENCODER = msgspec.json.Encoder()


def static_members(request: Request, *, response_id: str, created_at: int, tools: bytes) -> dict[str, Any]:
    """Members that stay the same from the first event to the last, every default spelled out."""
    fields = request.fields
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "background": fields.background is True,
        "frequency_penalty": 0.0,
        "instructions": request.instructions,
        "max_output_tokens": fields.max_output_tokens,
        "max_tool_calls": fields.max_tool_calls,
        "metadata": fields.metadata or {},
        "model": request.model,
        "parallel_tool_calls": fields.parallel_tool_calls is not False,
        "presence_penalty": 0.0,
        "previous_response_id": fields.previous_response_id,
        "prompt_cache_key": fields.prompt_cache_key,
        "prompt_cache_retention": fields.prompt_cache_retention,
        "reasoning": {"effort": None, "summary": None} | (fields.reasoning or {}),
        "safety_identifier": fields.safety_identifier,
        "service_tier": "default" if fields.service_tier in {None, "auto"} else fields.service_tier,
        "store": request.store,
        "temperature": _or(fields.temperature, 1.0),
        "text": _text(fields.text or {}),
        "tool_choice": fields.tool_choice or "auto",
        "tools": msgspec.Raw(tools),
        "top_logprobs": fields.top_logprobs or 0,
        "top_p": _or(fields.top_p, 1.0),
        "truncation": fields.truncation or "disabled",
        "user": fields.user,
    }


def encoded(static: bytes, **changing: Any) -> bytes:
    """The object: the static members, encoded once, and those of the moment."""
    return static[:-1] + b"," + _ENCODER.encode(changing)[1:]


def usage(*, input_tokens: int, cached_tokens: int, output_tokens: int, reasoning_tokens: int) -> dict[str, Any]:
    """Tokens of a turn. `input_tokens` is the whole context, however much of it had been kept."""
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": cached_tokens, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": input_tokens + output_tokens,
    }


def _text(text: dict[str, Any]) -> dict[str, Any]:
    wanted = text.get("format") or {"type": "text"}
    if wanted["type"] == "json_schema":
        wanted = {"description": None, "strict": False} | wanted
    return {"verbosity": "medium"} | text | {"format": wanted}


def _or(value: float | None, default: float) -> float:
    return default if value is None else float(value)
