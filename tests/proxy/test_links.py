"""Links as a whole: which are opened, kept warm, lent and ended, and what is remembered of an upstream."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest
from yarl import URL

from proxy import dialect
from proxy.gates import BREAKER, NO_WEBSOCKET, REFUSED, UNREACHABLE
from proxy.links import AGE_JITTER, NoLinkError
from proxy.pool import State
from proxy.tasks import Tasks
from tests.support.responses import user
from tests.support.rig import KEY, Rig, Talk, later, rigged, until
from upstream.scripted import Accept, Play, Turn, message
from upstream.scripted.faults import CloseAfter, ErrorFirst, Hold, RefuseUpgrade, Stray
from wire.errors import ApiError
from wire.extensions import FEATURES_HEADER

FIRST = ("full", "first_turn")
DELTA = ("delta", None)


async def test_after_the_first_turn_one_link_is_warm_and_no_more() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        await talk.say("a")
        await rig.spare()
        await talk.say("b")
        await rig.quiet()
        assert len(rig.up.connections) == 2
        await Talk(rig).say("another")
        await until(lambda: len(rig.up.connections) == 3)
        assert [turn.connection for turn in rig.up.turns] == [1, 1, 2]


async def test_a_handshake_carries_the_identity_and_the_user_agent_and_nothing_else_of_a_turn() -> None:
    async with rigged(forward_headers=("x-team",)) as rig:
        await Talk(rig).say(
            "a",
            **{
                "openai-organization": "org",
                "openai-project": "proj",
                "openai-beta": "responses_websockets=v1",
                "user-agent": "Client/1",
                "x-team": "blue",
                "cookie": "c=1",
                "x-forwarded-for": "10.0.0.1",
                "x-deltawire-transport": "http",
                "x-request-id": "mine",
                "content-encoding": "identity",
            },
        )
        await rig.spare()
        for headers in rig.up.upgrade_attempts:
            assert headers["authorization"] == "Bearer sk-one"
            assert headers["openai-organization"] == "org"
            assert headers["openai-project"] == "proj"
            assert headers["openai-beta"] == "responses_websockets=v1"
            assert headers["user-agent"] == "Client/1"
            assert headers["x-team"] == "blue"
            assert (
                not {"cookie", "x-forwarded-for", "x-request-id", "content-type", "content-encoding"} & headers.keys()
            )
            assert not any(name.startswith("x-deltawire") for name in headers)
            assert "sec-websocket-extensions" not in headers


async def test_a_query_is_part_of_the_handshake_and_of_the_tenant() -> None:
    paths: list[str] = []

    async def far(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        paths.append((await reader.readuntil(b"\r\n\r\n")).split()[1].decode())
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(far, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with rigged(url=f"http://127.0.0.1:{port}/v1") as rig:
            rig.checked = False
            for query in ("?api-version=a%2Fb", ""):
                async with rig.session.post(URL(rig.url + query, encoded=True), data=rig.body([user("a")])) as answer:
                    await answer.read()
        assert paths == [f"/v1/responses{query}" for query in ("?api-version=a%2Fb",) * 2 + ("",) * 2]
        tenants = [turn["tenant"] for turn in rig.running.sidecar.recent.newest()]
        assert len(set(tenants)) == 2


async def test_a_forwarded_header_is_part_of_the_tenant() -> None:
    async with rigged(forward_headers=("x-team",)) as rig:
        talk = Talk(rig)
        await talk.say("a", x_team="blue")
        assert (await talk.say("b", x_team="red")).way == ("full", "unknown_head")


@pytest.mark.parametrize("status", [400, 404, 405, 426, 501])
async def test_an_upstream_without_websockets_is_asked_once_and_then_left_alone_for_a_while(status: int) -> None:
    async with rigged(upstream={"upgrades": RefuseUpgrade(status)}) as rig:
        talk = Talk(rig)
        await talk.say("a")
        got = await talk.say("b")
        assert (got.status, got.way) == (200, ("http", "no_websocket"))
        assert len(rig.up.upgrade_attempts) == 1
        assert [turn.transport for turn in rig.up.turns] == ["http", "http"]
        rig.up.upgrades = Accept()
        with later(NO_WEBSOCKET.first):
            assert (await talk.say("c")).way[0] == "full"


async def test_an_upgrade_that_one_tenant_is_refused_takes_no_links_from_another() -> None:
    """A key or cookie too long for the upstream's parser is a 400 to its owner."""
    async with rigged(upstream={"upgrades": [RefuseUpgrade(400), Accept()]}) as rig:
        assert (await Talk(rig, key="sk-odd").say("a")).way[0] == "http"
        assert (await Talk(rig).say("a")).way == FIRST
        assert (await Talk(rig, key="sk-odd").say("b")).way == ("http", "no_websocket")


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_a_refusal_of_this_moment_or_this_caller_keeps_the_tenant_from_dialling_for_a_while(status: int) -> None:
    async with rigged(upstream={"upgrades": [RefuseUpgrade(status), Accept()]}) as rig:
        talk = Talk(rig)
        for text in ("a", "b"):
            got = await talk.say(text)
            assert (got.status, got.way[0]) == (200, "http")
        assert len(rig.up.upgrade_attempts) == 1
        assert (await Talk(rig, key="sk-two").say("a")).way == FIRST
        value = await rig.metrics()
        assert value("deltawire_dials_total", outcome="refused") == 1
        assert value("deltawire_gates_shut", reason="dial_failed") == 1
        assert value("deltawire_gates_shut") == 1
        with later(REFUSED.first):
            assert (await talk.say("c")).way[0] == "full"
        assert (await rig.metrics())("deltawire_gates_shut") == 0


