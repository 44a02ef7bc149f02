"""Items as the messages of chat completions.

A message may hold what are several items here: the calls of one answer stand in the assistant's message, and their
outputs follow it at once, wherever they stand in the history. Images in outputs come after these as the user's, since
tool messages are text. Reasoning is shown only since the user spoke last, as reasoning models want it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from upstream.stages.items import OUTPUTS
from upstream.templates.functions import ADDITIONAL, call_of
from upstream.templates.parts import TEXTS, no_form, no_part
from wire.errors import invalid_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from upstream.engine import Prompt
    from upstream.stages.items import Item
    from wire.errors import ApiError

_ROLES = {"developer": "system"}
_FILE = ("file_data", "file_id", "filename")


@dataclass(slots=True)
class _Group:
    """A message, and what has to stand right after it."""

    message: dict[str, Any]
    outputs: list[dict[str, Any]] = field(default_factory=list)
    images: list[dict[str, Any]] = field(default_factory=list)


def messages(prompt: Prompt) -> list[dict[str, Any]]:
    """The whole conversation. Raises `ApiError` for an item that has no form as a message."""
    groups: list[_Group] = []
    calls: dict[str, _Group] = {}
    spoke_last = _last_of_user(prompt.items)
    reasoning = ""
    for place, item in enumerate(prompt.items):
        if item.type == "reasoning":
            reasoning = item.hidden if place > spoke_last else ""
        elif item.type == "message":
            groups.append(_Group(_message(item)))
            reasoning = _think(groups[-1].message, reasoning)
        elif item.call_id is not None and _is_output(item.type):
            group = calls.get(item.call_id)
            if group is None:
                raise invalid_request(f"No tool call found for call_id {item.call_id}.", param="input")
            _answer(group, item)
        elif item.call_id is not None:
            group = groups[-1] if groups and _takes_call(groups[-1]) and not reasoning else None
            if group is None:
                group = _Group({"role": "assistant", "content": None})
                groups.append(group)
            reasoning = _think(group.message, reasoning)
            group.message.setdefault("tool_calls", []).append(_call(item))
            calls[item.call_id] = group
        elif item.type != ADDITIONAL:
            raise _unfit(no_form(item))
    head = [{"role": "system", "content": prompt.instructions}] if prompt.instructions else []
    return [*head, *(message for group in groups for message in _flat(group))]


def _last_of_user(items: Iterable[Item]) -> int:
    return max((place for place, item in enumerate(items) if item.role == "user"), default=-1)


def _is_output(kind: str) -> bool:
    return kind in OUTPUTS or kind.endswith("_output")


def _takes_call(group: _Group) -> bool:
    return group.message["role"] == "assistant" and not group.outputs


def _think(message: dict[str, Any], reasoning: str) -> str:
    if reasoning and message["role"] == "assistant":
        message["reasoning_content"] = reasoning
        return ""
    return reasoning


def _flat(group: _Group) -> list[dict[str, Any]]:
    shown = [{"role": "user", "content": group.images}] if group.images else []
    return [group.message, *group.outputs, *shown]


def _message(item: Item) -> dict[str, Any]:
    role = item.role or "user"
    return {"role": _ROLES.get(role, role), "content": _content(item.value().get("content"))}


def _content(content: object) -> Any:
    """A string where there is only text: every endpoint takes that."""
    parts = [_part(part) for part in content] if isinstance(content, list) else [_text(content)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _text(value: object) -> dict[str, Any]:
    return {"type": "text", "text": value if isinstance(value, str) else ""}


def _part(part: object) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str):
        raise _unfit(no_part(kind))
    if kind in TEXTS:
        return _text(part.get(TEXTS[kind]))
    if kind == "input_image" and isinstance(url := part.get("image_url"), str):
        detail = part.get("detail")
        return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if detail else {})}
    if kind == "input_file" and (found := {name: part[name] for name in _FILE if part.get(name) is not None}):
        return {"type": "file", "file": found}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": part.get("input_audio")}
    raise _unfit(no_part(kind))


def _unfit(why: str) -> ApiError:
    return invalid_request(why, param="input")


def _call(item: Item) -> dict[str, Any]:
    name, arguments = call_of(item)
    return {"id": item.call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _answer(group: _Group, item: Item) -> None:
    output = item.value().get("output")
    content = _content(output) if isinstance(output, list | str) else json.dumps(output, ensure_ascii=False)
    if isinstance(content, list):
        group.images += [part for part in content if part["type"] != "text"]
        content = _only_text(content)
    group.outputs.append({"role": "tool", "tool_call_id": item.call_id, "content": content})


def _only_text(parts: Sequence[dict[str, Any]]) -> str:
    return "".join(part.get("text", "") for part in parts) or "(see the following message)"
