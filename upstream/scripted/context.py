"""The context that the model would see, rebuilt for every turn by the rules of the API.

A chained turn is the stored context of its parent, the parent's output, and the frame's own input. With
`store: false` only the latest response of the same connection (and lane) can be continued; any stored one
otherwise. Nothing but a completed response can be continued.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from state import context
from state.canon import canonical
from upstream.scripted.turn import ContextItem, Turn
from wire.errors import ApiError, invalid_request, previous_not_found
from wire.exact import Inexact, parse
from wire.extensions import (
    APPEND_FIELD,
    APPEND_TYPE,
    CONTEXT_FIELD,
    CONTEXT_MISMATCH,
    ENVELOPE_FIELD,
    ENVELOPE_MEMBERS,
    ENVELOPE_UNKNOWN,
    envelope_digest,
)
from wire.split import Malformed, elements, members

_OF_ONE_TURN = frozenset({"input", "type", "stream_id", "generate", "previous_response_id"})
MAX_LANES = 32
"""Distinct `stream_id`s in the life of one connection."""
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
HTTP_ONLY_ABSENT = ("type", "stream_id", "generate", ENVELOPE_FIELD, CONTEXT_FIELD)
"""Members that exist in WebSocket mode only; the API refuses them in a POST."""


@dataclass(slots=True)
class Cache:
    """What one connection remembers: the latest completed response per lane, and envelope members by digest."""

    latest: dict[str, str] = field(default_factory=dict)
    envelope: dict[str, bytes] = field(default_factory=dict)
    lanes: set[str] = field(default_factory=set)
    nonce: bytes = b""
    """What digests of contexts are bound to; empty where none are compared."""


class Contexts:
    """What one scripted upstream remembers of answered turns: of the latest `keep` or, without it, of all."""

    def __init__(
        self, *, envelope: bool = False, append: bool = False, lanes: bool = False, keep: int | None = None
    ) -> None:
        self._keep = keep
        self._envelope_offered = envelope
        self._append_offered = append
        self._lanes_offered = lanes
        self._context: dict[str, tuple[ContextItem, ...]] = {}
        self._asked: dict[str, dict[str, bytes]] = {}
        self._stored: set[str] = set()
        self._outputs: dict[str, ContextItem] = {}
        self._chains: dict[str, bytes] = {}

    def open(self, turn: Turn, cache: Cache) -> None:
        """Read the turn and rebuild its context. Raises `ApiError` where the API would refuse it."""
        turn.members = self._members(turn, cache)
        claim = turn.members.pop(CONTEXT_FIELD, None)
        if turn.parent and _present(turn, "conversation"):
            raise invalid_request("Mutually exclusive parameters.", param="conversation")
        before = self._parent_context(turn, cache)
        ids = {identity for item in before if (identity := _identity(item.raw))}
        own = []
        for raw in input_items(turn.members.get("input", b"[]")):
            identity = _identity(raw)
            if identity in ids and before:
                raise invalid_request(
                    f"Duplicate item found with id {identity}. Remove duplicate items from your input and try again.",
                    param="input",
                )
            own.append(self._resolved(raw))
        turn.own = tuple(own)
        turn.context = before + turn.own
        turn.chain = self._chain(turn)
        if claim is not None and json.loads(claim) != context.bound(cache.nonce, turn.chain):
            raise ApiError(409, "Another context is kept here.", code=CONTEXT_MISMATCH, param=CONTEXT_FIELD)

    def _chain(self, turn: Turn) -> bytes:
        """The chain over the items as they were sent, which an independent reader may compare."""
        sent = (context.form_of(canonical(raw)) for raw in input_items(turn.members.get("input", b"[]")))
        return context.extend(self._chains.get(turn.parent, context.START), sent) or b""

    def commit(self, turn: Turn, cache: Cache) -> None:
        """A completed response becomes what its connection continues, and what others may where it is stored."""
        self._context[turn.response_id] = turn.context + tuple(turn.output)
        written = (context.form_of(canonical(item.raw)) for item in turn.output)
        self._chains[turn.response_id] = context.extend(turn.chain, written) or b""
        self._asked[turn.response_id] = {name: raw for name, raw in turn.members.items() if name not in _OF_ONE_TURN}
        cache.latest[turn.lane] = turn.response_id
        if turn.stored:
            self._stored.add(turn.response_id)
            self._outputs |= {identity: item for item in turn.output if (identity := _identity(item.raw))}
        if self._keep is not None and len(self._context) > self._keep:
            oldest = next(iter(self._context))
            for item in self._context.pop(oldest):
                self._outputs.pop(_identity(item.raw) or "", None)
            self._stored.discard(oldest)
            del self._asked[oldest], self._chains[oldest]

    @staticmethod
    def evict(turn: Turn, cache: Cache) -> None:
        """A continuation that failed takes the cached parent of its lane with it."""
        if turn.parent and cache.latest.get(turn.lane) == turn.parent:
            del cache.latest[turn.lane]

    def _members(self, turn: Turn, cache: Cache) -> dict[str, bytes]:
        try:
            parts = members(turn.raw)
            parse(turn.raw)
        except (Malformed, Inexact):
            raise invalid_request("We could not parse the JSON body of your request.") from None
        if turn.transport == "http":
            for name in HTTP_ONLY_ABSENT:
                if name in parts:
                    raise invalid_request(f"Unsupported parameter: '{name}'.", param=name)
            return parts
        if parts.get("background", b"false").strip() not in {b"false", b"null"}:
            raise invalid_request("Background is not supported over WebSocket.", param="background")
        if "stream_id" in parts:
            self._check_lane(json.loads(parts["stream_id"]), cache)
        turn.remarks += [f"{name} sent over WebSocket" for name in ("stream", "background") if name in parts]
        if CONTEXT_FIELD in parts and not cache.nonce:
            raise invalid_request(f"Unknown parameter: '{CONTEXT_FIELD}'.", param=CONTEXT_FIELD)
        return self._whole(turn, self._with_envelope(parts, cache), cache)

    def _whole(self, turn: Turn, parts: dict[str, bytes], cache: Cache) -> dict[str, bytes]:
        """The members of the request that a frame stands for."""
        if json.loads(parts.get("type", b"null")) != APPEND_TYPE:
            return parts
        if not self._append_offered:
            raise invalid_request("Unknown event type.", param="type")
        turn.resumes = True
        parent = parts.pop(APPEND_FIELD, b"null")
        named = json.loads(parent)
        # A frame that cannot be resumed has a parent all the same: it is that which is lost with it.
        turn.members = parts | {"previous_response_id": parent}
        if named is None or cache.latest.get(turn.lane) != named or named not in self._asked:
            raise previous_not_found(str(named))
        whole = self._asked[named] | turn.members
        return {name: raw for name, raw in whole.items() if raw != b"null" or name not in parts}

    def _check_lane(self, name: object, cache: Cache) -> None:
        if not self._lanes_offered:
            raise invalid_request("Unsupported parameter: 'stream_id'.", param="stream_id")
        if not isinstance(name, str) or not _LANE.fullmatch(name):
            raise invalid_request("The 'stream_id' field is invalid.", param="stream_id", code="invalid_stream_id")
        if len(cache.lanes | {name}) > MAX_LANES:
            raise invalid_request(
                f"This WebSocket connection has reached its maximum number of distinct stream IDs ({MAX_LANES}). "
                "Reuse an existing stream_id or open a new WebSocket connection.",
                param="stream_id",
                code="websocket_stream_limit_reached",
            )
        cache.lanes.add(name)

    def _with_envelope(self, parts: dict[str, bytes], cache: Cache) -> dict[str, bytes]:
        digests = json.loads(parts.pop(ENVELOPE_FIELD, b"{}"))
        if digests and not self._envelope_offered:
            raise invalid_request(f"Unknown parameter: '{ENVELOPE_FIELD}'.", param=ENVELOPE_FIELD)
        for name, digest in digests.items():
            if name in parts or name not in ENVELOPE_MEMBERS:
                raise invalid_request("A digest stands for a member that is absent.", param=f"{ENVELOPE_FIELD}.{name}")
            if digest not in cache.envelope:
                raise ApiError(409, "Unknown envelope digest.", code=ENVELOPE_UNKNOWN, param=name)
            parts[name] = cache.envelope[digest]
        cache.envelope |= {envelope_digest(raw): raw for name in ENVELOPE_MEMBERS if (raw := parts.get(name))}
        return parts

    def _parent_context(self, turn: Turn, cache: Cache) -> tuple[ContextItem, ...]:
        if not turn.parent:
            return ()
        known = turn.parent in cache.latest.values() or turn.parent in self._stored
        if not known or turn.parent not in self._context:
            raise previous_not_found(turn.parent)
        return self._context[turn.parent]

    def _resolved(self, raw: bytes) -> ContextItem:
        item = json.loads(raw)
        if not isinstance(item, dict) or item.get("type", "item_reference" if set(item) == {"id"} else "") != (
            "item_reference"
        ):
            return ContextItem(raw)
        known = self._outputs.get(str(item.get("id")))
        if known is None:
            raise invalid_request(
                f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false.",
                param="input",
                status=404,
            )
        return known


def _present(turn: Turn, name: str) -> bool:
    return turn.members.get(name, b"null").strip() != b"null"


def input_items(raw: bytes) -> list[bytes]:
    """The items of `input`; text alone is one message of the user."""
    if raw.lstrip().startswith(b'"'):
        return [b'{"type":"message","role":"user","content":' + raw.strip() + b"}"]
    try:
        return elements(raw)
    except Malformed:
        raise invalid_request("Invalid type for 'input'.", param="input") from None


def _identity(raw: bytes) -> str | None:
    item = json.loads(raw)
    identity = item.get("id") if isinstance(item, dict) else None
    return identity if isinstance(identity, str) else None
