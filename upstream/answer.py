"""From an engine's parts to the API's events: one answer, event by event, the same for every transport.

States: idle, and within one item. `Start` opens an item, `End` closes it, `Stop` closes the answer; every part yields
the events that the API sends for it, numbered from 0. The response object of the last event holds all items.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from upstream import response
from upstream.engine import Accepted, Delta, End, Part, Start, Stop, Summary, Usage
from upstream.items import Item, output_item, without_hidden

if TYPE_CHECKING:
    from upstream.request import Request
    from upstream.seal import Sealer

_ENCODER = msgspec.json.Encoder()
_PREFIX = {"reasoning": "rs", "message": "msg", "function_call": "fc", "custom_tool_call": "ctc"}
_CALLS = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}
"""Items that call: their events, and the member that holds the text."""


class Event(NamedTuple):
    """One event; `data` is its JSON, which holds the type as well."""

    type: str
    data: bytes


@dataclass(slots=True)
class _Running:
    """The item that is being written."""

    kind: str
    id: str
    index: int
    name: str = ""
    namespace: str = ""
    call_id: str = ""
    text: list[str] = field(default_factory=list)
    summary: str | None = None


class Answer:
    """One response from its first event to its last."""

    def __init__(
        self, request: Request, *, tools: bytes, input_tokens: int, cached_tokens: int, created_at: int, sealer: Sealer
    ) -> None:
        self.id = f"resp_{secrets.token_hex(25)}"
        self.items: list[Item] = []
        self.response = b""
        """The whole object once the answer has ended."""
        self.status = "in_progress"
        static = response.static_members(request, response_id=self.id, created_at=created_at, tools=tools)
        self._static = _ENCODER.encode(static)
        self._seals = request.sealed_reasoning
        self._keeps_hidden = request.store or self._seals
        self._sealer = sealer
        self._input_tokens, self._cached_tokens = input_tokens, cached_tokens
        self._output_tokens = self._reasoning_tokens = 0
        self._number = 0
        self._running: _Running | None = None

    @property
    def output_tokens(self) -> int:
        """Tokens written so far."""
        return self._output_tokens

    def begin(self) -> list[Event]:
        """`response.created` and `response.in_progress`."""
        start = self._object("in_progress", output=[])
        return [self._response_event(f"response.{name}", start) for name in ("created", "in_progress")]

    def add(self, part: Part) -> list[Event]:
        """Events of one part. After `Stop`, only `finish` may follow."""
        match part:
            case Accepted():
                return []
            case Start():
                return self._start(part)
            case Delta():
                return self._delta(part)
            case Summary():
                return self._summary(part.pieces)
            case End():
                return self._end("completed")
            case Stop():
                return self._end("incomplete") if self._running else []

    def finish(self, stop: Stop, now: int) -> Event:
        """The terminal event of an answer that was written as far as it goes."""
        self.status = "incomplete" if stop.incomplete else "completed"
        details = {"reason": stop.incomplete} if stop.incomplete else None
        self.response = self._object(
            self.status,
            output=self._output(),
            completed_at=None if stop.incomplete else now,
            incomplete_details=details,
            usage=self._usage(stop.usage),
        )
        return self._response_event(f"response.{self.status}", self.response)

    def _usage(self, told: Usage | None) -> dict[str, Any]:
        used = told or Usage(self._input_tokens, self._cached_tokens, self._output_tokens, self._reasoning_tokens)
        return response.usage(**{name: getattr(used, name) for name in Usage.__slots__})

    def fail(self, code: str = "server_error") -> Event:
        """The terminal event of an answer that broke off: `response.failed`."""
        self.status = "failed"
        error = {"code": code, "message": "The engine failed while it was writing the answer."}
        self.response = self._object("failed", output=self._output(), error=error)
        return self._response_event("response.failed", self.response)

    def _start(self, start: Start) -> list[Event]:
        item = _Running(start.kind, f"{_PREFIX[start.kind]}_{secrets.token_hex(25)}", len(self.items))
        if start.kind in _CALLS:
            item.name, item.namespace, item.call_id = start.name, start.namespace, f"call_{secrets.token_hex(12)}"
        self._running = item
        events = [
            self._event("response.output_item.added", output_index=item.index, item=self._value(item, "in_progress"))
        ]
        if start.kind == "message":
            events.append(self._in_part(item, "response.content_part.added", part=_text_part("")))
        return events

    def _delta(self, delta: Delta) -> list[Event]:
        item = self._current()
        item.text.append(delta.text)
        self._output_tokens += delta.tokens
        if item.kind == "reasoning":
            self._reasoning_tokens += delta.tokens
            return []
        if item.kind == "message":
            return [self._in_part(item, "response.output_text.delta", delta=delta.text, logprobs=[])]
        return [self._in_item(item, f"{_CALLS[item.kind][0]}.delta", delta=delta.text)]

    def _summary(self, pieces: tuple[str, ...]) -> list[Event]:
        item = self._current()
        item.summary = "".join(pieces)
        place = {"summary_index": 0}
        part = {"type": "summary_text", "text": item.summary}
        return [
            self._in_item(item, "response.reasoning_summary_part.added", **place, part=part | {"text": ""}),
            *(self._in_item(item, "response.reasoning_summary_text.delta", **place, delta=piece) for piece in pieces),
            self._in_item(item, "response.reasoning_summary_text.done", **place, text=item.summary),
            self._in_item(item, "response.reasoning_summary_part.done", **place, part=part),
        ]

    def _end(self, status: str) -> list[Event]:
        item, self._running = self._current(), None
        text = "".join(item.text)
        events: list[Event] = []
        if item.kind == "message":
            events.append(self._in_part(item, "response.output_text.done", text=text, logprobs=[]))
            events.append(self._in_part(item, "response.content_part.done", part=_text_part(text)))
        elif item.kind in _CALLS:
            kind, member = _CALLS[item.kind]
            named = {"name": item.name} if item.kind == "function_call" else {}
            events.append(self._in_item(item, f"{kind}.done", **{member: text}, **named))
        value = self._value(item, status)
        made = output_item(value, hidden=text if item.kind == "reasoning" else "")
        # What the client cannot give back, and what is not stored, is not part of the conversation afterwards:
        # else a continuation by id and the same history sent in full would not be the same context.
        self.items.append(made if self._keeps_hidden else without_hidden(made))
        events.append(self._event("response.output_item.done", output_index=item.index, item=value))
        return events

    def _value(self, item: _Running, status: str) -> dict[str, Any]:
        text = "".join(item.text)
        if item.kind == "reasoning":
            summary = [] if item.summary is None else [{"type": "summary_text", "text": item.summary}]
            sealed = {"encrypted_content": self._sealer.seal(text)} if self._seals else {}
            return {"id": item.id, "type": "reasoning", "summary": summary} | sealed
        if item.kind == "message":
            content = [] if status == "in_progress" else [_text_part(text)]
            return {"id": item.id, "type": "message", "status": status, "content": content, "role": "assistant"}
        call = {"id": item.id, "type": item.kind, "status": status, _CALLS[item.kind][1]: text}
        named = {"namespace": item.namespace} if item.namespace else {}
        return call | {"call_id": item.call_id, "name": item.name} | named

    def _current(self) -> _Running:
        if self._running is None:
            msg = "the engine wrote outside of an item"
            raise RuntimeError(msg)
        return self._running

    def _output(self) -> list[msgspec.Raw]:
        return [msgspec.Raw(item.raw) for item in self.items]

    def _object(self, status: str, **changing: Any) -> bytes:
        blank: dict[str, Any] = {
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "output": [],
            "usage": None,
        }
        return response.encoded(self._static, **({"status": status} | blank | changing))

    def _response_event(self, kind: str, raw: bytes) -> Event:
        return self._event(kind, response=msgspec.Raw(raw))

    def _in_part(self, item: _Running, kind: str, **members: Any) -> Event:
        return self._in_item(item, kind, content_index=0, **members)

    def _in_item(self, item: _Running, kind: str, **members: Any) -> Event:
        return self._event(kind, item_id=item.id, output_index=item.index, **members)

    def _event(self, kind: str, **members: Any) -> Event:
        number, self._number = self._number, self._number + 1
        return Event(kind, _ENCODER.encode({"type": kind, "sequence_number": number} | members))


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
