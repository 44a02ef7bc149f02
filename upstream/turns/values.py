"""Which values members may have, beyond their JSON type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from upstream.problems import invalid_type, invalid_value, missing
from upstream.turns import schema_check, tool_choice
from wire.errors import ApiError, invalid_request

if TYPE_CHECKING:
    from upstream.turns.request import Fields

_RANGES: Final = {
    "max_output_tokens": (1, math.inf),
    "max_tool_calls": (0, math.inf),
    "temperature": (0, 2),
    "top_logprobs": (0, 20),
    "top_p": (0, 1),
}
_CHOICES: Final = {
    "truncation": ("auto", "disabled"),
    "prompt_cache_retention": ("in_memory", "in-memory", "24h"),
}
_FORMATS: Final = ("text", "json_object", "json_schema")
_INCLUDES: Final = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
_MAX_PAIRS: Final = 16
_MAX_KEY: Final = 64
_MAX_VALUE: Final = 512
_MIN_THRESHOLD: Final = 1000


def check(fields: Fields) -> None:
    """Raise `ApiError` with the path of the first member that has a value the API does not know."""
    for name, (low, high) in _RANGES.items():
        number = getattr(fields, name)
        if number is not None and not low <= number <= high:
            bounds = f"at least {low}" if high == math.inf else f"from {low} to {high}"
            raise invalid_value(name, f"Invalid '{name}': expected a value {bounds}.")
    for name, allowed in _CHOICES.items():
        _one_of(name, getattr(fields, name), allowed)
    for index, one in enumerate(fields.include or ()):
        _one_of(f"include[{index}]", one, _INCLUDES)
    tool_choice.check(fields.tool_choice)
    _check_format((fields.text or {}).get("format"))
    _check_metadata(fields.metadata or {})
    _check_management(fields.context_management or [])


def compact_threshold(fields: Fields) -> int | None:
    """Tokens of context beyond which the conversation is compacted; None where the request asks for no such thing."""
    for entry in fields.context_management or ():
        threshold: int | None = entry.get("compact_threshold")
        if threshold is not None:
            return threshold
    return None


def _check_format(wanted: Any) -> None:
    if wanted is None:
        return
    if not isinstance(wanted, dict) or not isinstance(wanted.get("type"), str):
        raise missing("text.format.type")
    _one_of("text.format.type", wanted["type"], _FORMATS)
    if wanted["type"] == "json_schema":
        if not isinstance(wanted.get("name"), str):
            raise missing("text.format.name")
        if not isinstance(wanted.get("schema"), dict):
            raise missing("text.format.schema")
        schema_check.check_format(wanted["name"], wanted["schema"], strict=wanted.get("strict") is True)


def _check_metadata(metadata: dict[str, str]) -> None:
    if len(metadata) > _MAX_PAIRS:
        raise _beyond("metadata", f"at most {_MAX_PAIRS} properties", "object_above_max_properties")
    for key, value in metadata.items():
        if len(key) > _MAX_KEY:
            raise _beyond("metadata", f"keys of at most {_MAX_KEY} characters", "string_above_max_length")
        if len(value) > _MAX_VALUE:
            raise _beyond(f"metadata.{key}", f"at most {_MAX_VALUE} characters", "string_above_max_length")


def _check_management(entries: list[dict[str, Any]]) -> None:
    for index, entry in enumerate(entries):
        place = f"context_management[{index}]"
        if not isinstance(entry.get("type"), str):
            raise missing(f"{place}.type")
        _one_of(f"{place}.type", entry["type"], ("compaction",))
        threshold = entry.get("compact_threshold")
        if threshold is None:
            continue
        if isinstance(threshold, bool) or not isinstance(threshold, int):
            raise invalid_type(f"{place}.compact_threshold", "an integer", msgspec.json.encode(threshold))
        if threshold < _MIN_THRESHOLD:
            raise _beyond(f"{place}.compact_threshold", f"at least {_MIN_THRESHOLD}", "integer_below_min_value")


def _beyond(param: str, expected: str, code: str) -> ApiError:
    return invalid_request(f"Invalid '{param}': expected {expected}.", param=param, code=code)


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        known = ", ".join(f"'{one}'" for one in allowed)
        raise invalid_value(name, f"Invalid value for '{name}'. Supported values are: {known}.")
