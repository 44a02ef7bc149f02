"""One item of an answer while it is written: its id, its text so far, and how it looks to a client."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from upstream.engine import Start
    from upstream.stages.seal import Sealer

CALLS = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}
"""Items that call: their events, and the member that holds the text."""
_PREFIX = {"reasoning": "rs", "message": "msg", "function_call": "fc", "custom_tool_call": "ctc"}


@dataclass(slots=True)
class Written:
    """The item at `index` of the output."""

    kind: str
    id: str
    index: int
    name: str = ""
    namespace: str = ""
    call_id: str = ""
    pieces: list[str] = field(default_factory=list)
    summary: str | None = None

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self.pieces)

    def value(self, status: str, sealer: Sealer | None) -> dict[str, Any]:
        """The item as a client sees it; reasoning carries its text when there is a sealer."""
        if self.kind == "reasoning":
            summary = [] if self.summary is None else [{"type": "summary_text", "text": self.summary}]
            sealed = {"encrypted_content": sealer.seal(self.text)} if sealer is not None else {}
            return {"id": self.id, "type": "reasoning", "summary": summary} | sealed
        if self.kind == "message":
            content = [] if status == "in_progress" else [text_part(self.text)]
            return {"id": self.id, "type": "message", "status": status, "content": content, "role": "assistant"}
        call = {"id": self.id, "type": self.kind, "status": status, CALLS[self.kind][1]: self.text}
        named = {"namespace": self.namespace} if self.namespace else {}
        return call | {"call_id": self.call_id, "name": self.name} | named


def begun(start: Start, index: int) -> Written:
    """The item that an engine begins."""
    item = Written(start.kind, f"{_PREFIX[start.kind]}_{secrets.token_hex(25)}", index)
    if start.kind in CALLS:
        item.name, item.namespace, item.call_id = start.name, start.namespace, f"call_{secrets.token_hex(12)}"
    return item


def text_part(text: str) -> dict[str, Any]:
    """A part of a message."""
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
