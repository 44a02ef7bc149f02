from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fakeredis
import pytest
from structlog.testing import capture_logs

from state.redis_guard import Connected, RedisGuard
from telemetry.server_metrics import ServerMetrics
from tests.telemetry.test_server_metrics import samples
from tests.upstream.helpers import items
from upstream.kept import library
from upstream.kept.library import Library
from upstream.kept.shelf import Shelf
from upstream.kept.store import Stored
from upstream.kept.vault import Vault
from upstream.stages.items import output_item
from upstream.stages.pipeline import EMPTY, extend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from state.redis_guard import Command
    from tests.support.redis import RedisServer
    from upstream.kept.stored_form import Turn

_ME, _YOU = b"m" * 16, b"y" * 16
_TTL = 600.0
_SECRET = "a secret of the tests"


class _Shared:
    """One Redis, and as many libraries on it as a test opens, each a process of its own."""

    def __init__(self, url: str = "") -> None:
        self._url, self._server = url or "redis://unused", None if url else fakeredis.FakeServer()
        self.metrics = ServerMetrics("1")
        self.opened: list[Library] = []

    def open(self, secret: str = _SECRET, ttl: float = _TTL) -> Library:
        fake: Any = None
        if self._server is not None:
            server = self._server
            fake = lambda *_: Connected(fakeredis.FakeAsyncRedis(server=server))  # noqa: E731 (one of two connectors)
        made = Library(self._url, vault=Vault(secret), ttl=ttl, metrics=self.metrics, connect=fake)
        self.opened.append(made)
        return made

    def written(self) -> list[bytes]:
        return [bytes(key) for key in self.raw().scan_iter()]

    async def failed(self) -> None:
        """An attempt to write has failed."""
        async with asyncio.timeout(20):
            while not samples(self.metrics, "settling_failures_total")["store",]:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)

    def raw(self) -> fakeredis.FakeStrictRedis:
        assert self._server is not None
        return fakeredis.FakeStrictRedis(server=self._server)


@pytest.fixture
async def shared() -> AsyncIterator[_Shared]:
    made = _Shared()
    yield made
    for one in made.opened:
        await one.close(10)


def _next(name: str, parent: Stored | None = None, owner: bytes = _ME) -> Stored:
    fresh = items(f"question {name}")
    written = output_item({"type": "message", "id": f"msg_{name}", "role": "assistant", "content": f"answer {name}"})
    context = extend(parent.context if parent is not None else EMPTY, [*fresh, written])
    told = b'{"id":"%b"}' % name.encode()
    return Stored(name, owner, parent.id if parent is not None else None, told, tuple(fresh), (written,), context)


def _chain(*names: str) -> list[Stored]:
    made: list[Stored] = []
    for name in names:
        made.append(_next(name, made[-1] if made else None))
    return made


def _takes(monkeypatch: pytest.MonkeyPatch, fits: Callable[[list[Command]], bool]) -> None:
    """A Redis that answers in time only what fits."""
    run = RedisGuard.run

    async def narrow(guard: RedisGuard, operation: str, commands: Iterable[Command]) -> list[Any] | None:
        asked = list(commands)
        return await run(guard, operation, asked) if fits(asked) else None

    monkeypatch.setattr(RedisGuard, "run", narrow)


async def _written(one: Library) -> None:
    """All that waits is in Redis."""
    async with asyncio.timeout(20):
        while len(one.writer):  # noqa: ASYNC110 (the writer tells nobody)
            await asyncio.sleep(0.005)


async def test_what_one_process_keeps_another_finds_with_its_whole_conversation(shared: _Shared) -> None:
    here, there = shared.open(), shared.open()
    made = _chain("a", "b", "c")
    for one in made:
        here.keep(one)
    await _written(here)

    for one in made:
        found = await there.find(one.id, _ME, EMPTY)
        assert found is not None
        assert (found.response, found.parent, found.input, found.output) == (
            one.response, one.parent, one.input, one.output,
        )  # fmt: skip
        assert found.context == one.context
    assert samples(shared.metrics, "store_reads_total") == {("absent",): 0, ("failed",): 0, ("found",): 3}


async def test_what_is_only_told_of_comes_without_its_conversation(shared: _Shared) -> None:
    here = shared.open()
    first, second = _chain("a", "b")
    for one in (first, second):
        here.keep(one)
    await _written(here)

    assert await here.told("b", _ME) == replace(second, context=EMPTY)
    assert await here.told("b", _YOU) is None
    here.forget("b", _ME)
    assert await here.told("b", _ME) is None


