"""Recordings of our own making, in the shapes of recorded traffic: what clients were seen to do, told by made-up talk."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backports import zstd

from upstream.scripted import events_of, function_call, message, reasoning, response_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Json = dict[str, Any]

TOOLS = [{"type": "function", "name": "run", "parameters": {"type": "object", "properties": {}}, "strict": False}]
FAILURE = {"error": {"message": "Went wrong.", "type": "server_error", "param": None, "code": None}}


def compact(value: object) -> str:
    """JSON as most clients write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def user(text: str) -> Json:
    """A message of the user."""
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


def result(call_id: str) -> Json:
    """What a tool gave."""
    return {"type": "function_call_output", "call_id": call_id, "output": f"result of {call_id} — “ok”"}


@dataclass
class Recording:
    """Lines of a recording, written one request at a time."""

    lines: list[Json] = field(default_factory=list)
    n: int = 0
    turns: int = 0

    def request(self, body: str, path: str = "/v1/responses", method: str = "POST", *, packed: bool = False) -> int:
        """A request line; its number."""
        self.n += 1
        wire = zstd.compress(body.encode()) if packed else body.encode()
        headers = [
            ["Host", "127.0.0.1:8700"],
            ["authorization", "Bearer REDACTED"],
            ["Content-Type", "application/json"],
        ]
        headers += [["content-encoding", "zstd"]] * packed + [["Content-Length", str(len(wire))]]
        coding = {
            "content_encoding": "zstd",
            "decoded_len": len(body.encode()),
            "raw_b64": base64.b64encode(wire).decode(),
        }
        self._add("http_request", n=self.n, method=method, path=path, http="1.1", headers=headers, body_len=len(wire))
        self.lines[-1] |= {"body": body} | (coding if packed else {})
        return self.n

    def response(self, n: int, status: int = 200, **answer: Any) -> None:
        """A response line."""
        self._add("http_response", n=n, status=status, **answer)

    def turn(
        self,
        body: Json,
        items: Iterable[Json] = (),
        *,
        cut_after: int | None = None,
        status: int = 200,
        packed: bool = False,
    ) -> list[Json]:
        """A whole turn; the output items as the client got them."""
        n = self.request(compact(body), packed=packed)
        if status != 200:
            self.response(n, status, body=json.dumps(FAILURE))
            return []
        response = self.answered(body, items)
        if not body.get("stream"):
            self.response(n, response=response)
        elif cut_after is not None:
            self.response(n, events=events_of(response)[:cut_after], cut=True)
        else:
            self.response(n, events=events_of(response))
        output: list[Json] = response["output"]
        return output

    def answered(self, body: Json, items: Iterable[Json]) -> Json:
        """A response object, with the echo of tools and instructions left out as recordings do."""
        self.turns += 1
        response = response_object(items, response_id=f"resp_{self.turns:04}", request=body)
        return response | {name: f"$request.{name}" for name in ("tools", "instructions") if body.get(name)}

    def upgrade(self, connection: int, answer: str = "accept") -> None:
        """A handshake."""
        headers = [["Host", "127.0.0.1:8700"], ["Upgrade", "websocket"], ["Authorization", "Bearer REDACTED"]]
        self._add("ws_upgrade", conn=connection, path="/v1/responses", http="1.1", headers=headers, answer=answer)
        if answer == "accept":
            self._add("ws_accepted", conn=connection, extensions="0")

    def message(self, connection: int, frame: Json, items: Iterable[Json], error: Json | None = None) -> Json:
        """A message of the client and what came back; the response object."""
        self.n += 1
        body = json.dumps(frame)
        self._add("ws_recv", conn=connection, n=self.n, body_len=len(body), body=body)
        response = self.answered(frame, items)
        self._add("ws_send", conn=connection, n=self.n, events=[error] if error else events_of(response))
        return response

    def close(self, connection: int, code: int = 1000) -> None:
        """The end of a connection."""
        self._add("ws_close", conn=connection, code=code)

    def write(self, path: Path) -> Path:
        """The recording as a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")
        return path

    def _add(self, kind: str, **members: Any) -> None:
        self.lines.append({"kind": kind, **members, "t_ms": len(self.lines) * 10})


def as_it_came(output: list[Json]) -> list[Json]:
    """An SDK's plain loop."""
    return output


