"""Which turns of a recording could have been deltas, from the definition alone.

A turn continues an earlier one when that one completed before, the turn's input is that one's input, then an echo of
its output, then something more, and the fields that shape the context are the same. Without `store` only the newest
response of a connection can be continued, so each response once. It is written from the definition, slow and plain,
and shares nothing with what decides in the sidecar but the table that says which echoes are equal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from state.canon import canonical
from wire.exact import dump, parse
from wire.split import elements, members

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FREE = frozenset(
    {
        "client_metadata",
        "frequency_penalty",
        "include",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "moderation",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "stream_options",
        "temperature",
        "top_logprobs",
        "top_p",
        "user",
    }
)
"""Fields whose value may change from turn to turn without changing what the model has seen."""
_WAY = frozenset({"input", "stream", "background", "previous_response_id"})
_NOTHING = (b"null", b"")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a turn could have been a delta: after which turn, or why not."""

    parent: int | None
    why_not: str = ""

    @property
    def possible(self) -> bool:
        """Whether there was something to continue."""
        return self.parent is not None


@dataclass(slots=True)
class _Known:
    n: int
    own: tuple[bytes, ...]
    output: tuple[bytes, ...]
    fields: Mapping[str, bytes]
    stored: bool
    alive: bool = True


@dataclass(slots=True)
class Oracle:
    """Told of every turn in order, it says of each what could have been."""

    _known: list[_Known] = field(default_factory=list)
    _asked: dict[int, tuple[_Known, _Known | None]] = field(default_factory=dict)

    def asked(self, n: int, body: bytes) -> Verdict:
        """The verdict on turn `n`, whose decoded body this is. The best parent is taken, as a delta would."""
        parts = members(body)
        turn = _Known(n, _input(parts), (), _context_fields(parts), parts.get("store", b"").strip() != b"false")
        client_state = next((name for name in ("previous_response_id", "conversation") if _has(parts, name)), "")
        if client_state or parts.get("background", b"").strip() == b"true":
            self._asked[n] = (turn, None)
            return Verdict(None, "the client keeps its state itself")
        parent, why_not = self._parent(turn)
        self._asked[n] = (turn, parent)
        if parent is None:
            return Verdict(None, why_not)
        parent.alive = parent.stored
        return Verdict(parent.n)

    def completed(self, n: int, output: Sequence[bytes]) -> None:
        """Turn `n` was answered by a completed response with these items."""
        turn, _ = self._asked[n]
        turn.output = tuple(output)
        self._known.append(turn)

    def failed(self, n: int) -> None:
        """Turn `n` was not answered by a completed response: what it continued is gone with it."""
        _, parent = self._asked[n]
        if parent is not None:
            parent.alive = False

    def _parent(self, turn: _Known) -> tuple[_Known | None, str]:
        best: _Known | None = None
        reasons = ["no earlier turn is a part of it"]
        for known in self._known:
            covered = len(known.own) + len(known.output)
            if turn.own[: len(known.own)] != known.own:
                continue
            reason = self._difference(turn, known)
            if reason:
                reasons.append(f"turn {known.n}: {reason}")
            elif best is None or covered >= len(best.own) + len(best.output):
                best = known
        return best, reasons[-1]

    @staticmethod
    def _difference(turn: _Known, known: _Known) -> str:
        rest = turn.own[len(known.own) :]
        if len(rest) <= len(known.output):
            return "nothing new" if rest else "the same turn again"
        if not all(map(_echoes, rest, known.output)):
            return "no echo of its output"
        if changed := _changed(turn.fields, known.fields):
            return f"{changed} changed"
        return "" if known.alive else "it was continued already, or its connection is gone"


def _echoes(raw: bytes, output: bytes) -> bool:
    item = json.loads(raw)
    if isinstance(item, dict) and (item.get("type") == "item_reference" or set(item) == {"id"}):
        return bool(item.get("id") == json.loads(output).get("id"))
    return canonical(raw) == canonical(output)


def _input(parts: Mapping[str, bytes]) -> tuple[bytes, ...]:
    """The client's items in one form, so that equal bytes are equal JSON."""
    raw = parts.get("input", b"[]").strip()
    if raw.startswith(b'"'):
        raw = b'[{"type":"message","role":"user","content":' + raw + b"}]"
    return tuple(dump(parse(item)) for item in elements(raw))


def _context_fields(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    return {
        name: dump(parse(raw))
        for name, raw in parts.items()
        if name not in FREE and name not in _WAY and raw.strip() not in _NOTHING
    }


def _changed(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> str:
    return next((name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)), "")


def _has(parts: Mapping[str, bytes], name: str) -> bool:
    return parts.get(name, b"").strip() not in _NOTHING
