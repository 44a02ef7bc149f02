"""What a sidecar knows: the index in its own memory, and shared state behind it where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.memory import Memory
from proxy.settings import ProxySettings
from proxy.tasks import Tasks
from state import redis_store
from state.commit import head_of
from state.heads import Head
from tests.support.responses import user
from tests.support.rig import Rig, Talk, rigged
from upstream.scripted import Play, message, reasoning
from upstream.scripted.faults import Resealed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.redis_guard import RedisGuard

DELTA = ("delta", None)
SHARED: dict[str, Any] = {"state": "redis://shared", "secret": b"one secret for all"}


class Shared:
    """Shared state as another process would find it: records only, in one place for all sidecars of a test."""

    heads: dict[tuple[bytes, bytes], Head]
    names: dict[tuple[bytes, bytes], bytes]
    asked: list[str]

    def __init__(self, redis: RedisGuard, *, ttl: float) -> None:
        assert (str(redis), ttl) == ("redis://shared:6379/0", ProxySettings().state_ttl)
        self.on_error = redis._on_error
        self.closed = False

    async def load(self, tenant: bytes, chains: Sequence[bytes]) -> Head | None:
        self.asked.append("load")
        return next((copy(self.heads[tenant, chain]) for chain in chains if (tenant, chain) in self.heads), None)

    async def references(self, tenant: bytes, references: Sequence[bytes]) -> dict[bytes, bytes]:
        self.asked.append("references")
        return {name: self.names[tenant, name] for name in references if (tenant, name) in self.names}

    async def save(self, head: Head) -> None:
        for chain in {head.chain, head.other_chain or head.chain}:
            self.heads[head.tenant, chain] = head
        self.names |= {(head.tenant, item.reference): item.digests[0] for item in head.answer if item.reference}

    async def forget(self, head: Head) -> None:
        for chain in {head.chain, head.other_chain or head.chain}:
            self.heads.pop((head.tenant, chain), None)

    async def close(self) -> None:
        self.closed = True


def copy(head: Head) -> Head:
    """What a record keeps of a head."""
    return Head(
        tenant=head.tenant,
        response_id=head.response_id,
        stored=True,
        envelope=head.envelope,
        base_count=head.base_count,
        base=head.base,
        chain=head.chain,
        answer=head.answer,
        other_chain=head.other_chain,
        turns=head.turns,
        answered=head.answered,
    )


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> type[Shared]:
    """Shared state, empty."""
    Shared.heads, Shared.names, Shared.asked = {}, {}, []
    monkeypatch.setattr(redis_store, "RedisHeads", Shared)
    return Shared


def forget_all(rig: Rig) -> None:
    """What a restart, or another replica, does not know."""
    index = rig.running.sidecar.services.memory.index
    for head in rig.heads:
        index.drop(head)
    index._references.clear()


async def saved(rig: Rig) -> None:
    """Until everything is written to the shared state."""
    await rig.running.sidecar._background.finish(30.0)


@pytest.mark.parametrize("stream", [True, False])
async def test_another_replica_continues_a_stored_conversation(shared: type[Shared], *, stream: bool) -> None:
    async with rigged(**SHARED) as rig:
        talk = Talk(rig, stream=stream)
        for text in ("a", "b", "c"):
            assert (await talk.say(text)).way == (DELTA if text != "a" else ("full", "first_turn"))
            await saved(rig)
            forget_all(rig)
        assert len(rig.up.turns[-1].own) == 1


async def test_a_conversation_that_is_not_stored_is_never_shared(shared: type[Shared]) -> None:
    async with rigged(**SHARED) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        await talk.say("b")
        await saved(rig)
        assert (shared.heads, shared.names, shared.asked) == ({}, {}, [])
        forget_all(rig)
        assert (await talk.say("c")).way == ("full", "unknown_head")


async def test_while_this_sidecar_knows_the_last_answer_nobody_else_is_asked(shared: type[Shared]) -> None:
    async with rigged(**SHARED) as rig:
        talk = Talk(rig)
        for text in ("a", "b", "c"):
            await talk.say(text)
        assert shared.asked == []


async def test_another_tenant_finds_nothing(shared: type[Shared]) -> None:
    async with rigged(**SHARED) as rig:
        mine, yours = Talk(rig), Talk(rig, key="sk-two")
        await mine.say("a")
        await saved(rig)
        yours.history = list(mine.history)
        assert (await yours.say("b")).way == ("full", "unknown_head")


async def test_another_secret_finds_nothing(shared: type[Shared]) -> None:
    async with rigged(**SHARED) as one, rigged(state="redis://shared", secret=b"another", url=one.up.url) as two:
        talk = Talk(one)
        await talk.say("a")
        await saved(one)
        other = Talk(two)
        two.checked = False
        other.history = list(talk.history)
        assert (await other.say("b")).way == ("full", "unknown_head")
        one.bodies[2] = two.bodies[1]
        one.checked = False


async def test_a_state_that_the_upstream_forgot_is_forgotten_everywhere(shared: type[Shared]) -> None:
    async with rigged(**SHARED) as rig:
        talk = Talk(rig)
        await talk.say("a")
        await saved(rig)
        rig.up._player._contexts._stored.clear()
        rig.up.connections[0].cache.latest.clear()
        assert (await talk.say("b")).way == ("full", "upstream_forgot")
        await saved(rig)
        assert [head.response_id for head in shared.heads.values()] == ["resp_000003"]


async def test_references_that_another_replica_knows_are_resolved(shared: type[Shared]) -> None:
    async with rigged(**SHARED) as rig:
        talk = Talk(rig)
        talk.echo = lambda output: [{"type": "item_reference", "id": item["id"]} for item in output]
        await talk.say("a")
        await saved(rig)
        forget_all(rig)
        assert (await talk.say("b")).way == DELTA
        assert shared.asked == ["references", "load"]


async def test_either_form_of_reasoning_that_was_sealed_twice_finds_the_shared_state(shared: type[Shared]) -> None:
    script = [Play(items=[reasoning("e"), message("m")], faults=[Resealed()]), Play(items=[message("n")])]
    async with rigged(script, **SHARED) as rig:
        talk = Talk(rig)
        await talk.say("a")
        await saved(rig)
        forget_all(rig)
        assert (await talk.say("b")).way == DELTA


async def test_the_longest_known_state_wins_wherever_it_is(shared: type[Shared]) -> None:
    async with rigged(**SHARED) as rig:
        talk = Talk(rig)
        await talk.say("a")
        first = rig.heads[0]
        await talk.say("b")
        await saved(rig)
        forget_all(rig)
        rig.running.sidecar.services.memory.index.add(first)
        assert (await talk.say("c")).way == DELTA
        assert rig.up.turns[-1].parent == "resp_000002"


async def test_what_was_looked_for_in_vain_is_found_as_soon_as_another_replica_has_it(shared: type[Shared]) -> None:
    async with rigged(**SHARED) as rig:
        talk = Talk(rig)
        await talk.say("a")
        await saved(rig)
        forget_all(rig)
        heads, shared.heads = shared.heads, {}
        other = talk.fork()
        assert (await other.say("b")).way == ("full", "unknown_head")
        shared.heads |= heads
        forget_all(rig)
        assert (await talk.say("b")).way == DELTA


class Failing(Shared):
    """Shared state in trouble, as the store shows it: nothing is found, and the operation is told."""

    async def load(self, *_: object) -> Head | None:
        self.on_error("read")
        return None

    async def save(self, *_: object) -> None:
        self.on_error("write")


async def test_trouble_with_the_shared_state_costs_a_delta_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    Shared.heads, Shared.names, Shared.asked = {}, {}, []
    monkeypatch.setattr(redis_store, "RedisHeads", Failing)
    async with rigged(**SHARED) as rig:
        talk = Talk(rig)
        await talk.say("a")
        await saved(rig)
        forget_all(rig)
        got = await talk.say("b")
        assert (got.status, got.way) == (200, ("full", "unknown_head"))
        value = await rig.metrics()
        assert value("deltawire_state_errors_total", operation="read") == 1
        assert value("deltawire_state_errors_total", operation="write") == 2


def memory(**settings: Any) -> Memory:
    return Memory(ProxySettings(**settings), Tasks(), on_error=lambda _: None)


async def head(known: Memory, text: str) -> Head:
    tenant = known.tenant([b"t"])
    raw = b'[{"role":"user","content":"%b"}]' % text.encode()
    made = head_of(
        known.keyed,
        await known.read(tenant, raw, stored=True),
        tenant=tenant,
        envelope=known.envelope({}),
        response_id=f"resp_{text}",
        stored=True,
        answer=[[b'{"type":"message","role":"assistant","content":"b"}']],
        link=None,
    )
    assert made is not None
    return made


async def test_a_leased_state_is_kept_and_given_back_whatever_happens() -> None:
    known = memory(max_state=1)
    kept = await head(known, "a")
    other = await head(known, "b")

    def use() -> None:
        with known.leased(kept):
            known.add(kept)
            known.add(other)
            assert kept in known.index
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        use()
    assert kept.leases == 0
    assert kept not in known.index
    with known.leased(None):
        pass
    await known.close()


async def test_without_a_secret_each_sidecar_has_its_own() -> None:
    assert memory().tenant([b"t"]) != memory().tenant([b"t"])
    assert memory(secret=b"s").tenant([b"t"]) == memory(secret=b"s").tenant([b"t"])


async def test_the_last_answer_of_a_repeated_history_can_be_continued_after_a_restart_of_the_links(
    shared: type[Shared],
) -> None:
    async with rigged(**SHARED) as rig:
        talk = Talk(rig)
        await talk.say("a")
        await saved(rig)
        forget_all(rig)
        for connection in rig.up.connections:
            await connection.close()
        talk.history.append(user("b"))
        assert (await talk.send()).way == DELTA