def codex_like(output: list[Json]) -> list[Json]:
    """Keys in another order, and `content: null` on reasoning."""
    turned = [dict(reversed(item.items())) for item in output]
    return [item | {"content": None} if item["type"] == "reasoning" else item for item in turned]


def references(output: list[Json]) -> list[Json]:
    """AI SDK with `store` absent: references, but calls as items without id and status."""
    return [
        {name: value for name, value in item.items() if name not in {"id", "status"}}
        if item["type"] == "function_call"
        else {"type": "item_reference", "id": item["id"]}
        for item in output
    ]


def dumped(output: list[Json]) -> list[Json]:
    """A typed model dumped with all its fields."""
    return [
        item | ({"content": None, "status": None} if item["type"] == "reasoning" else {"namespace": None})
        if item["type"] != "message"
        else item
        for item in output
    ]


def stripped(output: list[Json]) -> list[Json]:
    """Only what a request needs; arguments written anew."""
    return [
        {"role": "assistant", "content": "".join(part["text"] for part in item["content"])}
        if item["type"] == "message"
        else {
            name: compact(json.loads(value)) if name == "arguments" else value
            for name, value in item.items()
            if name not in {"id", "status"}
        }
        for item in output
    ]


def without_reasoning(output: list[Json]) -> list[Json]:
    """A client that keeps no reasoning."""
    return [item for item in output if item["type"] != "reasoning"]


def talk(
    echo: Callable[[list[Json]], list[Json]] = as_it_came,
    *,
    stream: bool = True,
    packed: bool = False,
    store: bool | None = False,
    **members: Any,
) -> Recording:
    """A question, two tool calls, an answer and one more question: five turns, four of them continuations.

    Every body has the further `members`.
    """
    recording = Recording()
    history = [user("What is in the file? — “short”")]
    for number, items in enumerate(_answers()):
        body = _body(history, stream=stream, store=store, metadata={"turn": str(number)}, **members)
        output = recording.turn(body, items, packed=packed)
        history += echo(output) + _next_input(output, number)
    return recording


def side_requests() -> Recording:
    """A title request beside the first turn, at the same time, and a suggestion that branches off and comes to nothing."""
    recording = Recording()
    first = _body([user("Do it.")])
    title = _body([user("A title for: Do it.")], tools=None, text={"format": {"type": "json_schema", "name": "t"}})
    n, m = recording.request(compact(first)), recording.request(compact(title))
    one, two = recording.answered(first, [message("Done.")]), recording.answered(title, [message("{}")])
    recording.response(m, events=events_of(two))
    recording.response(n, events=events_of(one))
    history = [*first["input"], *one["output"]]
    recording.turn(_body([*history, user("Suggest something.")], instructions="Suggest.", tools=None), [message("x")])
    recording.turn(_body([*history, user("Go on.")]), [message("On.")])
    return recording


def branch(*, store: bool | None = False) -> Recording:
    """The second question is asked twice, in other words: the history forks and both branches go on."""
    recording = Recording()
    trunk = [user("One.")]
    trunk += recording.turn(_body(trunk, store=store), [message("1")])
    branches = [[*trunk, user(text)] for text in ("Two.", "Zwei.")]
    for history in branches:
        history += [*recording.turn(_body(history, store=store), [message("2")]), user("Three.")]
    for history in branches:
        recording.turn(_body(history, store=store), [message("3")])
    return recording


def parallel_agents(count: int = 4) -> Recording:
    """One turn, then several agents that all go on from it at the same time, two turns each."""
    recording = Recording()
    trunk = [user("Split up.")]
    trunk += recording.turn(_body(trunk), [message("Splitting.")])
    histories = [[*trunk, user(f"You are agent {number}.")] for number in range(count)]
    for _ in range(2):
        bodies = [_body(history) for history in histories]
        numbers = [recording.request(compact(body)) for body in bodies]
        for n, body, history in zip(numbers, bodies, histories, strict=True):
            response = recording.answered(body, [message(f"Answer {n}.")])
            recording.response(n, events=events_of(response))
            history += [*response["output"], user("Go on.")]
    return recording