async def test_an_upstream_that_says_when_to_dial_again_is_obeyed() -> None:
    refusal = RefuseUpgrade(429, headers={"retry-after": "120"})
    async with rigged(upstream={"upgrades": [refusal, Accept()]}) as rig:
        talk = Talk(rig)
        await talk.say("a")
        with later(119.0):
            await talk.say("b")
        assert len(rig.up.upgrade_attempts) == 1
        with later(133.0):
            assert (await talk.say("c")).way[0] == "full"


async def test_links_that_die_under_turns_one_after_another_are_left_alone_until_a_probe_ends_well() -> None:
    def script(turn: Any) -> Play:
        faults = [CloseAfter(1)] if turn.transport == "ws" and turn.number <= BREAKER.after else ()
        return Play(items=[message("m")], faults=faults)

    async with rigged(script) as rig:
        talk = Talk(rig)
        for _ in range(BREAKER.after):
            assert (await talk.say("a")).own_error == "link_lost"
        assert (await talk.say("b")).way == ("http", "breaker_open")
        assert (await Talk(rig, key="sk-two").say("a")).way == FIRST
        value = await rig.metrics()
        assert value("deltawire_gates_shut", reason="breaker_open") == 1
        assert value("deltawire_turns_total", reason="breaker_open") == 1
        with later(BREAKER.first):
            assert (await talk.say("c")).way[0] == "full"
        assert (await talk.say("d")).way == DELTA


async def test_one_cut_of_many_turns_is_one_failure_and_afterwards_only_turns_open_links() -> None:
    gate = asyncio.Event()

    def script(turn: Any) -> Play:
        return Play(items=[message("m")], faults=[Hold(gate, 1)] if b"hold" in turn.raw else ())

    async with rigged(script) as rig:
        rig.checked = False
        talks = [Talk(rig) for _ in range(8)]
        running = [asyncio.ensure_future(talk.say("hold")) for talk in talks]
        await rig.up.until(lambda: sum(turn.events_sent for turn in rig.up.turns) == len(talks))
        await rig.spare()
        for connection in rig.up.connections:
            connection.reset()
        assert {got.own_error for got in await asyncio.gather(*running)} == {"link_lost"}
        await until(lambda: not len(rig.links.pool))
        assert await _dialled(rig) == len(talks) + 1
        gate.set()
        assert (await talks[0].say("again")).way[0] == "full"


