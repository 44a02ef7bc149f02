"""Every event, frame, answer and error of the server against models that nobody here wrote: those of Open Responses.

All kinds of answers are asked for, over HTTP and over a WebSocket, by either dialect. What does not fit is written down
below with its reason, and has to be exactly that.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from openai.types.responses.responses_server_event import ResponsesServerEvent
from openresponses_types import types as published
from pydantic import BaseModel, TypeAdapter, ValidationError

from tests.e2e.agent import SHELL
from tests.upstream.helpers import TERMINAL, WEATHER, outputs, post, serving
from wire.sse import Parser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

Event = dict[str, Any]
Socket = aiohttp.ClientWebSocketResponse[bool]


class HttpError(BaseModel):
    """The body of an error; of its own Open Responses publishes the inner part."""

    error: published.ErrorPayload


MODELS: dict[str, type[BaseModel]] = {
    next(iter(kind)).value: model
    for name, model in vars(published).items()
    if name.endswith("StreamingEvent") and (kind := model.model_fields["type"].annotation) is not None
}
MODELS["error"] = published.WebSocketErrorEvent  # the shape that both transports' errors are compared in here
OPENAI: TypeAdapter[Any] = TypeAdapter(ResponsesServerEvent)
NOTE = {"type": "custom", "name": "read_note", "description": "Reads a note."}
ANSWER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
LONG = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "one two three four " * 400}]
FLAGGED = "deltawire-screening-test-phrase"

SCENARIOS: dict[str, Event] = {
    "text": {"model": "sim", "input": "hi"},
    "reasoning": {"input": "hi", "reasoning": {"effort": "low", "summary": "auto"}},
    "sealed reasoning": {"input": "hi", "include": ["reasoning.encrypted_content"]},
    "call": {"input": "hi", "tools": [WEATHER]},
    "parallel calls": {"input": "hi", "tools": [WEATHER, SHELL]},
    "custom call": {"input": "hi", "tools": [NOTE]},
    "structured output": {
        "input": "hi",
        "text": {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": ANSWER}},
    },
    "incomplete": {"model": "sim", "input": "hi", "max_output_tokens": 3},
    "incomplete reasoning": {"input": "hi", "max_output_tokens": 1},
    "image": {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}]
    },
    "everything told": {
        "input": "hi",
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "top_p": 0.5,
        "truncation": "auto",
        "safety_identifier": "me",
        "prompt_cache_key": "it",
        "service_tier": "auto",
        "tool_choice": "none",
        "tools": [WEATHER],
        "parallel_tool_calls": False,
        "store": True,
    },
    "compaction": {
        "input": [*LONG, {"role": "user", "content": "And now?"}],
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    },
    "background": {"input": "hi", "background": True, "store": True},
    "warm-up": {"input": "hi", "generate": False},
    "lane": {"input": "hi", "stream_id": "side"},
    "failed": {"model": "breaks", "input": "hi"},
    "model refuses": {"model": "refuses", "input": "hi"},
    "screened": {"model": "refuses", "input": FLAGGED},
    "unknown parent": {"input": "hi", "previous_response_id": "resp_nobody"},
    "no input": {},
    "bad member": {"input": "hi", "temperature": "hot"},
    "orphan": {"input": [{"type": "function_call_output", "call_id": "call_nobody", "output": "x"}]},
}
"""Requests; the model is a reasoning one where none is named."""

ENDS = {
    "incomplete": "response.incomplete",
    "incomplete reasoning": "response.incomplete",
    "failed": "response.failed",
    **dict.fromkeys(("screened", "unknown parent", "no input", "bad member", "orphan"), "error"),
}
"""What ends an answer that is not completed."""

NO_CUSTOM_TOOLS = "Open Responses has neither custom tools nor their events; OpenAI's models do"
NO_EVENT = "an event of OpenAI's that Open Responses does not have"
NO_SCHEMA = "the published model of an answer wants the schema of its format to be null"
NULL_CODE = "the API has errors without a code; the dialect `open-responses` gives each one, as that asks"

_RESPONSE = {"response.created", "response.in_progress", "response.completed"}
_ITEM = {"response.output_item.added", "response.output_item.done"}
_INPUT = {"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"}
EXCEPTIONS = {
    "custom call": (_RESPONSE | _ITEM | _INPUT, NO_CUSTOM_TOOLS),
    "structured output": (_RESPONSE, NO_SCHEMA),
    "compaction": ({"response.compaction.compacting"}, NO_EVENT),
}
"""By scenario: the types of events that do not fit, and why. All of them fit OpenAI's own models."""
EXCEPTIONS_OF_FRAMES = {"openai": {"orphan": ({"error"}, NULL_CODE)}, "open-responses": {}}
"""The same by dialect, for frames only."""
NEVER_SENT = {
    **dict.fromkeys(("response.refusal.delta", "response.refusal.done"), "a refusal is text, whichever engine refuses"),
    **dict.fromkeys(
        ("response.reasoning.delta", "response.reasoning.done"), "reasoning is sealed; its summary is told"
    ),
    "response.output_text.annotation.added": "no tool of the server's own has anything to annotate",
}
"""Events with a model that the server has no occasion to send, and why."""


