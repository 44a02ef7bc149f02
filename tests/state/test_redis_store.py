"""Heads in Redis: the same scenarios against a stand-in and a real server, and every way in which Redis fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import fakeredis
import pytest
from redis.asyncio import Redis

from state.digest import SIZE
from state.redis_guard import MAX_CONCURRENT, Connected
from state.redis_store import MAX_CHAINS
from telemetry.reasons import STATE_OPERATIONS
from tests.support.ports import free_port
from tests.support.stores import (
    ENOUGH,
    TTL,
    Clock,
    Shared,
    Silent,
    a_head,
    asked,
    assert_works,
    digest,
    free_cluster_port,
    heads_on,
    started,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from tests.support.redis import RedisServer


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.redis)])
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[Shared]:
    if request.param == "fake":
        fake = fakeredis.FakeServer()

        def connected(*, state: bool) -> None:
            fake.connected = state

        shared = Shared(
            "redis://fake",
            fakeredis.FakeAsyncRedis(server=fake),
            fake,
            stop=lambda: connected(state=False),
            start=lambda: connected(state=True),
        )
    else:
        server: RedisServer = request.getfixturevalue("fresh_redis")
        shared = Shared(server.url, Redis.from_url(server.url), stop=server.stop, start=server.start)
    yield shared
    for store in shared.opened:
        await store.close()
    await shared.raw.aclose()


async def keys(shared: Shared) -> list[str]:
    return sorted(key.decode() if isinstance(key, bytes) else key for key in await shared.raw.keys("*"))


async def test_a_saved_head_is_found_by_another_store_and_belongs_to_no_link(shared: Shared) -> None:
    head = a_head()
    await shared.open().save(head)
    found = await shared.open().load(head.tenant, [head.chain])
    assert found is not None
    assert (found.response_id, found.envelope, found.link) == (head.response_id, head.envelope, None)
    assert shared.errors == []


async def test_a_head_is_found_by_either_of_its_chains(shared: Shared) -> None:
    head, store = a_head(other_chain=digest()), shared.open()
    await store.save(head)
    for chain in (head.chain, head.other_chain):
        assert chain is not None
        assert await store.load(head.tenant, [chain]) is not None


async def test_the_first_chain_that_is_known_wins(shared: Shared) -> None:
    long, short, store = a_head(), a_head(), shared.open()
    await store.save(short)
    await store.save(long)
    found = await store.load(long.tenant, [digest(), long.chain, digest(), short.chain])
    assert found is not None
    assert found.response_id == long.response_id


async def test_chains_beyond_the_limit_are_not_looked_up(shared: Shared) -> None:
    head, store = a_head(), shared.open()
    await store.save(head)
    before = [digest() for _ in range(MAX_CHAINS)]
    assert await store.load(head.tenant, [*before, head.chain]) is None
    assert await store.load(head.tenant, [*before[1:], head.chain]) is not None


async def test_nothing_is_found_for_another_tenant(shared: Shared) -> None:
    head, store = a_head(), shared.open()
    await store.save(head)
    reference = head.answer[0].reference
    assert reference is not None
    assert await store.load(b"u" * SIZE, [head.chain]) is None
    assert await store.references(b"u" * SIZE, [reference]) == {}


@pytest.mark.parametrize("change", [{"stored": False}, {"response_id": "resp_\ud800"}])
async def test_a_head_without_a_record_never_leaves_the_process(shared: Shared, change: dict[str, Any]) -> None:
    store = shared.open()
    await store.save(a_head(**change))
    assert await keys(shared) == []
    assert shared.errors == []


async def test_keys_are_digests_under_the_tenant_and_all_of_them_expire(shared: Shared) -> None:
    head = a_head(other_chain=digest())
    await shared.open().save(head)
    reference = head.answer[0].reference
    assert reference is not None
    assert head.other_chain is not None
    tenant = f"deltawire:{{{head.tenant.hex()}}}"
    assert await keys(shared) == sorted(
        [
            f"{tenant}:head:{head.chain.hex()}",
            f"{tenant}:head:{head.other_chain.hex()}",
            f"{tenant}:item:{reference.hex()}",
        ]
    )
    for key in await keys(shared):
        assert 0 < await shared.raw.pttl(key) <= TTL * 1000


async def test_references_name_items_and_unknown_ones_are_left_out(shared: Shared) -> None:
    head, store = a_head(), shared.open()
    await store.save(head)
    item = head.answer[0]
    assert item.reference is not None
    assert await store.references(head.tenant, [digest(), item.reference]) == {item.reference: item.digests[0]}
    assert await store.references(head.tenant, []) == {}


async def test_a_reference_that_is_used_lives_on(shared: Shared) -> None:
    head, store = a_head(), shared.open()
    await store.save(head)
    reference = head.answer[0].reference
    assert reference is not None
    key = f"deltawire:{{{head.tenant.hex()}}}:item:{reference.hex()}"
    await shared.raw.pexpire(key, 30_000)
    await store.references(head.tenant, [reference])
    assert await shared.raw.pttl(key) > 30_000


async def test_a_forgotten_head_is_gone_and_its_items_stay_known(shared: Shared) -> None:
    head, store = a_head(other_chain=digest()), shared.open()
    await store.save(head)
    await store.forget(head)
    await store.forget(head)
    assert head.other_chain is not None
    assert await store.load(head.tenant, [head.chain, head.other_chain]) is None
    reference = head.answer[0].reference
    assert reference is not None
    assert len(await store.references(head.tenant, [reference])) == 1
    assert shared.errors == []


@pytest.mark.parametrize("value", [b"", b"garbage", b"\x93\x02\x01\x01"])
async def test_what_cannot_be_read_is_passed_over_and_the_next_one_taken(shared: Shared, value: bytes) -> None:
    broken, good, store = a_head(), a_head(), shared.open()
    await store.save(good)
    await shared.raw.set(f"deltawire:{{{broken.tenant.hex()}}}:head:{broken.chain.hex()}", value)
    found = await store.load(good.tenant, [broken.chain, good.chain])
    assert found is not None
    assert found.response_id == good.response_id
    assert shared.errors == []


async def test_a_record_under_a_key_that_is_not_its_own_is_passed_over(shared: Shared) -> None:
    head, store = a_head(), shared.open()
    await store.save(head)
    tenant = f"deltawire:{{{head.tenant.hex()}}}"
    elsewhere = digest()
    record = await shared.raw.get(f"{tenant}:head:{head.chain.hex()}")
    assert record is not None
    await shared.raw.set(f"{tenant}:head:{elsewhere.hex()}", record)
    await shared.raw.set(f"{tenant}:item:{elsewhere.hex()}", b"no digest")
    assert await store.load(head.tenant, [elsewhere]) is None
    assert await store.references(head.tenant, [elsewhere]) == {}


async def test_without_a_server_each_operation_gives_nothing_and_only_the_first_says_so(shared: Shared) -> None:
    shared.stop()
    head, store = a_head(), shared.open()
    assert await store.load(head.tenant, [head.chain]) is None
    assert await store.references(head.tenant, [head.chain]) == {}
    await store.save(head)
    await store.forget(head)
    assert shared.errors == ["connect"]
    assert store._redis._clock() < store._redis._resume_at
    shared.start()


@pytest.mark.parametrize("operation", ["read", "write", "delete"])
async def test_a_server_that_goes_away_is_reported_by_what_was_being_done(shared: Shared, operation: str) -> None:
    head, store = a_head(), shared.open()
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "read": lambda: store.load(head.tenant, [head.chain]),
        "write": lambda: store.save(head),
        "delete": lambda: store.forget(head),
    }
    await store.save(head)
    shared.stop()
    await calls[operation]()
    assert shared.errors == [operation]
    assert operation in STATE_OPERATIONS
    shared.start()


async def test_after_the_cooldown_a_server_that_is_back_is_used_again(shared: Shared) -> None:
    head, store = a_head(), shared.open(cooldown=5.0)
    await store.save(head)
    shared.stop()
    await store.save(head)
    shared.start()
    shared.clock.now += 4.9
    await store.save(head)
    assert await store.load(head.tenant, [head.chain]) is None
    shared.clock.now += 0.1
    await store.save(head)
    assert await store.load(head.tenant, [head.chain]) is not None
    assert shared.errors == ["write"]


async def test_while_it_is_not_known_whether_trouble_is_over_only_one_operation_finds_out(shared: Shared) -> None:
    head, store = a_head(), shared.open(cooldown=5.0)
    shared.stop()
    await store.save(head)
    shared.clock.now += 5.0
    await asyncio.gather(*(store.load(head.tenant, [head.chain]) for _ in range(20)))
    assert shared.errors == ["connect", "connect"]
    shared.start()


async def test_many_operations_at_once_all_succeed(shared: Shared) -> None:
    store = shared.open()
    heads = [a_head() for _ in range(4 * MAX_CONCURRENT)]
    await asyncio.gather(*map(store.save, heads))
    found = await asyncio.gather(*(store.load(head.tenant, [head.chain]) for head in heads))
    assert [head.response_id for head in heads] == [head.response_id for head in found if head is not None]
    assert shared.errors == []


@pytest.fixture
async def silent() -> AsyncIterator[Silent]:
    state = Silent()
    server = await asyncio.start_server(state.serve, "127.0.0.1", 0)
    state.port = server.sockets[0].getsockname()[1]
    yield state
    state.answers.set()
    server.close()
    await server.wait_closed()


async def test_a_server_that_never_answers_costs_one_deadline_and_is_then_left_alone(silent: Silent) -> None:
    errors: list[str] = []
    store = heads_on(f"redis://127.0.0.1:{silent.port}", timeout=0.05, on_error=errors.append)
    head = a_head()
    async with asyncio.timeout(ENOUGH):
        assert await store.load(head.tenant, [head.chain]) is None
        await store.save(head)
    assert errors == ["connect"]
    assert silent.requests == 1
    await store.close()


async def test_an_answer_that_comes_too_late_is_never_taken_for_that_of_another_question(silent: Silent) -> None:
    clock, errors = Clock(), list[str]()
    store = heads_on(
        f"redis://127.0.0.1:{silent.port}", timeout=0.05, on_error=errors.append, clock=clock, cooldown=1.0
    )
    head = a_head()
    await store.load(head.tenant, [head.chain])
    silent.answers.set()
    clock.now += 1.0
    store._redis._timeout = ENOUGH
    assert await store._values(["key"]) == [b"2"]
    assert silent.connections == 2
    await store.close()


async def test_a_caller_that_is_cancelled_stops_at_once_and_counts_as_no_trouble(silent: Silent) -> None:
    errors: list[str] = []
    store = heads_on(f"redis://127.0.0.1:{silent.port}", on_error=errors.append)
    asking = asyncio.ensure_future(store.load(b"t" * SIZE, [digest()]))
    await silent.asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert errors == []
    assert store._redis._clock() >= store._redis._resume_at
    await store.close()


async def test_whatever_a_client_raises_stays_inside() -> None:
    class Broken:
        def pipeline(self, **_: object) -> object:
            raise RuntimeError("a fault of the client library")

        async def aclose(self) -> None:
            raise RuntimeError("another one")

    errors: list[str] = []
    broken: Any = Broken()
    store = heads_on("redis://nowhere", on_error=errors.append, connect=lambda *_: Connected(broken))
    assert await store.load(b"t" * SIZE, [digest()]) is None
    await store.close()
    assert errors == ["connect"]


async def test_neither_repr_nor_refusal_shows_the_password() -> None:
    for url in ("redis://:hunter2@a/1", "rediss+sentinel://:hunter2@a/main", "redis+cluster://:hunter2@a"):
        store = heads_on(url, on_error=lambda _: None)
        assert "hunter2" not in repr(store)
        await store.close()
    with pytest.raises(ValueError, match="number") as caught:
        heads_on("redis://:hunter2@a/x", on_error=lambda _: None)
    assert "hunter2" not in str(caught.value)


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., None]]:
    running: list[subprocess.Popen[bytes]] = []
    yield lambda *arguments: running.append(started(tmp_path, *map(str, arguments)))
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.redis
async def test_a_cluster_with_a_password_is_used(launch: Callable[..., None]) -> None:
    port = free_cluster_port()
    options = {"port": port, "bind": "127.0.0.1", "cluster-enabled": "yes", "requirepass": "hunter2", "save": ""}
    launch(*(text for name, value in options.items() for text in (f"--{name}", value)))
    await asked(port, "CLUSTER", "ADDSLOTS", *range(16384), password="hunter2")
    await asked(port, "CLUSTER", "INFO", password="hunter2", until="cluster_state:ok")
    await assert_works(f"redis+cluster://:hunter2@127.0.0.1:{port}")


@pytest.mark.redis
async def test_sentinels_are_asked_where_the_server_is(launch: Callable[..., None], tmp_path: Path) -> None:
    port, sentinel, absent = free_port(), free_port(), free_port()
    launch("--port", port, "--bind", "127.0.0.1", "--requirepass", "hunter2", "--save", "")
    await asked(port, "PING", password="hunter2")
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"port {sentinel}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {port} 1\nsentinel auth-pass main hunter2\n"
    )
    launch(config, "--sentinel")
    await asked(sentinel, "PING")
    await assert_works(f"redis+sentinel://:hunter2@127.0.0.1:{absent},127.0.0.1:{sentinel}/main/1")


@pytest.mark.redis
async def test_a_wrong_password_is_trouble_and_nothing_worse(launch: Callable[..., None]) -> None:
    port = free_port()
    launch("--port", port, "--bind", "127.0.0.1", "--requirepass", "hunter2", "--save", "")
    await asked(port, "PING", password="hunter2")
    errors: list[str] = []
    store = heads_on(f"redis://:wrong@127.0.0.1:{port}", on_error=errors.append)
    await store.save(a_head())
    await store.close()
    assert errors == ["connect"]
