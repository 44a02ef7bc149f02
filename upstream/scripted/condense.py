"""The steps of an answer in the few words of a turn that was resumed (docs/wire.md), where they can be said so.

What the client could not rebuild byte for byte stays as it is: members that the rule of the response object does not
know, an answer that does not begin as answers do, an end that says something else than its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from upstream.scripted.steps import Step, Text
from wire.events import COMPLETED, ITEM_DONE, peek
from wire.extensions import DONE, RESUMED
from wire.response import shown_for
from wire.split import Malformed, members, splice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BEGINNING = ["response.created", "response.in_progress"]
_ENDS = {COMPLETED, "response.incomplete", "response.failed"}
_ALWAYS = ("id", "created_at", "status")
Json = dict[str, bytes]


def condensed(steps: Sequence[Step], request: Mapping[str, bytes]) -> list[Step | None]:
    """For each step what is sent instead of it, None for nothing. `request` are the members of the whole request."""
    try:
        known = shown_for(request) | {"previous_response_id": request["previous_response_id"]}
        return _condensed(steps, known)
    except Malformed:
        return list(steps)


def _condensed(steps: Sequence[Step], known: Json) -> list[Step | None]:
    texts = [(at, step.data) for at, step in enumerate(steps) if isinstance(step, Text)]
    first, second = ([members(data) for _, data in texts[:2]] + [{}, {}])[:2]
    begun = members(first.get("response", b"{}"))
    numbered = [event.get("sequence_number") for event in (first, second)] == [b"0", b"1"]
    same = first | {"type": b"", "sequence_number": b""} == second | {"type": b"", "sequence_number": b""}
    if (
        [peek(data).type for _, data in texts[:2]] != _BEGINNING
        or not numbered
        or not same
        or begun.keys() != known.keys()
    ):
        return list(steps)
    said: list[Step | None] = list(steps)
    said[texts[0][0]] = _told(first, RESUMED, begun, known)
    said[texts[1][0]] = None
    items: list[bytes] = []
    for at, data in texts[2:]:
        event = peek(data)
        if event.type == ITEM_DONE:
            items.append(bytes(event.item))
        elif event.type in _ENDS:
            said[at] = _end(data, begun | {"output": b"[%b]" % b",".join(items)}) or steps[at]
    return said


def _end(data: bytes, known: Json) -> Step | None:
    event = members(data)
    response = members(event["response"])
    kind = msgspec.json.encode("response." + msgspec.json.decode(response.get("status", b'""'), type=str))
    if response.keys() != known.keys() or kind != event["type"]:
        return None
    return _told(event, DONE, response, known)


def _told(event: Json, kind: str, response: Json, known: Json) -> Text:
    """An event that names, of a response, what is not known."""
    new = {name: raw for name, raw in response.items() if name in _ALWAYS or known[name] != raw}
    own = {"type": msgspec.json.encode(kind), "response": splice(new.items())}
    return Text(splice((event | own).items()))
