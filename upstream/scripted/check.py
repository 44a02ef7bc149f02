"""The context check: what the upstream rebuilt for a turn against what the client sent. Reports paths, no content."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from state.canon import canonical
from upstream.scripted.context import input_items
from upstream.scripted.turn import NOT_ENVELOPE, ContextItem, Turn
from wire.errors import CONNECTION_LIMIT, PREVIOUS_NOT_FOUND
from wire.exact import parse
from wire.extensions import ENVELOPE_UNKNOWN
from wire.split import members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

RETRIED = frozenset({PREVIOUS_NOT_FOUND, CONNECTION_LIMIT, ENVELOPE_UNKNOWN, "context_mismatch"})
"""Codes of refusals that a proxy answers by sending the turn again, in full."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference: the client's turn counted from 1, where, and of which kind."""

    turn: int
    path: str
    reason: str

    def __str__(self) -> str:
        return f"turn {self.turn} {self.path}: {self.reason}"


def check_context(turns: Sequence[Turn], client_bodies: Sequence[bytes]) -> list[Mismatch]:
    """Differences between the turns that arrived and the bodies that a client sent, in the same order.

    A turn refused with one of `RETRIED` is taken for the first try of the turn after it.
    """
    found: list[Mismatch] = []
    arrived = list(turns)
    for number, body in enumerate(client_bodies, 1):
        while len(arrived) > 1 and arrived[0].error is not None and arrived[0].error.code in RETRIED:
            del arrived[0]
        if arrived:
            found += compare(arrived.pop(0), body, number)
        else:
            found.append(Mismatch(number, "$", "never reached the upstream"))
    found += [Mismatch(0, "$", f"upstream turn {turn.number} belongs to no turn of the client") for turn in arrived]
    return found


def compare(turn: Turn, body: bytes, number: int = 1) -> list[Mismatch]:
    """Differences between one turn and the (decoded) body for which it was sent."""
    sent = members(body)
    own_parent = json.loads(sent.get("previous_response_id", b"null"))
    items = input_items(sent.get("input", b"[]"))
    seen = turn.context
    where = []
    if own_parent is not None:
        # The client keeps its state itself: the frame has to be what it sent, whatever stands before it.
        seen = turn.own
        if turn.parent != own_parent:
            where.append(Mismatch(number, "$.previous_response_id", "not the client's"))
    where += [Mismatch(number, f"$.input{path}", reason) for path, reason in _items(items, seen)]
    there = dict(turn.members)
    if turn.resumes:  # there `null` takes a member away, and means nothing else
        sent, there = _without_nulls(sent), _without_nulls(there)
    where += [Mismatch(number, f"$.{path}", reason) for path, reason in _envelope(sent, there)]
    return where


def _items(sent: Sequence[bytes], seen: Sequence[ContextItem]) -> Iterable[tuple[str, str]]:
    for index, (raw, item) in enumerate(zip(sent, seen, strict=False)):
        if not item.output:
            path = difference(parse(raw), parse(item.raw))
            if path is not None:
                yield f"[{index}]{path}", "differs"
        elif not _echoes(raw, item):
            yield f"[{index}]", "is no echo of the output that stands for it"
    if len(sent) != len(seen):
        yield "", f"{len(sent)} items sent, {len(seen)} seen"


def _echoes(raw: bytes, output: ContextItem) -> bool:
    value = json.loads(raw)
    if isinstance(value, dict) and (value.get("type") == "item_reference" or set(value) == {"id"}):
        return bool(value.get("id") == output.value.get("id"))
    form = canonical(raw)
    return form == canonical(output.raw) or (output.other != b"" and form == canonical(output.other))


def _envelope(sent: Mapping[str, bytes], seen: Mapping[str, bytes]) -> Iterable[tuple[str, str]]:
    for name in sorted((sent.keys() | seen.keys()) - NOT_ENVELOPE):
        if name not in seen:
            yield name, "was lost"
        elif name not in sent:
            yield name, "was added"
        else:
            path = difference(parse(sent[name]), parse(seen[name]))
            if path is not None:
                yield f"{name}{path}", "differs"


def _without_nulls(members: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: raw for name, raw in members.items() if raw != b"null"}


def difference(one: object, other: object, path: str = "") -> str | None:
    """JSON path of the first difference of two values read by `wire.exact`; None when they are the same JSON."""
    if type(one) is not type(other):
        return path
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return f"{path}.{min(one.keys() ^ other.keys())}"
        pairs: Iterable[tuple[str, object, object]] = ((f".{key}", one[key], other[key]) for key in one)
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f"{path}[{min(len(one), len(other))}]"
        pairs = ((f"[{index}]", *both) for index, both in enumerate(zip(one, other, strict=True)))
    else:
        return None if one == other else path
    return next((found for step, a, b in pairs if (found := difference(a, b, path + step)) is not None), None)
