"""What an engine is told of an admitted turn, and how much of it an engine may have read before."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from upstream.engine import Prompt
from upstream.stages import render

if TYPE_CHECKING:
    from upstream.stages.pipeline import Context
    from upstream.turns.reading import Read
    from upstream.turns.request import Request


def reused(parent: Context, context: Context) -> int:
    """Tokens at the beginning that are those of the parent's prompt and answer."""
    if parent.head is None or context.head is None or parent.head.raw != context.head.raw:
        return 0
    return context.head.tokens + render.shared(parent.rendered, context.rendered)


def prompt_of(request: Request, context: Context, read: Read, owner: bytes) -> Prompt:
    """The prompt of a request; `context` is what is shown of the conversation."""
    fields = request.fields
    resolved = context.resolved
    return Prompt(
        tokens=render.Tokens(read.head, context.rendered),
        model=request.model,
        instructions=request.instructions,
        items=context.items,
        tools=resolved.tools(),
        tool_choice=fields.tool_choice or "auto",
        text=fields.text or {},
        reasoning=fields.reasoning,
        max_output_tokens=fields.max_output_tokens,
        digest=hashlib.blake2b(context.rendered.digest + read.asked.digest, digest_size=16).digest(),
        temperature=fields.temperature,
        top_p=fields.top_p,
        parallel_tool_calls=fields.parallel_tool_calls,
        owner=owner,
    )
