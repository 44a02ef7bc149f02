"""Which values members may have, beyond their JSON type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from upstream.problems import invalid_value, missing

if TYPE_CHECKING:
    from upstream.request import Fields

_RANGES: Final = {
    "max_output_tokens": (1, math.inf),
    "max_tool_calls": (1, math.inf),
    "temperature": (0, 2),
    "top_logprobs": (0, 20),
    "top_p": (0, 1),
}
_CHOICES: Final = {"truncation": ("auto", "disabled")}
_TOOL_CHOICES: Final = ("none", "auto", "required")
_FORMATS: Final = ("text", "json_object", "json_schema")


def check(fields: Fields) -> None:
    """Raise `ApiError` with the path of the first member that has a value the API does not know."""
    for name, (low, high) in _RANGES.items():
        number = getattr(fields, name)
        if number is not None and not low <= number <= high:
            bounds = f"at least {low}" if high == math.inf else f"from {low} to {high}"
            raise invalid_value(name, f"Invalid '{name}': expected a value {bounds}.")
    for name, allowed in _CHOICES.items():
        _one_of(name, getattr(fields, name), allowed)
    if isinstance(fields.tool_choice, dict):
        if not isinstance(fields.tool_choice.get("type"), str):
            raise missing("tool_choice.type")
    else:
        _one_of("tool_choice", fields.tool_choice, _TOOL_CHOICES)
    _check_format((fields.text or {}).get("format"))


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


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        known = ", ".join(f"'{one}'" for one in allowed)
        raise invalid_value(name, f"Invalid value for '{name}'. Supported values are: {known}.")
