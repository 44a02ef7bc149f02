"""A long conversation by every way that it can be sent: the same context, tokens and answers as in full requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from websockets.sync.client import connect

from tests.e2e.agent import SHELL
from tests.e2e.compare import comparable
from tests.e2e.sidecar import Server, Sidecar
from tests.support import http
from tests.upstream.helpers import TERMINAL, told
from wire.extensions import DONE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from websockets.sync.connection import Connection

    from tests.e2e.sidecar import Start

Item = dict[str, Any]

ENDS = {*TERMINAL, DONE}
DELTAS = 200
CALLS = 4
"""Calls after each message of the user, two in each answer: every third turn, and so the last one, is a message."""
BODY = {
    "model": "gpt-5.5",
    "instructions": "Use the tools.",
    "tools": [SHELL, {"type": "custom", "name": "read_note", "description": "Reads a note."}],
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
}


class Turn(NamedTuple):
    """The whole history, what of it is new, and the id of the response before."""

    history: list[Item]
    new: list[Item]
    previous: str | None = None


Send = Callable[[Turn], Item]
"""Sends a turn; returns the response."""


@contextmanager
def in_full(base_url: str) -> Iterator[Send]:
    """Plain HTTP, everything each turn; nothing is stored."""
    yield lambda turn: _posted(base_url, input=turn.history, store=False)


@contextmanager
def by_id(base_url: str) -> Iterator[Send]:
    """Plain HTTP, what is new after a stored response."""
    yield lambda turn: _posted(base_url, input=turn.new, previous_response_id=turn.previous)


@contextmanager
def over_socket(base_url: str) -> Iterator[Send]:
    """One WebSocket, what is new after the last response, of which nothing is stored."""
    with connect(_socket_url(base_url), max_size=None) as socket:

        def send(turn: Turn) -> Item:
            members = {"store": False, "input": turn.new, "previous_response_id": turn.previous}
            event = _answered(socket, BODY | members | {"type": "response.create"})[-1]
            assert event["type"] == "response.completed", event
            response: Item = event["response"]
            return response

        yield send


@contextmanager
def by_append(base_url: str) -> Iterator[Send]:
    """One WebSocket and one long response: the first turn is whole, and each other nothing but its items."""
    with connect(_socket_url(base_url), max_size=None) as socket:

        def send(turn: Turn) -> Item:
            resumed = {"type": "response.append", "response_id": turn.previous}
            first = BODY | {"type": "response.create", "store": False}
            events = _answered(socket, (resumed if turn.previous else first) | {"input": turn.new})
            assert events[-1]["type"] == ("response.done" if turn.previous else "response.completed"), events[-1]
            items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
            response: Item = events[0]["response"] | events[-1]["response"] | {"output": items}
            return response

        yield send


def _socket_url(base_url: str) -> str:
    return base_url.replace("http", "ws", 1) + "/responses"


def _answered(socket: Connection, frame: Item) -> list[Item]:
    """Events up to the terminal one."""
    socket.send(json.dumps(frame))
    events: list[Item] = []
    while not events or events[-1]["type"] not in ENDS:
        events.append(json.loads(socket.recv(http.SECONDS)))
    return events


@contextmanager
def appended(base_url: str) -> Iterator[Send]:
    """One WebSocket, one response that pauses after each turn; nothing is stored."""
    with connect(base_url.replace("http", "ws", 1) + "/responses", max_size=None) as socket:

        def send(turn: Turn) -> Item:
            begun = {"type": "response.create", **BODY, "store": False}
            resumed = {"type": "response.append", "response_id": turn.previous}
            socket.send(json.dumps((resumed if turn.previous else begun) | {"input": turn.new}))
            events = [json.loads(socket.recv(http.SECONDS))]
            while events[-1]["type"] not in TERMINAL:
                events.append(json.loads(socket.recv(http.SECONDS)))
            assert events[-1]["response"]["status"] == "completed", events[-1]
            return told(events)

        yield send


@dataclass(frozen=True)
class Way:
    """How a conversation is sent, the server's options for it, and the sidecar's where it goes through one."""

    send: Callable[[str], AbstractContextManager[Send]]
    server: tuple[str, ...] = ()
    sidecar: tuple[str, ...] | None = None


WAYS = {
    "http by previous_response_id": Way(by_id),
    "websocket": Way(over_socket),
    "websocket by response.append": Way(appended),
    "websocket without its features": Way(over_socket, ("--features", "", "--lanes", "off", "--compression", "off")),
    "response.append": Way(by_append),
    "http without caching": Way(in_full, ("--caching", "none")),
    "http without caching by previous_response_id": Way(by_id, ("--caching", "none")),
    "http with caching": Way(in_full, ("--caching", "http")),
    "http with caching by previous_response_id": Way(by_id, ("--caching", "http")),
    "sidecar": Way(in_full, sidecar=()),
    "sidecar before a server without append": Way(in_full, ("--features", "envelope"), sidecar=()),
    "sidecar that does not append": Way(in_full, sidecar=("--append", "off")),
    "sidecar before a plain server": Way(in_full, ("--features", ""), sidecar=()),
}


def chain(send: Send) -> tuple[list[Item], list[Item]]:
    """History without the last answer, and all answers, of a first turn and `DELTAS` that go on from it."""
    history: list[Item] = []
    answers: list[Item] = []
    new, previous = [_user(0)], None
    while True:
        history += new
        answers.append(send(Turn(history, new, previous)))
        if len(answers) > DELTAS:
            return history, answers
        history += answers[-1]["output"]
        new, previous = _following(len(answers), answers[-1]), answers[-1]["id"]


def _posted(base_url: str, **members: Any) -> Item:
    answer = http.post(f"{base_url}/responses", json.dumps(BODY | members).encode())
    assert answer.status == 200, answer.body
    response: Item = answer.json()
    return response


def _user(number: int) -> Item:
    return {"role": "user", "content": f"Question {number}: “weiter”, s'il vous plaît 🙂"}


def _following(number: int, response: Item) -> list[Item]:
    """Outputs of what the answer calls, of many sizes; the next question where it calls nothing."""
    calls = [item for item in response["output"] if item["type"].endswith("_call")]
    text = f"{number}: " + 'line \\ of "output"\n' * (number * 7 % 40)
    parts = [{"type": "input_text", "text": text}]
    return [
        {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": parts if number % 3 else text}
        for call in calls
    ] or [_user(number)]


def _compared(answers: list[Item]) -> Any:
    """What has to be the same: what was answered, and the tokens of what was read and written."""
    tokens = ("input_tokens", "output_tokens", "total_tokens")
    return comparable(
        [{"output": one["output"], **{name: one["usage"][name] for name in tokens}} for one in answers],
    )


@pytest.fixture(scope="module")
def plain(start: Start) -> list[Item]:
    """Answers to full requests over plain HTTP."""
    with in_full(_server(start).base_url) as send:
        return chain(send)[1]


def _server(start: Start, *options: str) -> Server:
    return Server(start, "--parallel-calls", "on", *options, tool_turns=CALLS)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_chain_of_200_deltas_has_the_context_tokens_and_answers_of_full_requests(
    way: Way, start: Start, plain: list[Item]
) -> None:
    base_url = _server(start, *way.server).base_url
    sidecar = Sidecar(start, base_url, *way.sidecar) if way.sidecar is not None else None
    with way.send(sidecar.base_url if sidecar else base_url) as send:
        history, answers = chain(send)
    with in_full(base_url) as send:
        alone = send(Turn(history, history))

    assert len(answers) == DELTAS + 1
    assert _compared(answers) == _compared(plain)
    assert _compared([alone]) == _compared(answers[-1:])
    assert "the digest of the context is" in alone["output"][-1]["content"][0]["text"]
    if sidecar:
        assert sidecar.metric("deltawire_turns_total", transport="delta") == DELTAS
