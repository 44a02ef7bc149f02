"""ChatML: what a model of that family reads, one segment per item.

Appending items appends segments: `extend(extend(e, a), b) == extend(e, a + b)`. The one exception is the rewrite
rule of reasoning models: when the user speaks, the reasoning before is dropped, and those segments alone change.

A segment is made of runs, each of which is one special token or ordinary text. Only the special runs may become control
tokens, so nothing that a user, a tool or a model wrote can open or close a message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from upstream.engines.functions import functions, offered
from upstream.engines.messages import TEXTS, call_of, no_part
from upstream.problems import unsupported
from upstream.resolve import ADDITIONAL
from wire.errors import invalid_request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstream.engine import Prompt
    from upstream.items import Item

START, END = "<|im_start|>", "<|im_end|>"
THINK, CALL, RESPONSE = "think", "tool_call", "tool_response"
_ROLES = {"developer": "system"}
_State = Literal["", "assistant", "thought", "outputs"]
_TOOLS = (
    "# Tools\n\nThese functions can be called; each line is one of them, in JSON:\n<tools>\n{tools}\n</tools>\n\n"
    "To call one, write its name and arguments as a JSON object between tags, one pair of tags for each call:\n"
    '<tool_call>\n{{"name": "the name", "arguments": {{"a parameter": "its value"}}}}\n</tool_call>'
)


class Run(NamedTuple):
    """Text, or one special token."""

    is_special: bool
    text: str


Segment = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Rendered:
    """Segments so far; `open` is what the last one left unclosed."""

    segments: tuple[Segment, ...] = field(default=(), repr=False)
    open: _State = ""
    thoughts: tuple[tuple[int, Segment], ...] = field(default=(), repr=False)
    """Places of the reasoning that is still shown, and what is to stand there once the user speaks."""


EMPTY = Rendered()


def head(prompt: Prompt) -> Segment:
    """The system message: instructions and tools; nothing without either. Raises `ApiError` for a forced call."""
    tools, choice = offered(prompt)
    if choice not in (None, "none"):
        raise unsupported("tool_choice", "This engine cannot be made to call a tool.")
    parts = [prompt.instructions] if prompt.instructions else []
    if tools and choice is None:
        lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in functions(tools))
        parts.append(_TOOLS.format(tools=lines))
    return _block("system", "\n\n".join(parts)) if parts else ()


def extend(rendered: Rendered, items: Iterable[Item]) -> Rendered:
    """The rendering with `items` appended. Raises `ApiError` for what cannot be shown as text."""
    segments, state, thoughts = list(rendered.segments), rendered.open, list(rendered.thoughts)
    for item in items:
        if item.role == "user":
            for place, bare in thoughts:
                segments[place] = bare
            thoughts = []
        if item.type == "reasoning" and item.hidden:
            begun = _begun("assistant", state)
            thoughts.append((len(segments), begun))
            segments.append(_merged(*begun, Run(False, f"<{THINK}>\n{item.hidden}\n</{THINK}>\n\n")))
            state = "thought"
            continue
        segment, state = _segment(item, state)
        segments.append(segment)
    return Rendered(tuple(segments), state, tuple(thoughts))


def tail(rendered: Rendered) -> Segment:
    """What makes the model write: the last message closed, and its own begun."""
    return _begun("assistant", rendered.open)


def plain(segments: Iterable[Segment]) -> str:
    """The segments as one text."""
    return "".join(run.text for segment in segments for run in segment)


def _segment(item: Item, state: _State) -> tuple[Segment, _State]:
    if item.type in {"reasoning", ADDITIONAL}:
        return (), state
    if item.type == "message":
        return _message(item, state)
    if item.call_id is None:
        raise invalid_request(f"Items of type '{item.type[:64]}' cannot be shown to this engine.", param="input")
    if item.type.endswith("_output"):
        told = Run(False, f"<{RESPONSE}>\n{_output(item)}\n</{RESPONSE}>")
        begun = (Run(False, "\n"),) if state == "outputs" else _begun("user", state)
        return _merged(*begun, told), "outputs"
    joined: dict[_State, Segment] = {"thought": (), "assistant": (Run(False, "\n"),)}
    begun = joined[state] if state in joined else _begun("assistant", state)
    return _merged(*begun, Run(False, f"<{CALL}>\n{_call(item)}\n</{CALL}>")), "assistant"


def _message(item: Item, state: _State) -> tuple[Segment, _State]:
    role = _ROLES.get(item.role or "user", item.role or "user")
    text = _text(item.value().get("content"))
    if role != "assistant":
        return _merged(*_close(state), *_block(role, text)), ""
    return _merged(*(() if state == "thought" else _begun(role, state)), Run(False, text)), "assistant"


def _begun(role: str, state: _State) -> Segment:
    return (*_close(state), Run(True, START), Run(False, f"{role}\n"))


def _block(role: str, text: str) -> Segment:
    return _merged(Run(True, START), Run(False, f"{role}\n{text}"), *_close(role))


def _close(state: str) -> Segment:
    return (Run(True, END), Run(False, "\n")) if state else ()


def _merged(*runs: Run) -> Segment:
    """The runs with neighbours of ordinary text made one, as a tokenizer would see them."""
    made: list[Run] = []
    for run in runs:
        if made and not (run.is_special or made[-1].is_special):
            made[-1] = Run(False, made[-1].text + run.text)
        elif run.text:
            made.append(run)
    return tuple(made)


def _call(item: Item) -> str:
    name, arguments = call_of(item)
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments or "{}"}}}'


def _output(item: Item) -> str:
    output = item.value().get("output")
    return _text(output) if isinstance(output, list | str) else json.dumps(output, ensure_ascii=False)


def _text(content: object) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return "".join(map(_part, content))


def _part(part: object) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in TEXTS:
        raise no_part(kind)
    text = part.get(TEXTS[kind])
    return text if isinstance(text, str) else ""
