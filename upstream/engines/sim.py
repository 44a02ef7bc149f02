"""The simulated agent: it calls harmless tools for a few steps and then answers, always the same in the same context.

Its answer names the digest of everything it was shown, so two clients can tell whether a model would have seen the
same. Reasoning items come when the request has `reasoning`, or the model's name is that of a reasoning model.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, Literal

from upstream.engine import Delta, End, Part, Prompt, Start, Stop, Summary
from upstream.engines.choice import Call, choose_some, is_forced
from upstream.engines.schema import Impossible, value_for
from upstream.stages.compaction import calls_told
from upstream.stages.items import CALLS, OUTPUTS
from wire.errors import invalid_request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

_PIECES = re.compile(r"\s*\w{1,6}|\s*[^\w\s]{1,3}|\s+")
_REASONING_MODEL = re.compile(r"^(gpt-[5-9]|o\d)|codex|reason|think", re.IGNORECASE)


class Sim:
    """An engine without a model. `tokens_per_second` 0 is as fast as possible."""

    takes: Literal["items"] = "items"

    def __init__(self, *, tool_turns: int = 5, tokens_per_second: float = 0.0, parallel: bool = False) -> None:
        self._tool_turns, self._at_once = tool_turns, 2 if parallel else 1
        self._pace = 1 / tokens_per_second if tokens_per_second > 0 else 0.0

    def accepts(self, model: str) -> bool:
        """Any name."""
        return bool(model)

    async def close(self) -> None:
        """Nothing is held."""

    async def warm(self, prompt: Prompt) -> None:
        """Nothing is cached."""

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:
        """The planned answer at the set pace: token n is due n/rate after the first, however late the others were."""
        loop = asyncio.get_running_loop()
        began, said = loop.time(), 0
        for part in limited(plan(prompt, self._tool_turns, self._at_once), prompt.max_output_tokens):
            if self._pace and isinstance(part, Delta):
                said += part.tokens
                late = loop.time() - (began + said * self._pace)
                if late < 0:
                    await asyncio.sleep(-late)
            yield part


def plan(prompt: Prompt, tool_turns: int, at_once: int = 1) -> Iterator[Part]:
    """The whole answer, without regard to limits. `at_once` calls are made together where the request allows it."""
    asked, answered = _since_last_user(prompt)
    calls: list[Call] = []
    if asked < tool_turns or is_forced(prompt.tool_choice):
        most = 1 if prompt.parallel_tool_calls is False else min(at_once, max(1, tool_turns - asked))
        calls = choose_some(prompt.tools, prompt.tool_choice, asked + 1, most)
    answer = "" if calls else _answer(prompt, answered)
    if _reasons(prompt):
        yield from _reasoning(prompt, calls, asked)
    for call in calls:
        yield Start(call.kind, call.name, call.namespace)
        yield from _deltas(call.arguments)
        yield End()
    if not calls:
        yield Start("message")
        yield from _deltas(answer)
        yield End()
    yield Stop()


def limited(parts: Iterator[Part], limit: int | None) -> Iterator[Part]:
    """The parts up to `limit` output tokens; what is cut off ends with the reason."""
    said = 0
    for part in parts:
        if isinstance(part, Delta):
            said += part.tokens
            if limit is not None and said > limit:
                yield Stop("max_output_tokens")
                return
        yield part


def pieces(text: str) -> list[str]:
    """The text in pieces about as large as tokens."""
    return _PIECES.findall(text)


def _since_last_user(prompt: Prompt) -> tuple[int, int]:
    """Calls made and answered since the user spoke last."""
    asked = answered = 0
    for item in reversed(prompt.items):
        if item.role == "user":
            break
        told = calls_told(item)
        asked += told + (item.type in CALLS)
        answered += told + (item.type in OUTPUTS)
    return asked, answered


def _reasons(prompt: Prompt) -> bool:
    return bool(prompt.reasoning) or _REASONING_MODEL.search(prompt.model) is not None


def _reasoning(prompt: Prompt, calls: list[Call], asked: int) -> Iterator[Part]:
    names = " and ".join(call.name for call in calls)
    aim = f"The next step is to call {names}." if calls else "The answer can be given now."
    yield Start("reasoning")
    yield from _deltas(f"Step {asked + 1}. {aim}")
    if prompt.reasoning and (prompt.reasoning.get("summary") or prompt.reasoning.get("generate_summary")):
        yield Summary(tuple(pieces(f"**Step {asked + 1}**\n\n{aim}")))
    yield End()


def _answer(prompt: Prompt, answered: int) -> str:
    wanted = prompt.text.get("format")
    kind = wanted.get("type") if isinstance(wanted, dict) else "text"
    if kind == "json_schema" and isinstance(wanted, dict):
        return json.dumps(_structured(wanted.get("schema")), ensure_ascii=False, separators=(",", ":"))
    if kind == "json_object":
        return json.dumps({"items": len(prompt.items), "context": prompt.digest.hex()}, separators=(",", ":"))
    return (
        f"Done after {answered} tool result{'' if answered == 1 else 's'}. "
        f"I was shown {len(prompt.items)} items; the digest of the context is {prompt.digest.hex()}."
    )


def _structured(schema: object) -> Any:
    try:
        return value_for(schema)
    except (Impossible, TypeError, ValueError, re.error, AttributeError):
        raise invalid_request(
            "The simulated agent cannot make a value for this schema: it uses keywords beyond those it knows.",
            param="text.format.schema",
            code="invalid_json_schema",
        ) from None


def _deltas(text: str) -> Iterator[Delta]:
    return (Delta(piece) for piece in pieces(text))
