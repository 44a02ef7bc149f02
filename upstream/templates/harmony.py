"""Harmony: what gpt-oss reads, one segment per item.

Each item is one message: a role, a channel (`analysis` for reasoning, `final` for answers, `commentary` for calls,
their outputs and what is said between them), a recipient where a call or an output has one, and an end token. So
segments depend on nothing but their item and, for an output, the name of its call.

Rewrite rules. Reasoning that an answer has followed is dropped when the user speaks, for good; reasoning of a tool loop
that the user interrupts stays. What a model ends its answer with (`<|return|>`) is `<|end|>` in a history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from upstream.problems import unsupported
from upstream.templates.functions import ADDITIONAL, call_of, function_name, offered
from upstream.templates.parts import Run, Segment, Shown, merged, no_form, output_of, text_of
from upstream.templates.typescript import namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from upstream.stages.items import Item
    from upstream.templates.parts import Past, Told

START, MESSAGE, CHANNEL, CONSTRAIN = "<|start|>", "<|message|>", "<|channel|>", "<|constrain|>"
END, RETURN, CALL = "<|end|>", "<|return|>", "<|call|>"
CONTROLS: tuple[str, ...] = (START, MESSAGE, CHANNEL, CONSTRAIN, END, RETURN, CALL)
DROPS_UNANSWERED: bool = False
ANALYSIS, COMMENTARY, FINAL = "analysis", "commentary", "final"
FUNCTIONS: Final = "functions"
"""The namespace of all tools: calls go to `functions.NAME`, outputs come from there."""
_EFFORTS: Final = {"minimal": "low", "none": "low", "low": "low", "high": "high", "xhigh": "high"}
_ROLES: Final = {"assistant": "assistant", "user": "user"}
"""All others are the developer's: the role `system` is the settings' alone."""


def head(told: Told) -> Segment:
    """The settings, then the developer's message: instructions and tools. Raises `ApiError` for a forced call."""
    tools, choice = offered(told)
    if choice not in (None, "none"):
        raise unsupported("tool_choice", "This engine cannot be made to call a tool.")
    offer = tools if choice is None else ()
    settings = [f"Reasoning: {_EFFORTS.get(str((told.reasoning or {}).get('effort')), 'medium')}\n"]
    channels = f"{ANALYSIS}, {COMMENTARY}, {FINAL}"
    settings.append(f"# Valid channels: {channels}. Channel must be included for every message.")
    if offer:
        settings.append(f"Calls to these tools must go to the {COMMENTARY} channel: '{FUNCTIONS}'.")
    parts = [f"# Instructions\n\n{told.instructions}"] if told.instructions else []
    if offer:
        parts.append(f"# Tools\n\n## {FUNCTIONS}\n\n{namespace(FUNCTIONS, offer)}")
    developer = _block("developer", text="\n\n".join(parts)) if parts else ()
    return (*_block("system", text="\n".join(settings)), *developer)


def show(item: Item, past: Past) -> Shown:
    """One item; `past.name` is that of the call which an output answers."""
    if item.type == "reasoning" and item.hidden:
        return Shown(_block("assistant", channel=ANALYSIS, text=item.hidden), bare=())
    if item.type in {"reasoning", ADDITIONAL}:
        return Shown()
    if item.type == "message":
        return _message(item)
    if item.call_id is None:
        return Shown(missing=(no_form(item),))
    if item.type.endswith("_output"):
        text, missing = output_of(item)
        name = past.name or function_name(item.type.removesuffix("_call_output"))
        sender = f"{FUNCTIONS}.{name} to=assistant"
        return Shown(_block(sender, channel=COMMENTARY, text=text), missing=missing)
    name, arguments = call_of(item)
    begun = merged(
        *(Run(True, START), Run(False, f"assistant to={FUNCTIONS}.{name}"), Run(True, CHANNEL)),
        *(Run(False, f"{COMMENTARY} "), Run(True, CONSTRAIN), Run(False, "json"), Run(True, MESSAGE)),
    )
    return Shown((*begun, *merged(Run(False, arguments)), Run(True, CALL)), name=name)


def tail(_open: str) -> Segment:
    """What makes the model write."""
    return (Run(True, START), Run(False, "assistant"))


def written(tokens: Sequence[int], special: Callable[[str], int]) -> list[int]:
    """The message, ended as one that others follow; also one that was cut short."""
    end = special(END)
    kept = list(tokens)
    if kept and kept[-1] == special(RETURN):
        kept[-1] = end
    return kept if kept and kept[-1] in (end, special(CALL)) else [*kept, end]


def _message(item: Item) -> Shown:
    value = item.value()
    text, missing = text_of(value.get("content"))
    role = _ROLES.get(item.role or "user", "developer")
    if role != "assistant":
        return Shown(_block(role, text=text), missing=missing)
    said = COMMENTARY if value.get("phase") == COMMENTARY else FINAL
    return Shown(_block(role, channel=said, text=text), answers=said == FINAL, missing=missing)


def _block(sender: str, *, channel: str = "", text: str) -> Segment:
    said = (Run(True, CHANNEL), Run(False, channel)) if channel else ()
    return merged(Run(True, START), Run(False, sender), *said, Run(True, MESSAGE), Run(False, text), Run(True, END))
