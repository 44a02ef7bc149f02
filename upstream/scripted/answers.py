"""Ordinary answers: response objects and their event sequences in the shapes of the public API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wire.response import shown_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Json = dict[str, Any]

CREATED_AT = 1_760_000_000
"""Seconds; every answer is made at the same moment, so that a run repeats byte for byte."""
_ECHOED: Json = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "frequency_penalty": 0.0,
    "metadata": {},
    "model": "scripted",
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
_ORDER = tuple(shown_for({}))
_PREFIX = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
_PIECES = 3


def message(text: str, **members: Any) -> Json:
    """An assistant message item, as a server writes it."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "status": "completed", "role": "assistant", "content": [part]} | members


def function_call(call_id: str, name: str, arguments: str = "{}", **members: Any) -> Json:
    """A call of a function tool."""
    call = {"type": "function_call", "status": "completed", "call_id": call_id, "name": name, "arguments": arguments}
    return call | members


def reasoning(encrypted: str | None = None, *summary: str, **members: Any) -> Json:
    """A reasoning item, sealed when `encrypted` is given."""
    parts = [{"type": "summary_text", "text": text} for text in summary]
    sealed = {"encrypted_content": encrypted} if encrypted is not None else {}
    return {"type": "reasoning", "summary": parts} | sealed | members


def response_object(
    items: Iterable[Mapping[str, Any]],
    *,
    response_id: str,
    request: Mapping[str, Any],
    input_tokens: int = 0,
) -> Json:
    """The completed response: the request's fields echoed, items numbered where they have no id."""
    output = [_identified(item, f"{response_id.removeprefix('resp_')}_{index}") for index, item in enumerate(items)]
    made = {
        "id": response_id,
        "object": "response",
        "created_at": CREATED_AT,
        "status": "completed",
        "background": False,
        "completed_at": CREATED_AT + 1,
        "error": None,
        "incomplete_details": None,
        "output": output,
        **{name: request.get(name, default) for name, default in _ECHOED.items()},
        "usage": {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": len(output),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_tokens + len(output),
        },
    }
    return {name: made[name] for name in _ORDER}


def answer(
    items: Iterable[Mapping[str, Any]],
    *,
    response_id: str,
    request: Mapping[str, Any],
    input_tokens: int = 0,
) -> list[Json]:
    """The whole ordinary event sequence for these output items."""
    return events_of(response_object(items, response_id=response_id, request=request, input_tokens=input_tokens))


def events_of(response: Mapping[str, Any]) -> list[Json]:
    """The event sequence that ends in this response: created, in_progress, each item, then the terminal event."""
    begun = dict(response) | {"status": "in_progress", "completed_at": None, "output": [], "usage": None}
    body = [event for index, item in enumerate(response["output"]) for event in _item_events(index, item)]
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *body,
        {"type": f"response.{response['status']}", "response": dict(response)},
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def _identified(item: Mapping[str, Any], suffix: str) -> Json:
    kind = str(item.get("type", "message"))
    return {"id": f"{_PREFIX.get(kind, 'item')}_{suffix}"} | dict(item)


def _item_events(index: int, item: Json) -> Iterator[Json]:
    at = {"item_id": item.get("id"), "output_index": index}
    begun = item | ({"status": "in_progress"} if "status" in item else {})
    inner: Iterable[Json] = ()
    match item.get("type"):
        case "message":
            inner, begun["content"] = _parts(at, item["content"]), []
        case "function_call":
            inner = _text(at, "response.function_call_arguments", "arguments", item["arguments"])
            begun["arguments"] = ""
        case "custom_tool_call":
            inner = _text(at, "response.custom_tool_call_input", "input", item["input"])
            begun["input"] = ""
        case "reasoning":
            inner, begun["summary"] = _summaries(at, item["summary"]), []
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    yield from inner
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _parts(at: Json, content: Sequence[Json]) -> Iterator[Json]:
    for number, part in enumerate(content):
        where = at | {"content_index": number}
        kind, member = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
        yield {"type": "response.content_part.added", **where, "part": part | {member: ""}}
        yield from _text(where, f"response.{kind}", member, part[member])
        yield {"type": "response.content_part.done", **where, "part": part}


def _summaries(at: Json, summary: Sequence[Json]) -> Iterator[Json]:
    for number, part in enumerate(summary):
        where = at | {"summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **where, "part": part | {"text": ""}}
        yield from _text(where, "response.reasoning_summary_text", "text", part["text"])
        yield {"type": "response.reasoning_summary_part.done", **where, "part": part}


def _text(at: Json, kind: str, member: str, text: str) -> Iterator[Json]:
    size = max(1, -(-len(text) // _PIECES))
    for start in range(0, len(text), size):
        yield {"type": f"{kind}.delta", **at, "delta": text[start : start + size]}
    yield {"type": f"{kind}.done", **at, member: text}
