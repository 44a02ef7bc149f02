"""ChatML: what a model of that family reads, one segment per item.

Appending items appends segments: `extend(extend(e, a), b) == extend(e, a + b)`. The one exception is the rewrite
rule of reasoning models: when the user speaks, the reasoning before is dropped, and those segments alone change.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from upstream.problems import unsupported
from upstream.templates.functions import ADDITIONAL, call_of, functions, offered
from upstream.templates.parts import Past, Run, Segment, Shown, merged, no_form, output_of, text_of
from wire.errors import invalid_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from upstream.stages.items import Item
    from upstream.templates.parts import Told

START, END = "<|im_start|>", "<|im_end|>"
THINK, CALL, RESPONSE = "think", "tool_call", "tool_response"
CONTROLS: tuple[str, ...] = (START, END)
DROPS_UNANSWERED: bool = True
_ASSISTANT, _THOUGHT, _OUTPUTS = "assistant", "thought", "outputs"
"""What may be open: an answer, an answer of which there is only the reasoning, the user's block of outputs."""
_ROLES: Final = {"developer": "system"}
_TOOLS: Final = (
    "# Tools\n\nThese functions can be called; each line is one of them, in JSON:\n<tools>\n{tools}\n</tools>\n\n"
    "To call one, write its name and arguments as a JSON object between tags, one pair of tags for each call:\n"
    '<tool_call>\n{{"name": "the name", "arguments": {{"a parameter": "its value"}}}}\n</tool_call>'
)


@dataclass(frozen=True, slots=True)
class Rendered:
    """Segments so far; `open` is what the last one left unclosed."""

    segments: tuple[Segment, ...] = field(default=(), repr=False)
    open: str = ""
    thoughts: tuple[tuple[int, Segment], ...] = field(default=(), repr=False)
    """Places of the reasoning that is still shown, and what is to stand there once the user speaks."""


EMPTY = Rendered()


def head(told: Told) -> Segment:
    """The system message: instructions and tools; nothing without either. Raises `ApiError` for a forced call."""
    tools, choice = offered(told)
    if choice not in (None, "none"):
        raise unsupported("tool_choice", "This engine cannot be made to call a tool.")
    parts = [told.instructions] if told.instructions else []
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
        shown = show(item, Past(state))
        if shown.missing:
            raise invalid_request(shown.missing[0], param="input")
        if shown.bare is not None:
            thoughts.append((len(segments), shown.bare))
        segments.append(shown.runs)
        state = shown.open
    return Rendered(tuple(segments), state, tuple(thoughts))


def show(item: Item, past: Past) -> Shown:
    """One item; `past.open` is what its predecessors left unclosed."""
    state = past.open
    if item.type == "reasoning" and item.hidden:
        begun = _begun(_ASSISTANT, state)
        told = (*_tagged(THINK, item.hidden), Run(False, "\n\n"))
        return Shown(merged(*begun, *told), _THOUGHT, bare=begun)
    if item.type in {"reasoning", ADDITIONAL}:
        return Shown(open=state)
    if item.type == "message":
        return _message(item, state)
    if item.call_id is None:
        return Shown(open=state, missing=(no_form(item),))
    if item.type.endswith("_output"):
        text, missing = output_of(item)
        begun = (Run(False, "\n"),) if state == _OUTPUTS else _begun("user", state)
        return Shown(merged(*begun, *_tagged(RESPONSE, text)), _OUTPUTS, missing=missing)
    joined: dict[str, Segment] = {_THOUGHT: (), _ASSISTANT: (Run(False, "\n"),)}
    begun = joined[state] if state in joined else _begun(_ASSISTANT, state)
    return Shown(merged(*begun, *_tagged(CALL, _call(item))), _ASSISTANT)


def tail(is_open: str) -> Segment:
    """What makes the model write: the last message closed, and its own begun."""
    return _begun(_ASSISTANT, is_open)


def written(tokens: Sequence[int], special: Callable[[str], int]) -> list[int]:
    """The item without the token that ended the answer: what follows closes it."""
    kept = list(tokens)
    return kept[:-1] if kept and kept[-1] == special(END) else kept


def _message(item: Item, state: str) -> Shown:
    role = _ROLES.get(item.role or "user", item.role or "user")
    text, missing = text_of(item.value().get("content"))
    if role != _ASSISTANT:
        return Shown(merged(*_close(state), *_block(role, text)), missing=missing)
    begun = () if state == _THOUGHT else _begun(role, state)
    return Shown(merged(*begun, Run(False, text)), _ASSISTANT, answers=True, missing=missing)


def _begun(role: str, state: str) -> Segment:
    return (*_close(state), Run(True, START), Run(False, f"{role}\n"))


def _block(role: str, text: str) -> Segment:
    return merged(Run(True, START), Run(False, f"{role}\n{text}"), *_close(role))


def _close(state: str) -> Segment:
    return (Run(True, END), Run(False, "\n")) if state else ()


def _tagged(tag: str, text: str) -> Segment:
    return (Run(False, f"<{tag}>", True), Run(False, f"\n{text}\n"), Run(False, f"</{tag}>", True))


def _call(item: Item) -> str:
    name, arguments = call_of(item)
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments or "{}"}}}'