async def test_turns_that_need_more_links_at_once_than_may_be_opened_go_by_http(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.gates.MAX_DIALLING", 2)
    answering = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            await answering.wait()
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with rigged(url=f"http://127.0.0.1:{port}/v1") as rig:
            rig.checked = False
            waiting = [asyncio.ensure_future(Talk(rig, key=f"sk-{number}").say("a")) for number in range(2)]
            await until(lambda: rig.states == ["DIALING"] * 2)
            got = await Talk(rig).say("a")
            assert (got.way[0], rig.running.sidecar.recent.newest()[0]["transport"]) == ("http", "http")
            assert rig.states == ["DIALING"] * 2
            answering.set()
            await asyncio.gather(*waiting)


async def test_a_state_whose_upstream_takes_no_more_links_goes_by_http_and_says_why() -> None:
    async with rigged(upstream={"upgrades": [Accept(), Accept(), RefuseUpgrade(503)]}) as rig:
        talk = Talk(rig)
        await talk.say("a")
        await rig.spare()
        for connection in rig.up.connections:
            await connection.close()
        await until(lambda: not len(rig.links.pool))
        got = await talk.say("b")
        assert got.way == ("http", "dial_failed")
        assert rig.up.turns[-1].context[0].value == user("a")


async def test_an_upstream_that_does_not_finish_the_handshake_costs_the_dial_time_and_no_more() -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(never, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with rigged(url=f"http://127.0.0.1:{port}/v1", dial_timeout=0.5) as rig:
            with pytest.raises(NoLinkError, match="dial_failed"):
                await rig.links.acquire(b"t", None, {})
            assert (await rig.metrics())("deltawire_dials_total", outcome="unanswered") == 1
            assert rig.states == []


async def test_after_a_dial_without_an_answer_no_turn_of_the_tenant_waits_for_the_next_one() -> None:
    dialled = 0

    async def babbles(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"no HTTP\r\n\r\n")
        writer.close()

    async def refused(rig: Rig, tenant: bytes) -> int:
        with pytest.raises(NoLinkError, match="dial_failed"):
            await rig.links.acquire(tenant, None, {})
        return dialled

    async with await asyncio.start_server(babbles, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with rigged(url=f"http://127.0.0.1:{port}/v1") as rig:
            assert [await refused(rig, b"t") for _ in range(3)] == [1, 1, 1]
            assert await refused(rig, b"u") == 2, "a handshake may be one tenant's trouble"
            with later(REFUSED.first):
                assert await refused(rig, b"t") == 3
            assert (await rig.metrics())("deltawire_dials_total", outcome="unanswered") == 3
            assert rig.states == []


async def test_after_a_dial_that_could_not_connect_only_one_turn_of_anybody_tries_again() -> None:
    async with rigged(url="http://127.0.0.1:1/v1") as rig:

        async def unconnected() -> float:
            for tenant in (b"t", b"u", b"t"):
                with pytest.raises(NoLinkError, match="dial_failed"):
                    await rig.links.acquire(tenant, None, {})
            return (await rig.metrics())("deltawire_dials_total", outcome="unreachable")

        assert await unconnected() == 1
        with later(UNREACHABLE.first):
            assert await unconnected() == 2
        assert (await rig.metrics())("deltawire_gates_shut") == 1


async def test_a_turn_that_leaves_while_its_link_is_opened_leaves_no_place_taken() -> None:
    dialling = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialling.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(never, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with rigged(url=f"http://127.0.0.1:{port}/v1") as rig:
            turn = asyncio.ensure_future(rig.links.acquire(b"t", None, {}))
            await dialling.wait()
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
            assert (rig.states, rig.links.gates._dialling) == ([], 0)
            assert (await rig.metrics())("deltawire_dials_total", outcome="given_up") == 1


async def test_links_that_were_opened_together_do_not_retire_together() -> None:
    async with rigged() as rig:
        for number in range(4):
            await Talk(rig).say(f"{number}")
        ages = {slot.retire_at - slot.born for slot in rig.links.pool if slot.state is not State.DIALING}
        most = rig.links.dialect.max_age
        assert len(ages) > 1
        assert all((1 - AGE_JITTER) * most <= age <= most for age in ages)


async def test_when_all_links_are_busy_turns_go_by_http() -> None:
    gate = asyncio.Event()

    def script(turn: Any) -> Play:
        return Play(items=[message("m")], faults=[Hold(gate, 3)] if turn.transport == "ws" else ())

    async with rigged(script, max_links=2) as rig:
        busy = [asyncio.ensure_future(Talk(rig).say(f"{number}")) for number in range(2)]
        await rig.up.until(lambda: len(rig.up.turns) == 2)
        got = await Talk(rig).say("one too many")
        assert got.way[0] == "http"
        assert rig.up.turns[-1].transport == "http"
        assert len(rig.up.connections) == 2
        gate.set()
        for got in await asyncio.gather(*busy):
            assert got.way == FIRST


async def test_the_link_of_another_conversation_is_given_up_before_a_turn_goes_without_one() -> None:
    async with rigged(max_links=1) as rig:
        one, two = Talk(rig, store=False), Talk(rig, store=False, key="sk-two")
        await one.say("a")
        assert (await two.say("b")).way == FIRST
        assert len(rig.links.pool) == 1
        assert (await one.say("c")).way == ("full", "link_retired")
        assert (await rig.metrics())("deltawire_link_ends_total", cause="retired") == 2


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("code", [1000, 1011])
async def test_a_link_that_the_upstream_closed_while_idle_is_replaced_without_an_error(
    code: int, *, store: bool
) -> None:
    async with rigged() as rig:
        talk = Talk(rig, store=store)
        await talk.say("a")
        await rig.spare()
        await rig.up.connections[0].close(code)
        await until(lambda: len(rig.links.pool) == 1)
        got = await talk.say("b")
        assert got.status == 200
        assert got.way == (DELTA if store else ("full", "link_lost"))
        assert (await rig.metrics())("deltawire_link_ends_total", cause="closed_by_upstream") == 1


async def test_a_link_closed_right_after_its_answer_costs_the_next_turn_nothing_but_the_delta() -> None:
    def script(turn: Any) -> Play:
        return Play(items=[message("m")], faults=[CloseAfter(None, 1000)] if turn.number == 1 else ())

    async with rigged(script) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        await rig.up.connections[0].closed.wait()
        assert (await talk.say("b")).way == ("full", "link_lost")


@pytest.mark.parametrize(
    ("frame", "binary"),
    [(b'{"type":"response.created","response":{"id":"resp_9"}}', False), (b"{not json", False), (b"x", True)],
)
async def test_an_unexpected_frame_on_an_idle_link_ends_it(frame: bytes, *, binary: bool) -> None:
    def script(turn: Any) -> Play:
        stray = Stray(frame, None, binary=binary)
        return Play(items=[message("m")], faults=[stray] if turn.number == 1 else ())

    async with rigged(script) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        await rig.up.connections[0].closed.wait()
        await until(lambda: all(slot.id != 1 for slot in rig.links.pool))
        got = await talk.say("b")
        assert (got.status, got.way) == (200, ("full", "link_lost"))
        assert (await rig.metrics())("deltawire_link_ends_total", cause="out_of_order") == 1


async def test_a_link_not_heard_from_for_an_interval_is_asked_before_it_is_used() -> None:
    async with rigged() as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        link = rig.links._links[1]
        link.heard -= 2 * 3600
        assert (await talk.say("b")).way == DELTA
        assert rig.up.connections[0].pings == 1


async def test_idle_links_are_pinged_often_enough_for_middle_boxes() -> None:
    async with rigged(ping_interval=0.05) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        await until(lambda: rig.up.connections[0].pings >= 3)
        assert (await talk.say("b")).way == DELTA


async def test_links_are_retired_between_turns_when_they_are_old_enough() -> None:
    async with rigged() as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        await rig.spare()
        next(slot for slot in rig.links.pool if not slot.fresh).retire_at = 0.0
        tasks = Tasks()
        tasks.spawn(rig.links.maintain(0.0), "maintenance of the test")
        await rig.up.connections[0].closed.wait()
        await tasks.cancel()
        assert rig.up.connections[0].close_code == 1001
        assert (await talk.say("b")).way == ("full", "link_retired")


async def test_a_link_past_its_age_is_not_used_even_before_it_is_closed() -> None:
    async with rigged() as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        await rig.spare()
        rig.links._links[1].slot.retire_at = 0.0
        assert (await talk.say("b")).way == ("full", "link_retired")
        assert rig.up.turns[1].connection == 2


async def test_all_links_are_closed_with_going_away_when_the_sidecar_ends() -> None:
    async with rigged() as rig:
        await Talk(rig).say("a")
        await rig.spare()
    assert [connection.close_code for connection in rig.up.connections] == [1001, 1001]
    ends = rig.running.sidecar.metrics.render()[0].decode()
    assert 'deltawire_link_ends_total{cause="drain"} 2.0' in ends
    assert 'deltawire_link_ends_total{cause="closed_by_upstream"} 0.0' in ends


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_compression_is_offered_on_request_and_may_be_declined(*, taken: bool, stream: bool) -> None:
    async with rigged(upstream={"upgrades": Accept(deflate=taken)}, link_compression="on") as rig:
        talk = Talk(rig, stream=stream, store=False)
        for text in ("a" * 10_000, "b" * 10_000, "c"):
            assert (await talk.say(text)).status == 200
        assert talk.ways == [FIRST, DELTA, DELTA]
        assert "permessage-deflate" in rig.up.upgrade_attempts[0]["sec-websocket-extensions"]
        assert bool(rig.links._links[1]._socket.compress) is taken


LARGE: dict[str, Any] = {
    "instructions": "Be brief. " * 60,
    "tools": [{"type": "function", "name": "f", "description": "d" * 400}],
}


async def test_a_server_that_offers_it_gets_large_parts_of_the_envelope_once_per_link() -> None:
    async with rigged(upstream={"envelope": True}) as rig:
        talk = Talk(rig, **LARGE)
        await talk.say("a")
        await talk.say("b")
        first, second = rig.up.turns
        assert b"deltawire_envelope" not in first.raw
        assert set(second.raw.split(b'"deltawire_envelope":')[1].split(b"}")[0].split(b'"')[1::4]) == {
            b"instructions",
            b"tools",
        }
        assert len(second.raw) < 400
        assert talk.ways == [FIRST, DELTA]
        assert rig.links.dialect is dialect.DELTAWIRE


async def test_a_server_that_lost_a_part_is_sent_everything_once() -> None:
    async with rigged(upstream={"envelope": True}) as rig:
        talk = Talk(rig, **LARGE)
        await talk.say("a")
        rig.up.connections[0].cache.envelope.clear()
        got = await talk.say("b")
        assert (got.status, got.way) == (200, ("full", "upstream_forgot"))
        assert len(rig.up.turns) == 3
        assert b"deltawire_envelope" not in rig.up.turns[2].raw
        assert (await talk.say("c")).way == DELTA
        assert b"deltawire_envelope" in rig.up.turns[3].raw
        assert (await rig.metrics())("deltawire_retries_total", cause="envelope_unknown") == 1


@pytest.mark.parametrize("header", [None, "lanes, trace"])
async def test_any_other_server_gets_everything_always(header: str | None) -> None:
    accept = Accept({} if header is None else {FEATURES_HEADER: header})
    async with rigged(upstream={"upgrades": accept}) as rig:
        talk = Talk(rig, **LARGE)
        for text in ("a", "b", "c"):
            await talk.say(text)
        assert all(b"deltawire_envelope" not in turn.raw for turn in rig.up.turns)
        assert all(len(turn.raw) > 1000 for turn in rig.up.turns)


async def test_a_server_that_renders_each_turn_anew_gets_changed_instructions_with_a_delta() -> None:
    async with rigged(upstream={"envelope": True}) as rig:
        talk = Talk(rig, instructions="Now 15:09:20")
        await talk.say("a")
        talk.envelope["instructions"] = "Now 15:09:34"
        assert (await talk.say("b")).way == DELTA


async def test_what_our_own_server_honours_is_not_expected_of_one_that_takes_its_place() -> None:
    async with rigged(upstream={"upgrades": [Accept({FEATURES_HEADER: "envelope"}), Accept()]}) as rig:
        talk = Talk(rig, instructions="Now 15:09:20")
        await talk.say("a")
        await rig.spare()
        assert rig.links.dialect is dialect.OPEN_RESPONSES
        talk.envelope["instructions"] = "Now 15:09:34"
        assert (await talk.say("b")).way == ("full", "envelope_changed")


async def test_the_warm_link_of_one_tenant_is_not_for_another() -> None:
    async with rigged() as rig:
        await Talk(rig).say("a")
        await rig.spare()
        await Talk(rig, key="sk-two").say("a")
        assert rig.up.connections[rig.up.turns[-1].connection - 1].headers["authorization"] == "Bearer sk-two"


async def test_clients_without_credentials_are_one_tenant_in_which_content_alone_decides() -> None:
    async with rigged() as rig:

        async def say(*items: Any) -> Any:
            return await rig.post(rig.body([*items], store=False), key=None)

        one = await say(user("mine"))
        two = await say(user("yours"))
        assert "authorization" not in rig.up.upgrade_attempts[0]
        again = await say(user("mine"), *one.response["output"], user("more"))
        other = await say(user("yours"), *two.response["output"], user("more"))
        assert (again.way, other.way) == (DELTA, DELTA)


async def _dialled(rig: Rig) -> int:
    await rig.quiet()
    return len(rig.up.upgrade_attempts)


async def test_a_spare_that_cannot_be_had_disturbs_nobody() -> None:
    async with rigged(upstream={"upgrades": [Accept(), RefuseUpgrade(503)]}) as rig:
        talk = Talk(rig)
        await talk.say("a")
        assert await _dialled(rig) == 2
        assert (await talk.say("b")).way == DELTA


# Credentials that are taken no longer

REVOKED = ApiError(401, "Incorrect API key provided.", code="invalid_api_key")


def _revoked(turn: Turn) -> Play:
    """The key of one tenant is revoked once somebody has said so."""
    key = turn.headers["authorization"].removeprefix("Bearer ")
    if b"revoked" in turn.raw and key == KEY:
        return Play(faults=[ErrorFirst(REVOKED)])
    return Play(items=[message("m")])


async def test_a_401_on_a_link_ends_all_links_of_its_tenant_and_of_no_other() -> None:
    async with rigged(_revoked) as rig:
        mine, other, revoked = Talk(rig, store=False), Talk(rig, store=False, key="sk-two"), Talk(rig)
        for talk in (mine, other):
            await talk.say("a")
        await rig.quiet()
        before = set(rig.links.pool)
        tenants = {slot.tenant for slot in before}
        got = await revoked.say("revoked")
        assert (got.status, got.own_error) == (401, None)
        await rig.quiet()
        left = {slot.tenant for slot in before & set(rig.links.pool)}
        assert (len(tenants), len(left)) == (2, 1)
        assert (await rig.metrics())("deltawire_link_ends_total", cause="unauthorized") >= 2
        assert (await other.say("b")).way == DELTA
        assert (await mine.say("b")).way == ("full", "link_retired")


async def test_a_401_cuts_no_turn_that_runs_and_its_link_takes_none_after_it() -> None:
    gate = asyncio.Event()

    def script(turn: Turn) -> Play:
        return Play(items=[message("m")], faults=[Hold(gate, 5)]) if b"running" in turn.raw else _revoked(turn)

    async with rigged(script) as rig:
        running = Talk(rig, store=False)
        asking = asyncio.ensure_future(running.say("running"))
        await rig.up.until(lambda: bool(rig.up.turns) and rig.up.turns[0].events_sent == 5)
        await Talk(rig).say("revoked")
        gate.set()
        assert (await asking).response["status"] == "completed"
        assert (await running.say("b")).way == ("full", "link_retired")


async def test_a_401_to_a_handshake_or_over_http_counts_as_well() -> None:
    async with rigged(_revoked, upstream={"upgrades": [Accept(), RefuseUpgrade(401)]}) as rig:
        await Talk(rig).say("a")
        await rig.quiet()
        assert all(slot.retire_at <= monotonic() for slot in rig.links.pool)
    async with rigged(_revoked) as rig:
        await Talk(rig).say("a")
        await rig.spare()
        got = await Talk(rig, background=True).say("revoked")
        assert (got.status, got.way) == (401, ("http", "client_state"))
        await rig.quiet()
        assert rig.states == []
