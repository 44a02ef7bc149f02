from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import fakeredis
import pytest

from state.redis_guard import Connected, RedisGuard
from tests.support.stores import ENOUGH, Clock, Silent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.redis import RedisServer


class _Rig:
    def __init__(self, url: str, *, fake: bool = False, timeout: float = ENOUGH) -> None:
        self.errors: list[str] = []
        self.clock = Clock()
        server = fakeredis.FakeServer()
        self.guard = RedisGuard(
            url,
            on_error=self.errors.append,
            timeout=timeout,
            clock=self.clock,
            connect=(lambda *_: Connected(fakeredis.FakeAsyncRedis(server=server))) if fake else None,
        )


async def test_commands_are_answered_in_their_order() -> None:
    rig = _Rig("redis://unused", fake=True)

    assert await rig.guard.run("write", [("SET", "a", b"1"), ("GET", "a"), ("GET", "b")]) == [True, b"1", None]
    await rig.guard.close()
    assert rig.errors == []


@pytest.mark.redis
async def test_after_trouble_redis_is_left_alone_and_then_asked_again(fresh_redis: RedisServer) -> None:
    rig = _Rig(fresh_redis.url)
    assert await rig.guard.run("write", [("SET", "a", b"1")]) is not None
    fresh_redis.stop()
    assert await rig.guard.run("write", [("SET", "a", b"1")]) is None
    assert await rig.guard.run("read", [("GET", "a")]) is None
    assert rig.errors == ["write"]
    fresh_redis.start()
    assert await rig.guard.run("read", [("GET", "a")]) is None
    rig.clock.now += 6
    assert await rig.guard.run("read", [("PING",)]) is not None
    await rig.guard.close()


@pytest.fixture
async def silent() -> AsyncIterator[Silent]:
    state = Silent()
    server = await asyncio.start_server(state.serve, "127.0.0.1", 0)
    state.port = server.sockets[0].getsockname()[1]
    yield state
    state.answers.set()
    server.close()
    await server.wait_closed()


async def test_a_server_that_does_not_answer_costs_one_deadline(silent: Silent) -> None:
    rig = _Rig(f"redis://127.0.0.1:{silent.port}", timeout=0.05)

    assert await asyncio.wait_for(rig.guard.run("read", [("GET", "a")]), ENOUGH) is None
    assert rig.errors == ["connect"]
    await rig.guard.close()


def test_where_it_is_is_shown_without_its_password() -> None:
    assert str(RedisGuard("redis://u:secret@h:1/2", on_error=print)) == "redis://h:1/2"
    with pytest.raises(ValueError, match="a state URL starts with"):
        RedisGuard("http://h", on_error=print)