async def _engine(request: web.Request) -> web.StreamResponse:
    """An endpoint whose model refuses, or breaks off, by its name."""
    name = (await request.json())["model"]
    delta = {"refusal": "I would rather not."} if name == "refuses" else {"content": "I was"}
    reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await reply.prepare(request)
    finish = "stop" if name == "refuses" else None
    await reply.write(b"data: %b\n\n" % json.dumps({"choices": [{"delta": delta, "finish_reason": finish}]}).encode())
    return reply


@asynccontextmanager
async def _endpoint() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", _engine)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


class Servers:
    """Two servers of one dialect: the simulated agent; and with screens, before an engine that refuses and breaks."""

    def __init__(self, agent: str, engine: str, http: aiohttp.ClientSession) -> None:
        self.agent, self._engine, self.http = agent, engine, http

    def at(self, body: Event) -> str:
        return self._engine if body.get("model") in {"breaks", "refuses"} else self.agent


@pytest.fixture(params=["openai", "open-responses"])
async def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def servers(dialect: str) -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        engine = f"chat:{await stack.enter_async_context(_endpoint())}"
        shared: dict[str, Any] = {"dialect": dialect, "drain_seconds": 1.0}
        agent = await stack.enter_async_context(serving(parallel_calls="on", **shared))
        other = await stack.enter_async_context(serving(engine=engine, screen="on", **shared))
        yield Servers(agent.url, other.url, http)


def misfits(events: list[Event]) -> set[str]:
    """Types of the events that do not fit their model, or have none."""
    return {event["type"] for event in events if (model := MODELS.get(event["type"])) is None or not fits(model, event)}


def fits(model: type[BaseModel], value: object) -> bool:
    try:
        model.model_validate(value)
    except ValidationError:
        return False
    return True


async def over_sse(servers: Servers, body: Event) -> list[Event]:
    """Events of a stream; an error that comes instead of one, as the only event."""
    async with servers.http.post(f"{servers.at(body)}/v1/responses", json=body | {"stream": True}) as answer:
        if answer.status != 200:
            error = await answer.json()
            assert fits(HttpError, error), error
            return [{"type": "error", "status": answer.status, "error": error["error"] | {"code": "fits"}}]
        raw = await answer.text()
    return _events(raw)


def _events(raw: str) -> list[Event]:
    return [json.loads(event.data) for event in Parser().feed(raw.encode()) if event.data != b"[DONE]"]


async def over_socket(servers: Servers, body: Event) -> list[Event]:
    async with servers.http.ws_connect(f"{servers.at(body)}/v1/responses") as socket:
        await socket.send_str(json.dumps({"type": "response.create"} | body))
        return await _answer(socket)


async def _answer(socket: Socket) -> list[Event]:
    events: list[Event] = []
    while not events or events[-1]["type"] not in TERMINAL:
        events.append(await socket.receive_json(timeout=30))
    return events


