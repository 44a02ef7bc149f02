"""A sidecar that goes and comes back between two turns, one beside it, and a Redis that fails under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent import DELTA, FIRST_TURN, Agent
from tests.e2e.compare import comparable
from tests.e2e.sidecar import TOOL_TURNS, Sidecar

if TYPE_CHECKING:
    from tests.e2e.sidecar import Server, Start
    from tests.support.redis import RedisServer

SECRET = "0123456789abcdef" * 4


def _shared(redis: RedisServer) -> tuple[str, ...]:
    return ("--state", redis.url, "--secret", SECRET)


def _directly(server: Server, *questions: str) -> object:
    agent = Agent(server.base_url, store=True)
    for question in questions:
        agent.ask(question)
    return comparable(agent.answers)


def test_without_redis_a_restarted_sidecar_sends_in_full_and_is_right(start: Start, server: Server) -> None:
    first = Sidecar(start, server.base_url)
    agent = Agent(first.base_url, store=True)
    agent.ask("one")
    assert first.command.stop() == 0
    agent.point_to(Sidecar(start, server.base_url).base_url)
    agent.ask("two")
    again = TOOL_TURNS + 1
    assert agent.transports[again] == ("full", "unknown_head")
    assert agent.transports[again + 1 :] == [DELTA] * TOOL_TURNS
    assert comparable(agent.answers) == _directly(server, "one", "two")


@pytest.mark.redis
def test_with_redis_a_restarted_sidecar_continues_by_deltas(
    start: Start, server: Server, fresh_redis: RedisServer
) -> None:
    first = Sidecar(start, server.base_url, *_shared(fresh_redis))
    agent = Agent(first.base_url, store=True)
    agent.ask("one")
    assert first.command.stop() == 0
    second = Sidecar(start, server.base_url, *_shared(fresh_redis))
    agent.point_to(second.base_url)
    agent.ask("two")
    assert agent.transports == [FIRST_TURN] + [DELTA] * (2 * TOOL_TURNS + 1)
    assert all(turn["proved"] for turn in second.turns())
    assert comparable(agent.answers) == _directly(server, "one", "two")


@pytest.mark.redis
def test_a_killed_sidecar_loses_nothing_that_redis_holds(
    start: Start, server: Server, fresh_redis: RedisServer
) -> None:
    first = Sidecar(start, server.base_url, *_shared(fresh_redis))
    agent = Agent(first.base_url, store=True)
    agent.say("one")
    assert agent.turn()
    fresh_redis.wait_for_keys()  # no answer waits for Redis, so a kill at once could come first
    first.command.process.kill()
    first.command.process.wait()
    agent.point_to(Sidecar(start, server.base_url, *_shared(fresh_redis)).base_url)
    while agent.turn():
        pass
    assert agent.transports == [FIRST_TURN] + [DELTA] * TOOL_TURNS
    assert comparable(agent.answers) == _directly(server, "one")


@pytest.mark.redis
def test_a_second_sidecar_on_the_same_redis_continues_turn_by_turn(
    start: Start, server: Server, fresh_redis: RedisServer
) -> None:
    pair = [Sidecar(start, server.base_url, *_shared(fresh_redis)) for _ in range(2)]
    agent = Agent(pair[0].base_url, store=True)
    agent.say("one")
    number = 0
    while agent.turn():
        number += 1
        agent.point_to(pair[number % 2].base_url)
    assert agent.transports == [FIRST_TURN] + [DELTA] * TOOL_TURNS
    assert comparable(agent.answers) == _directly(server, "one")


@pytest.mark.redis
def test_another_secret_on_the_same_redis_finds_nothing_and_is_right(
    start: Start, server: Server, fresh_redis: RedisServer
) -> None:
    agent = Agent(Sidecar(start, server.base_url, *_shared(fresh_redis)).base_url, store=True)
    agent.ask("one")
    other = Sidecar(start, server.base_url, "--state", fresh_redis.url, "--secret", SECRET[::-1])
    agent.point_to(other.base_url)
    agent.ask("two")
    assert agent.transports[TOOL_TURNS + 1] == ("full", "unknown_head")
    assert comparable(agent.answers) == _directly(server, "one", "two")


@pytest.mark.redis
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_redis_that_stops_and_comes_back_never_fails_a_turn(
    start: Start, server: Server, fresh_redis: RedisServer, *, stream: bool
) -> None:
    sidecar = Sidecar(start, server.base_url, *_shared(fresh_redis))
    agent = Agent(sidecar.base_url, stream=stream, store=True)
    directly = Agent(server.base_url, stream=stream, store=True)
    agent.ask("one")
    fresh_redis.stop()
    agent.ask("two")
    fresh_redis.start()
    agent.ask("three")
    for question in ("one", "two", "three"):
        directly.ask(question)
    assert agent.transports[0] == FIRST_TURN
    assert agent.transports[1 : TOOL_TURNS + 1] == [DELTA] * TOOL_TURNS
    assert comparable(agent.answers) == comparable(directly.answers)
    assert sidecar.command.running


@pytest.mark.redis
def test_a_sidecar_starts_and_serves_while_its_redis_is_away(
    start: Start, server: Server, fresh_redis: RedisServer
) -> None:
    fresh_redis.stop()
    agent = Agent(Sidecar(start, server.base_url, *_shared(fresh_redis)).base_url, store=True)
    agent.ask("one")
    fresh_redis.start()
    agent.ask("two")
    assert comparable(agent.answers) == _directly(server, "one", "two")
