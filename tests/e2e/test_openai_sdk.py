"""The OpenAI Python SDK in an agent loop, through the sidecar and directly: the same answers, sent as deltas."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.e2e.agent import DELTA, FIRST_TURN, Agent
from tests.e2e.compare import comparable
from tests.e2e.sidecar import TOOL_TURNS

if TYPE_CHECKING:
    from tests.e2e.sidecar import Server, Sidecar

ENVELOPES: dict[str, dict[str, Any]] = {
    "default": {},
    "stored": {"store": True},
    "not stored": {"store": False, "include": ["reasoning.encrypted_content"]},
}
QUESTIONS = ("Say what is in notes.txt — “be brief”.", "And now once more, please.")
SIDE_BY_SIDE = 6
TURNS = len(QUESTIONS) * (TOOL_TURNS + 1)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("envelope", ENVELOPES)
def test_an_agent_loop_is_answered_as_directly_and_every_turn_but_the_first_is_a_delta(
    envelope: str, *, stream: bool, server: Server, sidecar: Sidecar
) -> None:
    through, directly = (
        Agent(url, stream=stream, **ENVELOPES[envelope]) for url in (sidecar.base_url, server.base_url)
    )
    for agent in (through, directly):
        for question in QUESTIONS:
            agent.ask(f"{question} ({envelope}, {stream})")
    assert through.transports == [FIRST_TURN] + [DELTA] * (TURNS - 1)
    assert directly.transports == [(None, None)] * TURNS
    assert comparable(through.answers) == comparable(directly.answers)


def test_branches_of_one_history_are_each_answered_by_their_own_past(server: Server, sidecar: Sidecar) -> None:
    answers: list[Any] = []
    for base_url in (sidecar.base_url, server.base_url):
        trunk = Agent(base_url, tools=[])
        trunk.ask("Name a colour.")
        branches = []
        for word in ("left", "right", "left again"):
            branch = copy.deepcopy(trunk)
            branch.ask(word)
            branches.append(branch)
        for branch in reversed(branches):
            branch.ask("and on")
        answers.append([comparable(branch.answers) for branch in branches])
    assert answers[0] == answers[1]
    assert answers[0][0] != answers[0][1]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_agents_side_by_side_never_see_each_other_and_each_goes_on_by_deltas(
    *, stream: bool, server: Server, sidecar: Sidecar
) -> None:
    def work(url: str, number: int) -> Agent:
        agent = Agent(url, stream=stream)
        agent.ask(f"I am agent {number % 3} ({stream}).")  # there are two of each
        return agent

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        through = list(pool.map(work, repeat(sidecar.base_url), range(SIDE_BY_SIDE)))
    directly = [work(server.base_url, number) for number in range(SIDE_BY_SIDE)]
    for ours, theirs in zip(through, directly, strict=True):
        assert ours.transports[0][0] == "full"
        assert ours.transports[1:] == [DELTA] * (len(ours.transports) - 1)
        assert comparable(ours.answers) == comparable(theirs.answers)


def test_an_error_of_the_server_reaches_the_sdk_as_it_is(server: Server, sidecar: Sidecar) -> None:
    errors = []
    for base_url in (server.base_url, sidecar.base_url):
        agent = Agent(base_url, previous_response_id="resp_nobody")
        with pytest.raises(openai.APIStatusError) as caught:
            agent.ask("hello")
        errors.append((type(caught.value), caught.value.status_code, caught.value.body))
    assert errors[0] == errors[1]