@pytest.mark.parametrize("ask", [over_sse, over_socket])
async def test_every_event_of_every_kind_of_answer_fits_but_for_the_written_exceptions(
    servers: Servers, dialect: str, ask: Callable[[Servers, Event], Awaitable[list[Event]]]
) -> None:
    frames = ask is over_socket
    ends = ENDS | ({"background": "error"} if frames else {"lane": "error"})
    if dialect == "open-responses":
        ends["lane"] = "error"
    excepted = EXCEPTIONS | (EXCEPTIONS_OF_FRAMES[dialect] if frames else {})
    seen: set[str] = set()
    for name, body in SCENARIOS.items():
        events = await ask(servers, {"model": "gpt-5.5"} | body)
        assert events[-1]["type"] == ends.get(name, "response.completed"), (name, events[-1])
        assert misfits(events) == excepted.get(name, (set(), ""))[0], name
        for event in events:
            OPENAI.validate_python(event, strict=False)
        seen |= {event["type"] for event in events}
    assert MODELS.keys() - seen == NEVER_SENT.keys() | ({"response.queued"} if frames else set())


async def test_whatever_is_answered_as_json_fits(servers: Servers) -> None:
    for name, body in SCENARIOS.items():
        status, answer = await post(servers.http, servers.at(body), **({"model": "gpt-5.5"} | body))
        wanted = 400 if ENDS.get(name) == "error" or name == "lane" else 200
        assert status == wanted, (name, answer)
        model = published.ResponseResource if status == 200 else HttpError
        assert fits(model, answer) != (name in {"custom call", "structured output"}), (name, answer)


async def test_a_continuation_a_compacted_conversation_and_a_stream_had_again_fit(servers: Servers) -> None:
    base = f"{servers.agent}/v1/responses"
    first = await over_sse(servers, {"model": "gpt-5.5", "input": "hi", "tools": [WEATHER, SHELL]})
    called = first[-1]["response"]
    more = {"model": "gpt-5.5", "previous_response_id": called["id"], "input": outputs(called), "tools": [WEATHER]}
    async with servers.http.post(f"{base}/compact", json={"model": "gpt-5.5", "input": LONG}) as answer:
        compacted = await answer.json()
    assert fits(published.CompactResource, compacted)
    later = await over_sse(servers, {"model": "gpt-5.5", "input": compacted["output"]})
    queued = await over_sse(servers, SCENARIOS["background"] | {"model": "sim"})
    async with servers.http.get(f"{base}/{queued[0]['response']['id']}", params={"stream": "true"}) as answer:
        again = _events(await answer.text())
    assert again == queued
    async with servers.http.get(f"{base}/{called['id']}") as answer:
        assert fits(published.ResponseResource, await answer.json())

    for events in (first, await over_sse(servers, more), await over_socket(servers, more), later, again):
        assert events[-1]["type"] == "response.completed"
        assert not misfits(events)


@pytest.mark.parametrize("said", ["", "{", "[]", '{"type":"response.steer"}', b"\0", '{"type":"response.create"}'])
async def test_an_error_frame_for_what_is_no_turn_fits(servers: Servers, dialect: str, said: str | bytes) -> None:
    async with servers.http.ws_connect(f"{servers.agent}/v1/responses") as socket:
        await (socket.send_bytes(said) if isinstance(said, bytes) else socket.send_str(said))
        (error,) = await _answer(socket)
    OPENAI.validate_python(error, strict=False)
    if dialect == "openai":  # which has errors without a code
        error["error"]["code"] = error["error"]["code"] or "none"
    assert not misfits([error])


async def test_the_frame_that_ends_a_connection_by_its_age_fits(dialect: str) -> None:
    async with (
        serving(dialect=dialect, connection_max_age=0.05) as server,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{server.url}/v1/responses") as socket,
    ):
        (error,) = await _answer(socket)
    assert error["error"]["code"] == "websocket_connection_limit_reached"
    assert not misfits([error])