def compaction() -> Recording:
    """After two turns the client writes its history anew, and goes on from there."""
    recording = Recording()
    history = [user("A long story.")]
    for text in ("More.", "And more."):
        history += [*recording.turn(_body(history), [reasoning("e"), message("Aha.")]), user(text)]
    history = [user("In short: a story."), user("And then?")]
    history += [*recording.turn(_body(history), [message("Then.")]), user("And then?")]
    recording.turn(_body(history), [message("The end.")])
    return recording


def retry_after_500(*, stream: bool = True) -> Recording:
    """The third turn fails once and is sent again, byte for byte."""
    recording = Recording()
    history = [user("One.")]
    for number in range(4):
        if number == 2:
            recording.turn(_body(history, stream=stream), status=500)
        history += [*recording.turn(_body(history, stream=stream), [message(str(number))]), user("Next.")]
    return recording


def cut(*, keep: bool = False) -> Recording:
    """The second answer breaks off after its first item; the retry has that item in it when the client keeps it."""
    recording = Recording()
    history = [user("One.")]
    history += [*recording.turn(_body(history), [message("1")]), user("Two.")]
    output = recording.turn(_body(history), [reasoning("e1"), message("2")], cut_after=6)
    history += output[:1] if keep else []
    history += [*recording.turn(_body(history), [reasoning("e2"), message("2")]), user("Three.")]
    recording.turn(_body(history), [message("3")])
    return recording


def own_state() -> Recording:
    """A client that continues by id itself."""
    recording = Recording()
    recording.turn(_body([user("One.")], stream=False, store=None), [message("1")])
    recording.turn(_body([user("Two.")], stream=False, store=None, previous_response_id="resp_0001"), [message("2")])
    return recording


def websocket() -> Recording:
    """A conversation of a client that speaks WebSocket mode itself: warm-up, delta, and a stale id on a new connection."""
    recording = Recording()
    recording.upgrade(1, "426")
    recording.upgrade(1)
    frame = {"type": "response.create", "store": False, "stream": True, "tools": TOOLS}
    warm = recording.message(1, frame | {"input": [user("One.")], "generate": False}, [])
    done = recording.message(1, frame | {"input": [user("Two.")], "previous_response_id": warm["id"]}, [message("2")])
    recording.close(1)
    recording.upgrade(2)
    stale = {"type": "error", "status": 400, "error": {"code": "previous_response_not_found", "message": "other words"}}
    recording.message(2, frame | {"input": [user("Three.")], "previous_response_id": done["id"]}, [], stale)
    recording.message(2, frame | {"input": [user("Four.")]}, [message("4")])
    recording.close(2, 1006)
    return recording


def other_endpoints() -> Recording:
    """Requests that are no turns, below the base path and outside it."""
    recording = Recording()
    for path, status in (("/v1/models?limit=2", 200), ("/backend-api/accounts/check", 404)):
        recording.response(recording.request("", path, "GET"), status, body=compact({"path": path}))
    recording.response(recording.request('{"x":1}', "/v1/responses/compact"), 200, body='{"output":[]}')
    return recording


def _answers() -> list[list[Json]]:
    calls = [function_call(f"call_{n}", "run", f'{{"b": {n}, "a": "é \\" \\\\"}}') for n in range(3)]
    return [
        [reasoning("e0", "thinking"), calls[0]],
        [reasoning("e1"), message("Looking.", phase="commentary"), calls[1], calls[2]],
        [reasoning("e2"), message("Here it is.")],
        [reasoning("e3"), message("Bye.")],
        [message("Really.")],
    ]


def _next_input(output: list[Json], number: int) -> list[Json]:
    results = [result(item["call_id"]) for item in output if item["type"] == "function_call"]
    return results or [user(f"And {number}?")]


def _body(history: list[Json], **members: Any) -> Json:
    """A body; its history is copied, so that it may go on growing. A member that is None is left out."""
    body = {
        "model": "m",
        "instructions": "Be brief.",
        "input": list(history),
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": TOOLS,
    } | members
    return {name: value for name, value in body.items() if value is not None}
