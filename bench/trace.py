"""Recorded traffic: files of one JSON object a line, read back into what was on the wire.

A file is everything that one run of a client sent to a mock of the Responses API, and what the mock answered. In
recorded answers the echo of `tools` and `instructions` is left out; it is put back here from the request.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wire import sse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

Json = dict[str, Any]

_ECHOES: dict[str, tuple[str, object]] = {
    "$request.tools": ("tools", []),
    "$request.instructions": ("instructions", None),
}


class TraceError(ValueError):
    """A file that is no recording; says which line, and nothing of its content."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as sent. `wire` is the body on the wire, `body` the same without its content coding."""

    n: int
    method: str
    path: str
    version: str
    headers: tuple[tuple[str, str], ...]
    wire: bytes
    body: bytes

    @property
    def is_turn(self) -> bool:
        """Whether this asks for a response."""
        return self.method == "POST" and self.path.partition("?")[0] in {"/v1/responses", "/responses"}

    def head(self) -> bytes:
        """Request line and headers, in the order and case recorded."""
        lines = [
            f"{self.method} {self.path} HTTP/{self.version}",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The recorded answer: of `events`, `response` and `body` exactly one is there. `cut`: then the mock hung up."""

    n: int
    status: int
    events: tuple[Json, ...] | None = None
    response: Json | None = None
    body: bytes | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class WsUpgrade:
    """A handshake and how it was answered: `accept`, or the status of a refusal."""

    connection: int
    path: str
    headers: tuple[tuple[str, str], ...]
    answer: str


@dataclass(frozen=True, slots=True)
class WsMessage:
    """A text message of the client."""

    connection: int
    n: int
    body: bytes


@dataclass(frozen=True, slots=True)
class WsAnswer:
    """The text messages sent back for message `n`."""

    connection: int
    n: int
    events: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class WsClose:
    """The end of a connection; 1006 when there was no close frame."""

    connection: int
    code: int


Line = HttpRequest | HttpResponse | WsUpgrade | WsMessage | WsAnswer | WsClose


@dataclass(frozen=True)
class Trace:
    """One recording, in the order of its lines."""

    name: str
    """Client and scenario."""
    lines: tuple[Line, ...]

    @property
    def client(self) -> str:
        """The client alone."""
        return self.name.partition("/")[0]

    @cached_property
    def requests(self) -> Mapping[int, HttpRequest]:
        """Requests by number."""
        return {line.n: line for line in self.lines if isinstance(line, HttpRequest)}

    @cached_property
    def responses(self) -> Mapping[int, HttpResponse]:
        """Answers by the number of their request."""
        return {line.n: line for line in self.lines if isinstance(line, HttpResponse)}

    @cached_property
    def answers(self) -> Mapping[int, WsAnswer]:
        """Answers of WebSocket conversations by the number of the message."""
        return {line.n: line for line in self.lines if isinstance(line, WsAnswer)}


def event_bytes(event: Mapping[str, Any]) -> bytes:
    """An event as it was on the wire: compact JSON in raw UTF-8."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def stream_bytes(events: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Each event of a stream as it was on the wire."""
    return [sse.encode(event["type"], event_bytes(event)) for event in events]


def read(path: Path) -> Trace:
    """The recording in a file. Raises `TraceError`, or `OSError` where it cannot be read."""
    bodies: dict[int, bytes] = {}
    lines: list[Line] = []
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                lines += _lines(json.loads(text), bodies)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise TraceError(f"{path.name}:{number}: not a recorded line ({type(error).__name__})") from None
    return Trace(f"{path.parent.name}/{path.stem}", tuple(lines))


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The recordings among files and folders, sorted within each folder."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.jsonl"))
        else:
            yield path


def _lines(line: Json, bodies: dict[int, bytes]) -> Iterator[Line]:
    match line["kind"]:
        case "http_request":
            request = _request(line)
            bodies[request.n] = request.body
            yield request
        case "http_response":
            yield _response(line, bodies[line["n"]])
        case "ws_upgrade":
            yield WsUpgrade(line["conn"], line["path"], _headers(line), str(line["answer"]))
        case "ws_recv":
            message = WsMessage(line["conn"], line["n"], line["body"].encode())
            if len(message.body) != line["body_len"]:
                raise ValueError
            bodies[message.n] = message.body
            yield message
        case "ws_send":
            yield WsAnswer(line["conn"], line["n"], _whole(line["events"], bodies[line["n"]]))
        case "ws_close":
            yield WsClose(line["conn"], int(line["code"]))
        case "ws_accepted" | "note":
            pass  # extensions are agreed on anew in a replay; notes are for readers
        case _:
            raise ValueError


def _request(line: Json) -> HttpRequest:
    body = _bytes(line, "body_b64") if "body_b64" in line else line["body"].encode()
    wire = _bytes(line, "raw_b64") if "content_encoding" in line else body
    if len(wire) != line["body_len"]:
        raise ValueError
    return HttpRequest(line["n"], line["method"], line["path"], line["http"], _headers(line), wire, body)


def _response(line: Json, request: bytes) -> HttpResponse:
    given = [name for name in ("events", "response", "body") if name in line]
    if len(given) != 1:
        raise ValueError
    return HttpResponse(
        line["n"],
        line["status"],
        events=_whole(line["events"], request) if "events" in line else None,
        response=_with_echo(line["response"], request) if "response" in line else None,
        body=line["body"].encode() if "body" in line else None,
        cut=line.get("cut", False),
    )


def _headers(line: Json) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in line["headers"])


def _bytes(line: Json, name: str) -> bytes:
    try:
        return base64.b64decode(line[name], validate=True)
    except binascii.Error:
        raise ValueError from None


def _whole(events: Iterable[Json], request: bytes) -> tuple[Json, ...]:
    """Events with the echo of the request put back."""
    return tuple(
        event | {"response": _with_echo(event["response"], request)}
        if isinstance(event.get("response"), dict)
        else event
        for event in events
    )


def _with_echo(response: Json, request: bytes) -> Json:
    return {
        name: _echo(value, request) if isinstance(value, str) and value in _ECHOES else value
        for name, value in response.items()
    }


def _echo(mark: str, request: bytes) -> object:
    name, absent = _ECHOES[mark]
    return json.loads(request).get(name, absent)
