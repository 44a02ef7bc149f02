"""What a client sees through the sidecar against what it saw of the mock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.trace import HttpResponse, Json, event_bytes, stream_bytes
from upstream.scripted import difference
from wire.exact import Inexact, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.wire_client import Answer

CUT_SAID: Final = "cut_said"
EXPLAINED: Final = {
    CUT_SAID: "the connection broke within the answer: the sidecar ends the stream with a `response.failed` of its own",
}
"""Kinds of differences that the sidecar makes on purpose."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: at which request, where in its answer, of which kind."""

    n: int
    path: str
    kind: str

    def __str__(self) -> str:
        return f"turn {self.n} {self.path}: {self.kind}"


def http_differences(recorded: HttpResponse, got: Answer) -> Iterator[Difference]:
    """Differences between a recorded answer and the one that came."""
    n = recorded.n
    if got.status != recorded.status:
        yield Difference(n, "status", f"{recorded.status} became {got.status}")
        return
    if recorded.events is not None:
        yield from _stream(n, recorded, got)
        return
    if not got.complete:
        yield Difference(n, "body", "broke off")
        return
    expected = recorded.body if recorded.body is not None else event_bytes(recorded.response or {})
    yield from _json(n, expected, got.body)


def frame_differences(n: int, expected: Sequence[bytes], got: Sequence[bytes]) -> Iterator[Difference]:
    """Differences between text messages, which have to be the same bytes."""
    for index, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one != other:
            yield Difference(n, f"message[{index}]{_path(one, other)}", "differs")
    if len(expected) != len(got):
        yield Difference(n, "messages", f"{len(expected)} became {len(got)}")


def _stream(n: int, recorded: HttpResponse, got: Answer) -> Iterator[Difference]:
    if not got.headers.get("content-type", "").startswith("text/event-stream"):
        yield Difference(n, "content-type", "is no event stream")
        return
    expected = stream_bytes(recorded.events or ())
    blocks = _blocks(got.body)
    for index, (one, other) in enumerate(zip(expected, blocks, strict=False)):
        if one != other:
            yield Difference(n, f"event[{index}]{_path(_data(one), _data(other))}", "differs")
    more = blocks[len(expected) :]
    if recorded.cut and got.complete and len(more) == 1 and _is_own_failure(more[0], recorded):
        yield Difference(n, "stream", CUT_SAID)
        return
    if len(blocks) != len(expected):
        yield Difference(n, "stream", f"{len(expected)} events became {len(blocks)}")
    if got.complete == recorded.cut:
        yield Difference(n, "stream", "ended although the recorded one broke" if got.complete else "broke off")


def _is_own_failure(block: bytes, recorded: HttpResponse) -> bool:
    try:
        event: Json = json.loads(_data(block))
    except ValueError:
        return False
    begun = next((event["response"]["id"] for event in recorded.events or () if "response" in event), None)
    return event.get("type") == "response.failed" and event.get("response", {}).get("id") in {begun, None}


def _blocks(body: bytes) -> list[bytes]:
    """Events as they came, without the comments that keep a connection alive."""
    lines = [line for line in body.split(b"\n") if not line.startswith(b":")]
    return [block + b"\n\n" for block in b"\n".join(lines).removesuffix(b"\n\n").split(b"\n\n") if block]


def _data(block: bytes) -> bytes:
    return block.partition(b"\ndata: ")[2].strip()


def _json(n: int, expected: bytes, got: bytes) -> Iterator[Difference]:
    if expected == got:
        return
    try:
        path = difference(parse(expected), parse(got))
    except Inexact:
        yield Difference(n, "body", "is no JSON as before")
        return
    if path is not None:
        yield Difference(n, f"body{path}", "differs")


def _path(one: bytes, other: bytes) -> str:
    try:
        return difference(parse(one), parse(other)) or " (bytes only)"
    except Inexact:
        return ""
