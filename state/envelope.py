"""The envelope: what of a request body besides `input` decides whether a head may be continued.

Every field has a policy, written in `POLICY`:

- `FREE` fields never block a delta and travel fresh: they steer this turn's sampling, billing or bookkeeping, and
  nothing of them is part of the context that the upstream keeps.
- `CONTEXT` fields are part of what the model sees, or of how the upstream keeps it. One that changed blocks, unless
  the upstream is known to honour the new value on a continued turn.
- `TRANSPORT` fields belong to the way of the turn and are handled by name.

A field that is not in the table blocks when it changes: an unknown field may mean anything. Values are compared as
canonical JSON, so key order and white space never matter; `null` counts as absent.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from wire.exact import Inexact, dump, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.digest import Keyed

Policy = Enum("Policy", ["FREE", "CONTEXT", "TRANSPORT"])

POLICY: Mapping[str, Policy] = {
    **dict.fromkeys(
        [
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
        ],
        Policy.FREE,
    ),
    **dict.fromkeys(
        [
            "access_programs",
            "context_management",
            "generate",
            "image",
            "instructions",
            "model",
            "parallel_tool_calls",
            "prompt",
            "reasoning",
            "store",
            "text",
            "tool_choice",
            "tools",
            "truncation",
        ],
        Policy.CONTEXT,
    ),
    **dict.fromkeys(
        [
            "background",
            "background_options",
            "conversation",
            "input",
            "previous_response_id",
            "stream",
            "stream_id",
            "type",
        ],
        Policy.TRANSPORT,
    ),
}

_SMALL = 64
_CACHE_ENTRIES = 512


@dataclass(frozen=True, slots=True)
class Envelope:
    """Digests of the fields that can block, by name in sorted order. Holds no content."""

    fields: tuple[tuple[str, bytes], ...]

    def changed(self, other: Envelope, honoured: frozenset[str] = frozenset()) -> str | None:
        """Name of the first field that differs and blocks; `honoured` fields do not block."""
        if self.fields == other.fields:
            return None
        mine, theirs = dict(self.fields), dict(other.fields)
        names = sorted(mine.keys() | theirs.keys())
        return next((name for name in names if name not in honoured and mine.get(name) != theirs.get(name)), None)


class EnvelopeReader:
    """Reads envelopes. Large members are rarely new, so their canonical digests are remembered by their raw bytes."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        self._interned: OrderedDict[Envelope, Envelope] = OrderedDict()

    def read(self, members: Mapping[str, bytes]) -> Envelope:
        """The envelope of a body taken apart into raw members. Raises `Inexact` when a member cannot be compared."""
        fields = sorted(
            (name, self._digest(raw))
            for name, raw in members.items()
            if POLICY.get(name, Policy.CONTEXT) is Policy.CONTEXT and raw != b"null"
        )
        envelope = Envelope(tuple(fields))
        kept = self._interned.setdefault(envelope, envelope)
        self._interned.move_to_end(kept)
        if len(self._interned) > _CACHE_ENTRIES:
            self._interned.popitem(last=False)
        return kept

    def _digest(self, raw: bytes) -> bytes:
        if len(raw) <= _SMALL:
            return self._keyed.digest(dump(parse(raw)))
        name = self._keyed.digest(raw)
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._keyed.digest(dump(parse(raw)))
            if len(self._known) > _CACHE_ENTRIES:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(name)
        return known


__all__ = ["POLICY", "Envelope", "EnvelopeReader", "Inexact", "Policy"]
