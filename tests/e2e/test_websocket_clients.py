"""WebSocket clients that others wrote, at work on the shipped server itself: the OpenAI SDK's and that of its agents."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import agents
import openai
import pytest
from agents import Agent, ModelSettings, Runner
from agents.models.openai_responses import OpenAIResponsesModel, OpenAIResponsesWSModel, ResponsesWebSocketError
from openai import AsyncOpenAI, OpenAI
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.e2e import tools
from tests.e2e.agent import SHELL
from tests.e2e.agent import Agent as HttpAgent
from tests.e2e.sidecar import Server
from tests.support.relay import Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from openai.resources.responses.responses import ResponsesConnection

    from tests.e2e.sidecar import Start

CALLS = 12
FEW = 2
AGE = "1s"
LIMIT = "websocket_connection_limit_reached"
NOT_FOUND = "previous_response_not_found"
ECHOED = [f"deltawire {number}\n" for number in range(1, CALLS + 1)]
QUESTION = "Say hello a few times."
MODEL = "gpt-5.2"
SERVERS = [pytest.param("server", 1, id="one by one"), pytest.param("pairs", 2, id="in pairs")]
"""Which server, and the calls in one of its answers."""
SEALED: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
"""Nothing is stored, and a client can send back the reasoning that it was given."""
DONE = re.compile(r"Done after (\d+) tool results?\. I was shown (\d+) items; the digest of the context is (\w+)\.")


@pytest.fixture(scope="module")
def server(start: Start) -> Server:
    return Server(start, tool_turns=CALLS)


@pytest.fixture(scope="module")
def pairs(start: Start) -> Server:
    """A server whose answers call two tools at once."""
    return Server(start, "--parallel-calls", "on", tool_turns=CALLS)


@pytest.fixture(scope="module")
def brief(start: Start) -> Server:
    """A server whose connections are soon too old."""
    return Server(start, "--connection-max-age", AGE, tool_turns=FEW)


def turns_of(server: Server) -> list[dict[str, Any]]:
    """What the server logged of its turns."""
    return [record for record in server.command.records() if record["event"] == "turn"]


# The OpenAI SDK


class Refused(Exception):
    """An `error` event, as the SDK hands it over."""


class WsAgent:
    """An agent on `client.responses.connect()`: it sends what is new, and all of it on a new connection."""

    def __init__(self, connection: ResponsesConnection, **members: Any) -> None:
        self._body = {"model": MODEL, "instructions": "Use the tools.", "tools": [SHELL], **SEALED, **members}
        self.connection = connection
        self.history: list[Any] = [{"role": "user", "content": QUESTION}]
        self.known = 0
        """Items of the history that the server has: of the response `parent`."""
        self.parent: str | None = None
        self.called = 0
        """Items of the history whose calls were run."""
        self.ran: list[str] = []

    def work(self) -> str:
        """Turns until no tool is called any more; the answer."""
        while True:
            response = self.turn()
            self.answer_calls()
            if self.known == len(self.history):
                return str(response.output_text)

    def answer_calls(self) -> None:
        """Run the tools that the last answer calls."""
        for call in [item for item in self.history[self.called :] if item.get("type") == "function_call"]:
            printed = tools.run(json.loads(call["arguments"])["command"])
            self.ran.append(printed)
            self.history.append({"type": "function_call_output", "call_id": call["call_id"], "output": printed})
        self.called = len(self.history)

    def turn(self) -> Any:
        create: Any = self.connection.response.create
        more = {} if self.parent is None else {"previous_response_id": self.parent}
        create(**self._body, input=self.history[self.known :], **more)
        response = answer(self.connection)
        self.history += [item.to_dict() for item in response.output]
        self.known, self.parent = len(self.history), response.id
        return response

    def move(self, connection: ResponsesConnection) -> None:
        """Go on elsewhere, where nothing of the conversation is known."""
        self.connection, self.known, self.parent = connection, 0, None


def answer(connection: ResponsesConnection) -> Any:
    """The response of the next terminal event."""
    while True:
        event: Any = connection.recv()
        if event.type == "error":
            raise Refused(event)
        if event.type in {"response.completed", "response.incomplete", "response.failed"}:
            assert event.type == "response.completed", event
            return event.response


def _sdk(base_url: str) -> OpenAI:
    return OpenAI(base_url=base_url, api_key="sk-test", max_retries=0, timeout=60)


@pytest.fixture
def sdk(server: Server) -> Iterator[OpenAI]:
    with _sdk(server.base_url) as client:
        yield client


def stateless(base_url: str) -> tuple[list[Any], str]:
    """History and answer of the same loop over plain HTTP, all items each turn."""
    agent = HttpAgent(base_url, **SEALED)
    agent.say(QUESTION)
    while True:
        before = len(agent.history)
        more = agent.turn()
        for item in agent.history[before:]:
            if isinstance(item, dict):  # the output of a call, which this agent only makes up
                call = next(one for one in agent.history[before:] if getattr(one, "call_id", None) == item["call_id"])
                item["output"] = tools.run(json.loads(call.arguments)["command"])
        if not more:
            return agent.history, agent.history[-1].content[0].text


@pytest.mark.parametrize(("kind", "at_once"), SERVERS)
def test_an_agent_loop_of_the_sdk_continues_by_id_on_one_socket_and_ends_as_over_http(
    kind: str, at_once: int, request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(kind)
    known = len(turns_of(server))
    with Relay(server.base_url) as relay, _sdk(relay.url) as client, client.responses.connect() as connection:
        agent = WsAgent(connection)
        text = agent.work()
        connections = relay.connections
    turns = turns_of(server)[known:]
    history, directly = stateless(server.base_url)

    assert connections == 1
    assert [turn["continued"] for turn in turns] == [False] + [True] * (CALLS // at_once)

    assert agent.ran == ECHOED
    assert len(agent.history) == len(history)
    assert text == directly
    assert DONE.fullmatch(text)


def test_the_sdk_goes_on_in_a_new_connection_when_the_server_says_that_the_old_one_is_too_old(brief: Server) -> None:
    with _sdk(brief.base_url) as client:
        with client.responses.connect() as old:
            agent = WsAgent(old)
            agent.turn()
            agent.answer_calls()
            with pytest.raises(Refused) as told:
                answer(old)  # nothing is asked: what comes is the server's own word
            with pytest.raises(ConnectionClosed) as closed:
                old.recv()
        with client.responses.connect() as new:
            with pytest.raises(Refused) as forgotten:  # what is not stored ends with its connection
                WsAgent(new, previous_response_id=agent.parent).turn()
            agent.move(new)
            text = agent.work()

    assert told.value.args[0].error.code == LIMIT
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
    assert forgotten.value.args[0].error.code == NOT_FOUND
    assert agent.ran == ECHOED[:FEW]
    assert text.startswith(f"Done after {FEW} tool results")


def test_a_stored_response_continues_by_id_on_another_connection_of_the_sdk(sdk: OpenAI) -> None:
    with sdk.responses.connect() as connection:
        agent = WsAgent(connection, store=True)
        agent.turn()
        agent.answer_calls()
    with sdk.responses.connect() as connection:
        agent.connection = connection
        assert DONE.fullmatch(agent.work())
    assert agent.ran == ECHOED


def test_an_error_is_an_event_for_the_sdk_with_status_and_code_and_its_connection_serves_on(sdk: OpenAI) -> None:
    with sdk.responses.connect() as connection:
        with pytest.raises(Refused) as caught:
            WsAgent(connection, previous_response_id="resp_nobody").turn()
        event = caught.value.args[0]
        assert (event.type, event.status, event.error.code) == ("error", 400, NOT_FOUND)
        assert event.error.param == "previous_response_id"
        assert WsAgent(connection).turn().status == "completed"


def test_an_error_that_nobody_handles_is_raised_by_the_dispatcher_of_the_sdk(sdk: OpenAI) -> None:
    with sdk.responses.connect() as connection:
        connection.response.create(model="", input="hi")
        with pytest.raises(openai.OpenAIError, match="model"):
            connection.dispatch_events()


async def test_a_wrong_key_is_a_handshake_that_fails_with_401(start: Start, tmp_path: Any) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text('{"keys": []}')
    server = Server(start, "--keys", str(keys))
    async with AsyncOpenAI(base_url=server.base_url, api_key="sk-wrong", max_retries=0) as client:
        with pytest.raises(InvalidStatus) as refused:
            await client.responses.connect().enter()
    assert refused.value.response.status_code == 401


# The model of openai-agents


@pytest.fixture(autouse=True)
def _no_tracing() -> None:
    agents.set_tracing_disabled(disabled=True)


class Shell:
    """The shell as a tool of an agent. Where it has a model to wait for, it runs until that has lost its connection."""

    def __init__(self, outlives: OpenAIResponsesWSModel | None = None) -> None:
        self.ran: list[str] = []
        self._outlives = outlives
        self.tool = agents.function_tool(self._run, name_override="shell", description_override="Run a shell command.")

    async def _run(self, command: str) -> str:
        if self._outlives is not None and self._outlives._ws_connection is not None:
            await self._outlives._ws_connection.wait_closed()
        printed = tools.run(command)
        self.ran.append(printed)
        return printed


@asynccontextmanager
async def model_at(base_url: str) -> AsyncIterator[OpenAIResponsesWSModel]:
    async with AsyncOpenAI(base_url=base_url, api_key="sk-test", max_retries=0) as client:
        model = OpenAIResponsesWSModel(MODEL, client)
        try:
            yield model
        finally:
            await model.close()


def agent_of(model: agents.Model, shell: Shell, **settings: Any) -> Agent[None]:
    chosen = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])
    return Agent(
        name="here",
        instructions="Use the tools.",
        model=model,
        tools=[shell.tool],
        model_settings=chosen.resolve(ModelSettings(**settings)),
    )


@pytest.mark.parametrize(("kind", "at_once"), SERVERS)
async def test_an_agent_runs_its_tools_over_one_socket_each_turn_continuing_the_last_by_id(
    kind: str, at_once: int, request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(kind)
    known = len(turns_of(server))
    shell = Shell()
    with Relay(server.base_url) as relay:
        async with model_at(relay.url) as model:
            agent = agent_of(model, shell)
            result = await Runner.run(agent, QUESTION, max_turns=CALLS + 1, auto_previous_response_id=True)
        connections = relay.connections
    turns = turns_of(server)[known:]

    assert sorted(shell.ran, key=_number) == ECHOED  # what is called at once may end in any order
    assert DONE.fullmatch(result.final_output)
    assert connections == 1
    assert {turn["transport"] for turn in turns} == {"websocket"}
    assert [turn["continued"] for turn in turns] == [False] + [True] * (CALLS // at_once)
    new = [turn["input_tokens"] - turn["cached_tokens"] for turn in turns]
    assert max(new[1:]) - min(new[1:]) < 10, "what is new is the same each turn, but for the digits of a number"


async def test_the_same_agent_is_answered_the_same_whether_it_continues_or_sends_everything_again_or_uses_http(
    server: Server,
) -> None:
    answers = []
    async with model_at(server.base_url) as model, AsyncOpenAI(base_url=server.base_url, api_key="sk-test") as client:
        for one, by_id in ((model, True), (model, False), (OpenAIResponsesModel(MODEL, client), False)):
            shell = Shell()
            streamed = Runner.run_streamed(
                agent_of(one, shell), QUESTION, max_turns=CALLS + 1, auto_previous_response_id=by_id
            )
            kinds = [event.type async for event in streamed.stream_events()]
            assert kinds.count("run_item_stream_event") > CALLS
            assert shell.ran == ECHOED
            answers.append(streamed.final_output)
    assert len(set(answers)) == 1
    assert DONE.fullmatch(answers[0])


async def test_an_agent_whose_tools_outlive_the_connection_goes_on_by_id_on_the_next_one(brief: Server) -> None:
    known = len(turns_of(brief))
    with Relay(brief.base_url) as relay:
        async with model_at(relay.url) as model:
            shell = Shell(outlives=model)
            agent = agent_of(model, shell, store=True)
            result = await Runner.run(agent, QUESTION, auto_previous_response_id=True)
        connections = relay.connections

    assert shell.ran == ECHOED[:FEW]
    assert result.final_output.startswith(f"Done after {FEW} tool results")
    assert [turn["continued"] for turn in turns_of(brief)[known:]] == [False] + [True] * FEW
    assert connections == FEW + 1


async def test_an_agent_that_loses_what_is_not_stored_is_shown_the_code_and_starts_anew_on_the_same_model(
    brief: Server,
) -> None:
    async with model_at(brief.base_url) as model:
        shell = Shell(outlives=model)
        with pytest.raises(ResponsesWebSocketError) as caught:
            await Runner.run(agent_of(model, shell), QUESTION, auto_previous_response_id=True)
        again = await Runner.run(agent_of(model, shell), QUESTION)  # sends everything each turn

    assert (caught.value.code, caught.value.error_type) == (NOT_FOUND, "invalid_request_error")
    assert caught.value.payload["status"] == 400
    assert shell.ran == ECHOED[:1] + ECHOED[:FEW]
    assert again.final_output.startswith(f"Done after {FEW} tool results")


async def test_an_agent_whose_answer_is_cut_is_told_that_it_is_incomplete(server: Server) -> None:
    async with model_at(server.base_url) as model:
        with pytest.raises(agents.ModelBehaviorError, match="incomplete"):
            await Runner.run(agent_of(model, Shell(), max_tokens=1), QUESTION)


def _number(printed: str) -> int:
    return int(printed.split()[1])
