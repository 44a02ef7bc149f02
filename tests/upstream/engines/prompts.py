"""Prompts for engines, and histories as clients send them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.upstream.helpers import items
from upstream.engine import Delta, End, Part, Prompt, Start, Stop
from upstream.stages.head import Head, Told
from upstream.stages.persistent import Seq
from upstream.stages.render import EMPTY, Tokens
from upstream.stages.resolve import Tool
from upstream.stages.style import Style

if TYPE_CHECKING:
    from upstream.stages.items import Item

WEATHER = Tool("function", "get_weather", parameters={"type": "object"}, description="The weather.", strict=True)
PATCH = Tool("custom", "apply_patch", description="Applies a patch.")
SPACED = Tool("function", "search", "mcp__wiki__")


NO_TOKENS = Tokens(Head(Style(), Told(), b""), EMPTY)


def prompt(*history: dict[str, Any] | str | Item, **changed: Any) -> Prompt:
    """A prompt over these items; a string is a user message."""
    made = [one for value in history for one in (items(value) if isinstance(value, dict | str) else [value])]
    return Prompt(
        **{
            "model": "m",
            "instructions": None,
            "items": Seq(made),
            "tools": (),
            "tool_choice": "auto",
            "text": {},
            "reasoning": None,
            "max_output_tokens": None,
            "digest": b"",
            "tokens": NO_TOKENS,
        }
        | changed
    )


def said(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]}


def call(call_id: str, name: str = "get_weather", arguments: str = "{}", **more: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments} | more


def output(call_id: str, value: Any = "ok", kind: str = "function_call") -> dict[str, Any]:
    return {"type": f"{kind}_output", "call_id": call_id, "output": value}


def custom(call_id: str, text: str = "*** Begin") -> dict[str, Any]:
    return {"type": "custom_tool_call", "call_id": call_id, "name": "apply_patch", "input": text}


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Messages, and calls each of which is answered somewhere behind it."""
    made: list[dict[str, Any]] = []
    open_calls: list[str] = []
    for number in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(["user", "assistant", "call", "call", "output", "output"]))
        if kind == "call":
            open_calls.append(f"call_{number}")
            made.append(call(open_calls[-1]) if draw(st.booleans()) else custom(open_calls[-1]))
        elif kind != "output":
            made.append(said(kind, f"text {number}"))
        elif open_calls:
            answered = open_calls.pop(draw(st.integers(0, len(open_calls) - 1)))
            made.append(output(answered, f"output {number}"))
    return [*made, *(output(one, "late") for one in open_calls)]


def told(parts: list[Part]) -> list[tuple[str, str, str]]:
    """Kind, name and whole text of each item that the parts tell; checks that they come one after the other."""
    found: list[tuple[str, str, str]] = []
    is_open = False
    for part in parts:
        match part:
            case Start():
                assert not is_open
                is_open = True
                found.append((part.kind, f"{part.namespace}{part.name}", ""))
            case Delta():
                assert is_open
                kind, name, text = found[-1]
                found[-1] = (kind, name, text + part.text)
            case End():
                assert is_open
                is_open = False
            case Stop():
                assert part is parts[-1]
                assert not is_open or part.incomplete
    return found