async def test_an_id_of_another_owner_is_one_that_nobody_has(shared: _Shared) -> None:
    here = shared.open()
    here.keep(_next("a"))
    await _written(here)

    assert await here.find("a", _YOU, EMPTY) is None
    assert await here.find("b", _ME, EMPTY) is None
    assert await here.items(["msg_a"], _YOU, EMPTY) == {}
    assert (await here.items(["msg_a", "msg_b"], _ME, EMPTY)).keys() == {"msg_a"}


async def test_a_turn_is_read_once_however_many_of_its_items_are_asked_for(
    shared: _Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = shared.open()
    named = [{"type": "message", "id": f"msg_{at}", "role": "user", "content": "x"} for at in range(40)]
    brought = tuple(items(*named))
    here.keep(replace(_next("a"), input=brought, context=extend(EMPTY, brought)))
    await _written(here)
    read, opened = Shelf.turn, list[str]()

    def counted(shelf: Shelf, key: str, value: bytes | None) -> Turn | None:
        opened.append(key)
        return read(shelf, key, value)

    monkeypatch.setattr(Shelf, "turn", counted)
    found = await here.items([f"msg_{at}" for at in range(40)], _ME, EMPTY)

    assert list(found.values()) == list(brought)
    assert len(opened) == 1


async def test_processes_that_take_turns_and_fork_keep_every_branch(shared: _Shared) -> None:
    here, there = shared.open(), shared.open()
    trunk = _next("0")
    here.keep(trunk)
    await _written(here)
    tips = [trunk]
    for number in range(1, 9):
        one = (here, there)[number % 2]
        found = await one.find(tips[-1].id, _ME, EMPTY)
        assert found is not None
        tips.append(_next(str(number), found))
        fork = _next(f"fork{number}", found)
        for made in (tips[-1], fork):
            one.keep(made)
        await _written(one)
        assert (await shared.open().find(fork.id, _ME, EMPTY)).context == fork.context  # type: ignore[union-attr]  # found, or it fails

    last = await shared.open().find(tips[-1].id, _ME, EMPTY)
    assert last is not None
    assert last.context == tips[-1].context
    assert len(last.context.items) == 18


async def test_without_the_secret_nothing_is_found_and_nothing_can_be_read(shared: _Shared) -> None:
    here = shared.open()
    here.keep(_next("a"))
    await _written(here)
    raw = shared.raw()
    told = repr([(key, raw.hgetall(key) if raw.type(key) == b"hash" else raw.get(key)) for key in shared.written()])

    assert len(told) > 500
    for text in ("question", "answer", "msg_a"):
        assert text not in told
    assert await shared.open("another secret").find("a", _ME, EMPTY) is None


async def test_everything_in_redis_has_an_end(shared: _Shared) -> None:
    here = shared.open(ttl=100.0)
    for one in _chain("a", "b"):
        here.keep(one)
    await _written(here)
    raw = shared.raw()

    assert len(shared.written()) == 5
    assert all(0 < raw.pttl(key) <= 100_000 for key in shared.written())


async def test_a_deleted_response_is_gone_at_once_with_its_items_and_its_turn(shared: _Shared) -> None:
    here, there = shared.open(), shared.open()
    here.keep(_next("a"))
    here.forget("a", _ME)
    assert await here.find("a", _ME, EMPTY) is None
    await _written(here)

    assert await there.find("a", _ME, EMPTY) is None
    assert await there.items(["msg_a"], _ME, EMPTY) == {}
    assert [key for key in shared.written() if b":item:" not in key] == []


async def test_what_a_continuation_needs_of_a_deleted_response_stays(shared: _Shared) -> None:
    here, there = shared.open(), shared.open()
    first, second = _chain("a", "b")
    here.keep(first)
    await _written(here)
    assert await there.find("a", _ME, EMPTY) is not None
    there.keep(_next("fork", first))
    await _written(there)
    here.keep(second)
    there.forget("a", _ME)
    await _written(here)
    await _written(there)

    assert await shared.open().find("a", _ME, EMPTY) is None
    for name in ("b", "fork"):
        assert await shared.open().find(name, _ME, EMPTY) is not None


async def test_a_log_that_redis_lost_is_written_again_in_full(shared: _Shared) -> None:
    here = shared.open()
    first, second, third = _chain("a", "b", "c")
    here.keep(first)
    await _written(here)
    shared.raw().flushall()
    here.keep(second)
    here.keep(third)
    await _written(here)
    await asyncio.sleep(0)
    await _written(here)

    for one in (second, third):
        found = await shared.open().find(one.id, _ME, EMPTY)
        assert found is not None
        assert list(found.context.items) == list(one.context.items)
    assert await shared.open().find("a", _ME, EMPTY) is None


async def test_a_conversation_with_a_turn_missing_is_not_there(shared: _Shared) -> None:
    here = shared.open()
    for one in _chain("a", "b"):
        here.keep(one)
    await _written(here)
    raw = shared.raw()
    (log,) = (key for key in shared.written() if b":log:" in key)
    raw.hdel(log, 0)

    assert await here.find("b", _ME, EMPTY) is None
    raw.hset(log, 0, b"nonsense")
    assert await here.find("b", _ME, EMPTY) is None


@pytest.mark.redis
async def test_while_redis_is_away_nothing_waits_and_what_was_kept_is_written_when_it_is_back(
    fresh_redis: RedisServer,
) -> None:
    shared = _Shared(fresh_redis.url)
    here = shared.open()
    fresh_redis.stop()
    first, second = _chain("a", "b")
    with capture_logs() as logs:
        here.keep(first)
        here.keep(second)
        await asyncio.wait_for(here.writer.room(), 20)
        assert await here.find("c", _ME, EMPTY) is None
        assert await here.items(["c"], _ME, EMPTY) == {}
        await shared.failed()
    fresh_redis.start()
    await _written(here)
    there = shared.open()
    found = await there.find("b", _ME, EMPTY)

    assert found is not None
    assert found.context == second.context
    assert samples(shared.metrics, "store_reads_total")["failed",] >= 1
    assert {"store_failed", "settling_failed"} <= {line["event"] for line in logs}
    assert [await one.close(10) for one in shared.opened] == [0, 0]


@pytest.mark.redis
async def test_what_redis_never_took_is_given_up_and_what_follows_is_whole(
    fresh_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_MOST", 2)
    shared = _Shared(fresh_redis.url)
    here = shared.open()
    fresh_redis.stop()
    made = _chain("a", "b", "c", "d", "e")
    here.keep(made[0])
    await shared.failed()
    for one in made[1:4]:
        here.keep(one)
    assert samples(shared.metrics, "settling_given_up_total")["store",] == 2
    fresh_redis.start()
    await _written(here)
    here.keep(made[4])
    await _written(here)
    found = await shared.open().find("e", _ME, EMPTY)

    assert found is not None
    assert list(found.context.items) == list(made[4].context.items)
    assert [await opened.close(10) for opened in shared.opened] == [0, 0]


async def test_more_commands_than_fit_into_one_exchange_are_written_in_several(
    shared: _Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    _takes(monkeypatch, lambda commands: len(commands) <= 1000)
    here = shared.open()
    brought = tuple(items(*({"type": "message", "id": f"m{at}", "role": "user", "content": "x"} for at in range(1100))))
    made = replace(_next("a"), input=brought)
    here.keep(made)
    await _written(here)

    assert await here.told("a", _ME) == replace(made, context=EMPTY)
    assert (await here.items(["m1099"], _ME, EMPTY)).keys() == {"m1099"}


async def test_a_response_too_large_for_redis_does_not_stop_those_after_it(
    shared: _Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    _takes(monkeypatch, lambda commands: all(len(str(part)) < 2**20 for command in commands for part in command))
    here = shared.open()
    large = replace(_next("large"), input=tuple(items(hashlib.shake_256().hexdigest(3 * 2**20))))
    small = _next("small", large)
    here.keep(large)
    here.keep(small)
    with capture_logs() as logs:
        await _written(here)
    here.keep(after := _next("after", small))
    await _written(here)

    assert await here.told("large", _ME) is None
    assert await here.told("small", _ME) == replace(small, context=EMPTY)
    found = await shared.open().find("after", _ME, EMPTY)
    assert found is not None
    assert found.context == after.context
    assert samples(shared.metrics, "settling_given_up_total")["store",] == 1
    assert [line["response_id"] for line in logs if line["event"] == "store_too_large"] == ["large"]


@pytest.mark.redis
async def test_what_was_not_written_by_the_end_is_told(fresh_redis: RedisServer) -> None:
    shared = _Shared(fresh_redis.url)
    here = shared.open()
    fresh_redis.stop()
    for one in _chain("a", "b"):
        here.keep(one)

    assert await here.close(0.5) == 2
    fresh_redis.start()


def test_a_url_that_names_no_redis_is_an_error_that_repeats_nothing_of_it() -> None:
    with pytest.raises(ValueError, match="a state URL starts with") as bad:
        Library("http://secret@h", vault=Vault("s"), ttl=1.0, metrics=ServerMetrics("1"))
    assert "secret@h" not in str(bad.value)
