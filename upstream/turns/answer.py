"""From an engine's parts to the API's events: one answer, event by event, the same for every transport.

States: idle, and within one item. `Start` opens an item, `End` closes it, `Stop` closes the answer; every part yields
the events that the API sends for it, numbered from 0. The response object of the last event holds all items.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from upstream.engine import Accepted, Delta, End, Part, Start, Stop, Summary, Usage
from upstream.stages.items import Item, output_item, without_hidden
from upstream.turns.written import CALLS, Written, begun, text_part
from wire.response import encoded, usage
from wire.split import splice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from upstream.stages.seal import Sealer
    from upstream.turns.request import Request

_ENCODER = msgspec.json.Encoder()


class Event(NamedTuple):
    """One event; `data` is its JSON, which holds the type as well."""

    type: str
    data: bytes


class Answer:
    """One response from its first event to its last. `shown` is its object before the answer (wire.response)."""

    def __init__(
        self,
        request: Request,
        *,
        shown: Mapping[str, bytes],
        input_tokens: int,
        cached_tokens: int,
        created_at: int,
        sealer: Sealer,
        compaction: Item | None = None,
    ) -> None:
        self.id = f"resp_{secrets.token_hex(25)}"
        self.items: list[Item] = []
        self.response = b""
        """The whole object once the answer has ended; of a resumed one only where it is stored."""
        self.status = "in_progress"
        self.created_at, self.stored = created_at, request.store
        own = {"id": self.id, "created_at": created_at, "previous_response_id": request.fields.previous_response_id}
        self._shown = {**shown, **encoded(own)}
        self._sealing = sealer if request.sealed_reasoning else None
        self._keeps_hidden = self.stored or request.sealed_reasoning
        self._input_tokens, self._cached_tokens = input_tokens, cached_tokens
        self._output_tokens = self._reasoning_tokens = 0
        self._told: Usage | None = None
        self._number = 0
        self._running: Written | None = None
        self._compaction = compaction

    @property
    def output_tokens(self) -> int:
        """Tokens written so far."""
        return self._output_tokens

    @property
    def usage(self) -> Usage:
        """Tokens so far; those that the engine told, once it has."""
        counted = Usage(self._input_tokens, self._cached_tokens, self._output_tokens, self._reasoning_tokens)
        return self._told or counted

    def queue(self) -> list[Event]:
        """`response.created` and `response.queued`, of an answer that begins later."""
        self.status = "queued"
        return [self._response_event(f"response.{name}", self.snapshot()) for name in ("created", "queued")]

    def begin(self) -> list[Event]:
        """`response.created`, unless it was told, and `response.in_progress`; then the compaction before the answer."""
        events = self._beginning()
        if self._compaction is not None:
            value, place = self._compaction.value(), {"output_index": 0}
            events.append(self._event("response.output_item.added", **place, item=value | {"encrypted_content": ""}))
            events.append(self._event("response.compaction.compacting", item_id=value["id"], **place))
            events.append(self._event("response.output_item.done", **place, item=value))
            self.items.append(self._compaction)
        return events

    def _beginning(self) -> list[Event]:
        names = ("in_progress",) if self.status == "queued" else ("created", "in_progress")
        self.status = "in_progress"
        return [self._response_event(f"response.{name}", self.snapshot()) for name in names]

    def snapshot(self) -> bytes:
        """The response object as far as it is."""
        return self.response or self._object(self.status, output=self._output())

    def cancel(self) -> None:
        """End without a further event: the client wants no more of it."""
        self.status = "cancelled"
        self.response = self._object("cancelled", output=self._output())

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
                return self._end("completed", part.tokens)
            case Stop():
                return self._end("incomplete") if self._running else []

    def finish(self, stop: Stop, now: int) -> Event:
        """The terminal event of an answer that was written as far as it goes."""
        self.status = "incomplete" if stop.incomplete else "completed"
        details = {"reason": stop.incomplete} if stop.incomplete else None
        self._told = stop.usage
        used = usage(**{name: getattr(self.usage, name) for name in Usage.__slots__})
        completed_at = None if stop.incomplete else now
        return self._ending(completed_at=completed_at, incomplete_details=details, usage=used)

    def fail(self, code: str = "server_error") -> Event:
        """The terminal event of an answer that broke off: `response.failed`."""
        self.status = "failed"
        error = {"code": code, "message": "The engine failed while it was writing the answer."}
        return self._ending(error=error)

    def _ending(self, **changing: Any) -> Event:
        self._conclude(**changing)
        return self._response_event(f"response.{self.status}", self.response)

    def _conclude(self, **changing: Any) -> None:
        self.response = self._object(self.status, output=self._output(), **changing)

    def _start(self, start: Start) -> list[Event]:
        item = begun(start, len(self.items))
        self._running = item
        events = [
            self._event(
                "response.output_item.added", output_index=item.index, item=item.value("in_progress", self._sealing)
            )
        ]
        if start.kind == "message":
            events.append(self._in_part(item, "response.content_part.added", part=text_part("")))
        return events

    def _delta(self, delta: Delta) -> list[Event]:
        item = self._current()
        item.pieces.append(delta.text)
        self._output_tokens += delta.tokens
        if item.kind == "reasoning":
            self._reasoning_tokens += delta.tokens
            return []
        if item.kind == "message":
            return [self._in_part(item, "response.output_text.delta", delta=delta.text, logprobs=[])]
        return [self._in_item(item, f"{CALLS[item.kind][0]}.delta", delta=delta.text)]

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

    def _end(self, status: str, tokens: bytes = b"") -> list[Event]:
        item, self._running = self._current(), None
        text = item.text
        events: list[Event] = []
        if item.kind == "message":
            events.append(self._in_part(item, "response.output_text.done", text=text, logprobs=[]))
            events.append(self._in_part(item, "response.content_part.done", part=text_part(text)))
        elif item.kind in CALLS:
            kind, member = CALLS[item.kind]
            named = {"name": item.name} if item.kind == "function_call" else {}
            events.append(self._in_item(item, f"{kind}.done", **{member: text}, **named))
        value = item.value(status, self._sealing)
        made = output_item(value, text if item.kind == "reasoning" else "", tokens)
        # What the client cannot give back, and what is not stored, is not part of the conversation afterwards:
        # else a continuation by id and the same history sent in full would not be the same context.
        self.items.append(made if self._keeps_hidden else without_hidden(made))
        events.append(self._event("response.output_item.done", output_index=item.index, item=value))
        return events

    def _current(self) -> Written:
        if self._running is None:
            msg = "the engine wrote outside of an item"
            raise RuntimeError(msg)
        return self._running

    def _output(self) -> list[msgspec.Raw]:
        return [msgspec.Raw(item.raw) for item in self.items]

    def _object(self, status: str, **changing: Any) -> bytes:
        return splice((self._shown | encoded({"status": status} | changing)).items())

    def _response_event(self, kind: str, raw: bytes) -> Event:
        return self._event(kind, response=msgspec.Raw(raw))

    def _in_part(self, item: Written, kind: str, **members: Any) -> Event:
        return self._in_item(item, kind, content_index=0, **members)

    def _in_item(self, item: Written, kind: str, **members: Any) -> Event:
        return self._event(kind, item_id=item.id, output_index=item.index, **members)

    def _event(self, kind: str, **members: Any) -> Event:
        number, self._number = self._number, self._number + 1
        return Event(kind, _ENCODER.encode({"type": kind, "sequence_number": number} | members))
