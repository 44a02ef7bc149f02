"""A turn over a link: what is sent again, what is not, what is remembered, and what a client leaves behind."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from time import monotonic
from typing import Any
from unittest.mock import patch

import pytest

from proxy.gates import BREAKER
from proxy.learned import LASTS
from proxy.trust import DISTRUST, MISSES
from tests.support.responses import user
from tests.support.rig import Rig, Talk, rigged, until
from upstream.scripted import Accept, Play, Turn, message, reasoning, response_object
from upstream.scripted.faults import (
    Big,
    CloseAfter,
    ErrorAfter,
    ErrorFirst,
    Failed,
    Fault,
    Hold,
    Incomplete,
    RefuseUpgrade,
    Resealed,
    Silence,
    Stray,
)
from wire.errors import ApiError, connection_limit, invalid_request, previous_not_found, server_error
from wire.split import members

FIRST = ("full", "first_turn")
DELTA = ("delta", None)
FORGOT = ("full", "upstream_forgot")
VARIANTS = [
    ErrorFirst(previous_not_found("resp_000001")),
    ErrorFirst(previous_not_found("resp_000001"), "no_status"),
    ErrorFirst(previous_not_found("resp_000001"), "flat"),
    ErrorFirst(ApiError(404, "gone", code="previous_response_not_found")),
    ErrorFirst(ApiError(400, "Invalid previous_response_id.")),
    ErrorFirst(ApiError(400, "unknown", param="previous_response_id")),
    ErrorFirst(ApiError(400, "Previous response with id 'resp_000001' not found.")),
]


def on(number: int, *faults: Fault) -> Any:
    """A script whose turn of that number has faults, and no other."""
    return lambda turn: Play(items=[message(f"answer {turn.number}")], faults=faults if turn.number == number else ())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("fault", VARIANTS, ids=range(len(VARIANTS)))
async def test_a_forgotten_response_is_answered_by_the_whole_turn_once_and_the_client_sees_nothing_of_it(
    *, fault: Fault, stream: bool
) -> None:
    async with rigged(on(2, fault)) as rig:
        talk = Talk(rig, stream=stream)
        await talk.say("a")
        got = await talk.say("b")
        assert (got.status, got.way) == (200, FORGOT)
        assert b"previous response" not in got.raw.lower()
        assert [turn.parent for turn in rig.up.turns] == ["", "resp_000001", ""]
        assert (await talk.say("c")).way == DELTA
        assert talk.ways == [FIRST, FORGOT, DELTA]
        value = await rig.metrics()
        assert value("deltawire_retries_total", cause="previous_response_not_found") == 1
        assert value("deltawire_retries_total") == 1
        assert rig.running.sidecar.recent.newest()[1]["retries"] == ["previous_response_not_found"]


async def test_a_refusal_after_a_keep_alive_event_still_comes_before_the_turn() -> None:
    async with rigged(on(2, VARIANTS[0], Stray(b'{"type":"codex.rate_limits"}', 0))) as rig:
        talk = Talk(rig)
        await talk.say("a")
        assert (await talk.say("b")).way == FORGOT


async def test_a_forgotten_response_is_not_tried_again_after_the_turn_began() -> None:
    async with rigged(on(2, ErrorAfter(previous_not_found("resp_000001"), 1))) as rig:
        talk = Talk(rig)
        await talk.say("a")
        got = await talk.say("b")
        assert (got.status, got.fault["code"], got.fault["type"]) == (503, "upstream_refused", "server_error")
        assert got.headers["x-deltawire-error"] == "upstream_refused"
        assert len(rig.up.turns) == 2


async def test_the_same_words_about_a_turn_that_named_no_response_are_passed_on() -> None:
    async with rigged(on(1, VARIANTS[0])) as rig:
        rig.checked = False  # the checker takes the refusal for the first of two tries
        got = await Talk(rig).say("a")
        assert (got.status, got.fault["code"]) == (400, "previous_response_not_found")
        assert len(rig.up.turns) == 1


@pytest.mark.parametrize(
    "refusal",
    [VARIANTS[0], ErrorFirst(ApiError(500, "`previous_response_id` is not supported here", type="api_error"))],
)
async def test_an_upstream_that_refuses_every_continuation_is_no_longer_asked_for_one(refusal: Fault) -> None:
    def script(turn: Turn) -> Play:
        return Play(items=[message(f"answer {turn.number}")], faults=[refusal] if turn.parent else ())

    async with rigged(script) as rig:
        rig.checked = False  # turns that were refused for good were not seen by a model
        for _ in range(MISSES):
            talk = Talk(rig, store=False)
            await talk.say("a")
            await talk.say("b")
        talk = Talk(rig, store=False)
        await talk.say("a")
        got = await talk.say("b")
        assert (got.status, got.way) == (200, ("full", "not_continued"))
        assert sum(bool(turn.parent) for turn in rig.up.turns) == MISSES
        other = Talk(rig, store=False, key="sk-two")
        await other.say("a")
        await other.say("b")
        assert sum(bool(turn.parent) for turn in rig.up.turns) == MISSES + 1  # its own turns judge for each tenant
        with patch("proxy.turn.monotonic", lambda: monotonic() + DISTRUST):
            await talk.say("c")
        assert sum(bool(turn.parent) for turn in rig.up.turns) == MISSES + 2


async def test_errors_of_the_clients_own_requests_cost_it_no_deltas() -> None:
    def script(turn: Turn) -> Play:
        too_long = ErrorFirst(invalid_request("Too long.", code="context_length_exceeded"))
        return Play(items=[message(f"answer {turn.number}")], faults=[too_long] if b"too long" in turn.raw else ())

    async with rigged(script) as rig:
        rig.checked = False  # turns that were refused for good were not seen by a model
        for _ in range(MISSES):
            talk = Talk(rig, store=False)
            await talk.say("a")
            assert (await talk.say("too long")).status == 400
        talk = Talk(rig, store=False)
        await talk.say("a")
        assert (await talk.say("b")).way == DELTA


async def test_a_response_that_another_link_made_is_after_several_misses_sought_on_its_own_link_only() -> None:
    forgetful = True

    def script(turn: Turn) -> Play:
        faults = [VARIANTS[0]] if turn.parent and forgetful else ()
        return Play(items=[message(f"answer {turn.number}")], faults=faults)

    async with rigged(script) as rig:
        for number in range(MISSES + 1):
            talk = Talk(rig)
            await talk.say(f"{number}")
            await rig.spare()
            for connection in rig.up.connections:
                await connection.close()
            await until(lambda: not len(rig.links.pool))
            assert (await talk.say("again")).way == (FORGOT if number < MISSES else ("full", "link_lost"))
            forgetful = False
            assert (await talk.say("more")).way == DELTA  # on its own link it has to be known, and is
            forgetful = True


@pytest.mark.parametrize(
    "words",
    [
        "The input item ID does not belong to this connection.",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "The encrypted content could not be verified.",
    ],
)
async def test_an_error_about_items_of_a_link_that_is_gone_is_passed_on_with_the_reason_and_nothing_is_left_out(
    words: str,
) -> None:
    async with rigged(on(2, ErrorFirst(invalid_request(words)))) as rig:
        rig.checked = False  # the turn that was refused was not seen by a model
        talk = Talk(rig, store=False)
        await talk.say("a")
        rig.end_links()
        talk.history += [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}]
        got = await talk.say("b")
        assert (got.status, got.fault["message"], got.own_error) == (400, words, None)
        assert got.way == ("full", "link_retired")
        assert json.loads(rig.up.turns[-1].raw)["input"] == talk.history
        assert len(rig.up.turns) == 2


TOGETHER = "Request validation error: Argument not supported: instructions and previous_response_id together"


async def test_a_field_that_no_continuation_may_have_is_learned_from_one_refusal_that_no_client_sees() -> None:
    error = ErrorFirst(ApiError(500, TOGETHER, type="api_error"), "untyped")

    def script(turn: Turn) -> Play:
        refused = turn.parent and "instructions" in turn.body
        return Play(items=[message(f"answer {turn.number}")], faults=[error] if refused else ())

    async with rigged(script) as rig:
        talk = Talk(rig, instructions="Be brief.")
        for text in ("a", "b", "c"):
            assert (await talk.say(text)).status == 200
        assert talk.ways == [FIRST, *[("full", "field_unchained")] * 2]
        assert [turn.parent for turn in rig.up.turns] == ["", "resp_000001", "", ""]
        assert rig.running.sidecar.recent.newest()[0]["envelope_changed"] == "instructions"
        other = Talk(rig)
        assert [(await other.say(text)).way for text in ("a", "b")] == [FIRST, DELTA]
        value = await rig.metrics()
        assert value("deltawire_retries_total", cause="field_unchained") == 1
        with patch("proxy.turn.monotonic", lambda: monotonic() + LASTS):
            await talk.say("d")
        assert rig.up.turns[-2].parent  # the lesson was over, and is learned again


async def test_an_upstream_that_continues_nothing_costs_no_client_an_error() -> None:
    error = ErrorFirst(ApiError(500, "gRPC error: Response with id=resp_1 not found", type="api_error"), "untyped")

    def script(turn: Turn) -> Play:
        return Play(items=[message(f"answer {turn.number}")], faults=[error] if turn.parent else ())

    async with rigged(script) as rig:
        talk = Talk(rig, store=False)
        for number in range(MISSES + 2):
            assert (await talk.say(f"{number}")).status == 200
        assert talk.ways == [FIRST, *[FORGOT] * MISSES, ("full", "not_continued")]


@pytest.mark.parametrize("store", [True, False])
async def test_an_id_that_names_a_second_response_of_its_link_no_longer_continues_the_first(*, store: bool) -> None:
    def script(turn: Turn) -> Play:
        made = response_object([message(f"answer {turn.number}")], response_id="resp_one", request=turn.body)
        return Play(response=made)

    async with rigged(script) as rig:
        talk = Talk(rig, store=store)
        await talk.say("a")
        branch = talk.fork()
        await talk.say("b")
        await talk.say("c")
        assert talk.ways == [FIRST, DELTA, DELTA]
        assert (await branch.say("d")).way == ("full", "unknown_head")
        assert len({(head.response_id, head.link) for head in rig.heads}) == len(rig.heads)


@pytest.mark.parametrize("replay", ["off", "on"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_frame_that_was_too_large_for_the_upstream_goes_by_http_from_then_on(
    *, stream: bool, replay: str
) -> None:
    def script(turn: Turn) -> Play:
        large = turn.transport == "ws" and len(turn.raw) > 20_000
        return Play(items=[message(f"answer {turn.number}")], faults=[CloseAfter(0, 1009)] if large else ())

    async with rigged(script, replay_ambiguous=replay) as rig:
        rig.checked = False  # the turn that the upstream did not take is sent again by its client
        talk = Talk(rig, stream=stream)
        assert (await talk.say("a" * 30_000)).own_error == "link_lost"
        assert len(rig.up.turns) == 1
        for _ in range(BREAKER.after):
            assert (await talk.send()).way == ("http", "too_large")
        assert [(await Talk(rig).say(text)).way for text in "bc"] == [FIRST] * 2
        value = await rig.metrics()
        assert value("deltawire_link_ends_total", cause="too_large") == 1


@pytest.mark.parametrize("close", [None, 1000])
@pytest.mark.parametrize("number", [1, 2])
async def test_the_limit_of_a_connection_is_answered_by_the_whole_turn_on_another(
    number: int, close: int | None
) -> None:
    async with rigged(on(number, ErrorFirst(connection_limit(60), close=close))) as rig:
        talk = Talk(rig, store=False)
        for text in ("a", "b", "c")[: number + 1]:
            assert (await talk.say(text)).status == 200
        assert talk.ways[number - 1] == (FIRST if number == 1 else ("full", "link_retired"))
        assert talk.ways[-1] == DELTA
        refused, again = rig.up.turns[number - 1 : number + 1]
        assert refused.connection != again.connection
        assert again.parent == ""
        value = await rig.metrics()
        assert value("deltawire_retries_total", cause="websocket_connection_limit_reached") == 1
        assert value("deltawire_link_ends_total") == 1


async def test_one_retry_is_all_that_a_turn_gets() -> None:
    limit = ErrorFirst(connection_limit(60))

    def script(turn: Turn) -> Play:
        return Play(items=[message("m")], faults=[limit] if turn.number in {1, 2} else ())

    async with rigged(script) as rig:
        rig.checked = False  # the checker takes each refusal for the first of two tries
        talk = Talk(rig)
        got = await talk.say("a")
        assert (got.status, got.fault["code"]) == (503, "upstream_refused")
        assert len(rig.up.turns) == 2
        assert (await talk.send()).status == 200


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize(
    "fault",
    [
        Incomplete(),
        Failed(),
        ErrorFirst(server_error("boom")),
        ErrorAfter(server_error("boom"), 5),
        CloseAfter(0),
        CloseAfter(5, 1011),
        CloseAfter(1, 1000),
    ],
    ids=repr,
)
async def test_only_a_completed_answer_is_continued_and_any_other_makes_the_next_turn_full(
    fault: Fault, *, store: bool
) -> None:
    async with rigged(on(2, fault)) as rig:
        talk = Talk(rig, store=store)
        await talk.say("a")
        await talk.say("b")
        assert rig.heads == []
        assert (await talk.send()).way[0] == "full"
        assert len(rig.up.turns) == 3
        await talk.say("c")
        assert (await talk.say("d")).way == DELTA


async def test_an_incomplete_answer_that_is_echoed_is_not_continued() -> None:
    async with rigged(on(2, Incomplete())) as rig:
        talk = Talk(rig)
        await talk.say("a")
        got = await talk.say("b")
        talk.history += got.response["output"]
        assert (await talk.say("c")).way == ("full", "unknown_head")


async def test_an_answer_without_items_is_not_continued() -> None:
    async with rigged(lambda _: Play(items=[])) as rig:
        talk = Talk(rig)
        await talk.say("a")
        assert rig.heads == []
        assert (await talk.say("b")).way[0] == "full"


@pytest.mark.parametrize("store", [True, False])
async def test_an_answer_without_an_id_is_not_continued_and_loses_nothing(*, store: bool) -> None:
    def script(turn: Turn) -> Play:
        whole = response_object([message("m")], response_id=f"resp_{turn.number}", request=turn.body)
        return Play(response=whole if turn.number != 2 else whole | {"id": ""})

    async with rigged(script) as rig:
        talk = Talk(rig, store=store)
        for text in ("a", "b", "c", "d"):
            await talk.say(text)
        assert talk.ways == [FIRST, DELTA, DELTA if store else ("full", "superseded"), DELTA]
        assert [turn.parent for turn in rig.up.turns] == ["", "resp_1", "resp_1" if store else "", "resp_3"]


async def test_after_an_error_on_a_link_the_link_itself_goes_on() -> None:
    async with rigged(on(1, ErrorFirst(server_error("boom")))) as rig:
        talk = Talk(rig)
        assert (await talk.say("a")).status == 500
        assert (await talk.send()).status == 200
        assert (await rig.metrics())("deltawire_link_ends_total") == 0


async def test_a_second_turn_on_a_busy_state_goes_whole_over_its_own_link() -> None:
    gate = asyncio.Event()
    async with rigged(on(2, Hold(gate, 4))) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        await rig.spare()
        talk.history.append(user("b"))
        first = asyncio.ensure_future(talk.send())
        await rig.up.until(lambda: len(rig.up.turns) == 2)
        second = await talk.send()
        assert second.way == ("full", "head_busy")
        assert not first.done()
        gate.set()
        assert (await first).way == DELTA
        assert {turn.connection for turn in rig.up.turns} == {1, 2}


async def test_a_second_turn_on_a_busy_stored_state_is_a_delta_over_its_own_link() -> None:
    gate = asyncio.Event()
    async with rigged(on(2, Hold(gate, 4))) as rig:
        talk = Talk(rig)
        await talk.say("a")
        talk.history.append(user("b"))
        first = asyncio.ensure_future(talk.send())
        await rig.up.until(lambda: len(rig.up.turns) == 2)
        assert (await talk.send()).way == DELTA
        gate.set()
        assert (await first).way == DELTA
        assert rig.up.turns[1].connection != rig.up.turns[2].connection


async def leave(rig: Rig, body: bytes) -> None:
    """POST a body, and go away when the upstream has it and has played all that it plays."""
    asking = asyncio.ensure_future(rig.post(body))
    await rig.up.until(lambda: bool(rig.up.turns) and rig.up.turns[-1].raw.endswith(body[-30:]))
    turn = rig.up.turns[-1]
    expected = {"silent": 0, "held": 2, "speaking": 5}
    count = expected.get(turn.members["user"].decode().strip('"'), 0)
    await rig.up.until(lambda: turn.events_sent == count)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("phase", "after"), [("silent", 0), ("held", 2), ("speaking", 5)])
async def test_a_client_that_leaves_ends_its_link_and_leaves_nothing_else_behind(
    phase: str, after: int, *, stream: bool, store: bool
) -> None:
    async with rigged(on(2, Silence(after))) as rig:
        talk = Talk(rig, stream=stream, store=store)
        await talk.say("a")
        talk.history.append(user("b"))
        talk.envelope["user"] = phase
        await leave(rig, talk.body())
        ended = rig.up.connections[rig.up.turns[-1].connection - 1]
        await ended.closed.wait()
        await rig.quiet()
        assert all(head.leases == 0 for head in rig.heads)
        value = await rig.metrics()
        assert value("deltawire_clients_gone_total") == 1
        assert value("deltawire_links", state="busy") == 0
        assert value("deltawire_link_ends_total", cause="client_gone") == 1
        talk.history[-1] = user("something else")
        assert (await talk.send()).status == 200
        assert rig.up.turns[-1].connection != ended.number
        assert rig.up.turns[-1].parent == ("resp_000001" if store else "")


async def test_a_client_that_leaves_while_a_link_is_dialled_leaves_no_slot_behind() -> None:
    came, gone = asyncio.Event(), asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        while await reader.read(1000):
            pass
        writer.close()
        gone.set()

    async with await asyncio.start_server(never, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with rigged(url=f"http://127.0.0.1:{port}/v1") as rig:
            rig.checked = False
            asking = asyncio.ensure_future(rig.post(rig.body([user("a")])))
            await came.wait()
            assert rig.states == ["DIALING"]
            asking.cancel()
            await gone.wait()
            await rig.quiet()
            assert rig.states == []
            assert (await rig.metrics())("deltawire_clients_gone_total") == 1


async def test_a_client_that_leaves_while_the_end_is_written_costs_neither_the_link_nor_the_state() -> None:
    async with rigged(on(1, Big(16 * 2**20))) as rig:
        talk = Talk(rig, store=False)
        talk.history.append(user("a"))
        async with rig.open(talk.body()) as got:
            await got.content.readany()
            await until(lambda: bool(rig.heads))
        await until(lambda: not rig.running.sidecar._active)
        assert (await rig.metrics())("deltawire_clients_gone_total") == 1
        assert rig.links.pool.counts()["idle"] == 2
        talk.history += rig.up.turns[0].output[0].value, user("b")
        assert (await talk.send()).way == DELTA


async def test_while_the_end_is_written_to_one_client_another_uses_the_link_undisturbed() -> None:
    gate = asyncio.Event()

    def script(turn: Turn) -> Play:
        faults: list[Fault] = [Big(16 * 2**20)] if turn.number == 1 else [Hold(gate, 5)]
        return Play(items=[message("m")], faults=faults)

    async with rigged(script) as rig:
        slow = Talk(rig, store=False)
        slow.history.append(user("a"))
        async with rig.open(slow.body()) as got:
            await got.content.readany()
            await until(lambda: bool(rig.heads))
            slow.history += rig.up.turns[0].output[0].value, user("b")
            asking = asyncio.ensure_future(slow.send())
            await rig.up.until(lambda: len(rig.up.turns) == 2 and rig.up.turns[1].events_sent == 5)
            assert rig.up.turns[1].connection == 1
        await until(lambda: rig.running.sidecar._active == 1)
        gate.set()
        answered = await asking
        assert answered.way == DELTA
        assert answered.response["status"] == "completed"


async def test_a_link_that_died_unnoticed_is_replaced_before_anything_is_written() -> None:
    async with rigged(upstream={"upgrades": [Accept(answer_pings=False), Accept()]}, ping_interval=0.3) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        link = next(link for link in rig.links._links.values() if link.slot.latest is not None)
        link.heard -= 10.0
        got = await talk.say("b")
        assert (got.status, got.way) == (200, ("full", "link_lost"))
        assert {turn.connection for turn in rig.up.turns} == {1, 2}
        assert (await rig.metrics())("deltawire_link_ends_total", cause="ping_timeout") == 1


async def test_without_any_link_in_the_end_the_turn_goes_by_http() -> None:
    async with rigged(upstream={"upgrades": [Accept(), Accept(), RefuseUpgrade(503)]}) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        await rig.spare()
        links = list(rig.links._links.values())
        for link in links:
            link._socket._closed = True  # as after a network that went away, before the reader knows
        got = await talk.say("b")
        assert (got.status, got.way) == (200, ("http", "link_lost"))
        assert rig.up.turns[-1].transport == "http"
        for link in links:
            link._socket._closed = False
            await link._socket.close()


@pytest.mark.parametrize(
    ("seed", "tight"),
    [
        (0, {}),
        (1, {}),
        (2, {"max_links": 2}),
        (3, {"max_state": 6000}),
        (4, {"ping_interval": 0.05, "hold": 0.0, "silence": 0.02}),
        (5, {"max_links": 3, "max_state": 8000, "ping_interval": 0.05}),
    ],
)
async def test_conversations_at_random_with_faults_never_lose_or_double_anything(
    seed: int, tight: dict[str, Any]
) -> None:
    """Several clients that talk, branch, rewind, repeat and leave at the same time, over an upstream with faults."""
    choose = random.Random(seed)  # noqa: S311 - repeatable on purpose
    faults: list[tuple[Fault, ...]] = [
        (),
        (),
        (),
        (),
        (ErrorFirst(server_error("boom")),),
        (Incomplete(),),
        (Failed(),),
        (CloseAfter(None, 1000),),
        (CloseAfter(3),),
        (CloseAfter(0, 1011),),
        (Stray(after=None),),
        (ErrorFirst(connection_limit(60)),),
    ]

    def script(turn: Turn) -> Play:
        output = [reasoning(f"sealed-{turn.number}")] * choose.randrange(2) + [message(f"answer {turn.number}")]
        return Play(items=output, faults=choose.choice(faults) if turn.transport == "ws" else ())

    async def live(number: int) -> None:
        talk = Talk(rig, store=number % 3 != 0, stream=number % 2 == 0, prompt_cache_key="all")
        past: list[list[Any]] = []
        for step in range(12):
            move = choose.random()
            if move < 0.15 and past:
                talk.history = list(choose.choice(past))
            elif move < 0.25:
                await talk.send()
            elif move < 0.3:
                talk.history = [user(f"short {number} {step}")]
            elif move < 0.35:
                body = talk.body()
                rig.unserved.add(len(rig.bodies))
                asking = asyncio.ensure_future(rig.post(body))
                for _ in range(choose.randrange(40)):
                    await asyncio.sleep(0)
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking
            await talk.say(f"{choose.choice('ab')} {step}")
            past.append(list(talk.history))

    async with rigged(script, **tight) as rig:
        await asyncio.gather(*(live(number) for number in range(4)))
        await rig.quiet()
        transports = [turn["transport"] for turn in rig.running.sidecar.recent.newest()]
        assert "delta" in transports


# Responses that are resumed

APPEND = {"append": True}
FULLY: dict[str, Any] = {
    "instructions": "Be brief. " * 60,
    "tools": [{"type": "function", "name": "f", "description": "d" * 400}],
}


@pytest.mark.parametrize("store", [True, False, ...])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_server_that_offers_it_is_sent_only_what_differs(*, stream: bool, store: object) -> None:
    async with rigged(upstream=APPEND) as rig:
        talk = Talk(rig, stream=stream, store=store, **FULLY)
        for text in ("a", "b", "c", "d"):
            got = await talk.say(text)
            assert got.response["instructions"] == FULLY["instructions"]
            assert [tool["name"] for tool in got.response["tools"]] == ["f"]
            assert (got.response["status"], got.response["previous_response_id"]) == ("completed", None)
        assert talk.ways == [FIRST, DELTA, DELTA, DELTA]
        assert [turn.resumes for turn in rig.up.turns] == [False, True, True, True]
        assert all(len(turn.raw) < 400 for turn in rig.up.turns[1:])


async def test_the_client_of_a_resumed_turn_reads_the_events_of_any_turn() -> None:
    async with rigged(upstream=APPEND) as rig, rigged() as plain:
        talks = [Talk(one, store=False, **FULLY) for one in (rig, plain)]
        for talk in talks:
            await talk.say("a")
        got, expected = [await talk.say("b") for talk in talks]
        assert got.types == expected.types
        assert [event["sequence_number"] for event in got.events] == list(range(len(got.events)))
        assert got.response.keys() == expected.response.keys()
        assert rig.up.turns[1].resumes


async def test_members_that_change_come_or_go_are_all_that_a_resumed_turn_asks_for() -> None:
    async with rigged(upstream=APPEND) as rig:
        talk = Talk(rig, temperature=0.5, user="u", **FULLY)
        await talk.say("a")
        talk.envelope |= {"temperature": 1.0, "top_p": 0.5, "instructions": "Be.", "user": ...}
        assert (await talk.say("b")).way == DELTA
        assert {"temperature", "top_p", "instructions", "user"} <= members(rig.up.turns[1].raw).keys()
        assert "tools" not in members(rig.up.turns[1].raw)
        await talk.say("c")
        assert rig.up.turns[2].envelope == rig.up.turns[1].envelope | {"metadata": {"n": "3"}}
        assert members(rig.up.turns[2].raw).keys() == {"type", "response_id", "input", "metadata"}


async def test_a_server_that_forgot_how_it_was_asked_is_sent_everything_once() -> None:
    async with rigged(upstream=APPEND) as rig:
        talk = Talk(rig, store=False, **FULLY)
        await talk.say("a")
        rig.up.connections[0].cache.latest.clear()
        assert (await talk.say("b")).way == FORGOT
        assert (await talk.say("c")).way == DELTA
        assert [turn.resumes for turn in rig.up.turns] == [False, True, False, True]
        assert (await rig.metrics())("deltawire_retries_total", cause="previous_response_not_found") == 1


@pytest.mark.parametrize("fault", [Incomplete(), Failed(), ErrorFirst(server_error("boom")), CloseAfter(5, 1011)])
async def test_after_a_resumed_turn_that_came_to_nothing_everything_is_sent(fault: Fault) -> None:
    async with rigged(on(2, fault), upstream=APPEND) as rig:
        talk = Talk(rig, **FULLY)
        await talk.say("a")
        got = await talk.say("b")
        assert got.status == (500 if isinstance(fault, ErrorFirst) else 200)
        assert rig.up.turns[1].resumes
        assert (await talk.send()).way[0] == "full"
        assert not rig.up.turns[2].resumes


async def test_a_stored_response_that_another_link_made_is_continued_and_not_resumed() -> None:
    async with rigged(upstream=APPEND) as rig:
        talk = Talk(rig, **FULLY)
        await talk.say("a")
        await rig.spare()
        await rig.up.connections[0].close()
        await until(lambda: rig.states == ["IDLE"])
        assert (await talk.say("b")).way == DELTA
        assert (await talk.say("c")).way == DELTA
        assert [turn.resumes for turn in rig.up.turns] == [False, False, True]


async def test_a_branch_is_continued_and_not_resumed() -> None:
    async with rigged(upstream=APPEND) as rig:
        talk = Talk(rig)
        await talk.say("a")
        branch = talk.fork()
        await talk.say("b")
        assert (await branch.say("c")).way == DELTA
        assert [turn.resumes for turn in rig.up.turns] == [False, True, False]


async def test_nothing_is_resumed_where_it_is_switched_off_or_not_offered() -> None:
    for options in ({"upstream": APPEND, "append": "off"}, {"upstream": {"envelope": True}}):
        async with rigged(**options) as rig:
            talk = Talk(rig, **FULLY)
            for text in ("a", "b"):
                await talk.say(text)
            assert talk.ways == [FIRST, DELTA]
            assert not any(turn.resumes for turn in rig.up.turns)


async def test_members_that_travel_as_digests_may_change_in_a_resumed_turn() -> None:
    async with rigged(upstream={"append": True, "envelope": True}) as rig:
        talk = Talk(rig, **FULLY)
        await talk.say("a")
        for instructions in ("Be.", FULLY["instructions"]):
            talk.envelope["instructions"] = instructions
            assert (await talk.say("b")).way == DELTA
        assert b"deltawire_envelope" in rig.up.turns[2].raw
        assert rig.up.turns[2].resumes


# Contexts that are compared

COMPARES = {"context": True}


def proofs(rig: Rig) -> list[bool]:
    """For each turn whether a digest of its context came with it."""
    return ["deltawire_context" in members(turn.raw) for turn in rig.up.turns]


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_every_delta_brings_the_digest_of_the_whole_context_and_is_believed(
    *, stream: bool, append: bool
) -> None:
    async with rigged(upstream=COMPARES | {"append": append}) as rig:
        talk = Talk(rig, stream=stream, store=False)
        talk.echo = lambda output: [{"role": item["role"], "content": item["content"]} for item in output]
        for text in ("a", "b", "c", "d"):
            await talk.say(text)
        assert talk.ways == [FIRST, DELTA, DELTA, DELTA]
        assert proofs(rig) == [False, True, True, True]
        assert [turn["proved"] for turn in rig.running.sidecar.recent.newest()] == [True, True, True, False]


async def test_an_upstream_that_compares_nothing_is_sent_no_digest() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        for text in ("a", "b"):
            await talk.say(text, deltawire_context="x")
        assert proofs(rig) == [False, False]


async def test_an_upstream_that_holds_another_context_is_sent_the_whole_turn_and_it_is_counted() -> None:
    async with rigged(upstream=COMPARES) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        chains = rig.up._player._contexts._chains
        chains["resp_000001"] = b"another"
        got = await talk.say("b")
        assert (got.status, got.way, got.response["status"]) == (200, ("full", "context_mismatch"), "completed")
        assert (await talk.say("c")).way == DELTA
        value = await rig.metrics()
        assert value("deltawire_retries_total", cause="context_mismatch") == 1
        assert value("deltawire_turns_total", transport="full", reason="context_mismatch") == 1
        assert rig.running.sidecar.recent.newest()[1]["upstream_error"] == "context_mismatch"


async def test_an_upstream_that_keeps_losing_what_it_holds_is_left_alone_with_deltas_for_a_while() -> None:
    async with rigged(upstream=COMPARES) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        for _ in range(MISSES):
            rig.up._player._contexts._chains[f"resp_{len(rig.up.turns):06}"] = b"another"
            assert (await talk.say("b")).way == ("full", "context_mismatch")
        assert (await talk.say("c")).way == ("full", "not_continued")


async def test_a_stored_response_is_compared_on_any_link_though_each_binds_it_to_itself() -> None:
    async with rigged(upstream=COMPARES) as rig:
        talk = Talk(rig)
        await talk.say("a")
        await rig.spare()
        await rig.up.connections[0].close()
        await until(lambda: rig.states == ["IDLE"])
        assert [(await talk.say(text)).way for text in ("b", "c")] == [DELTA, DELTA]
        assert proofs(rig) == [False, True, True]


async def test_a_lenient_echo_is_proven_by_the_upstreams_own_record() -> None:
    def script(turn: Turn) -> Play:
        return Play(items=[reasoning(f"blob {turn.number}"), message(f"answer {turn.number}")])

    async with rigged(script, upstream=COMPARES, echo="lenient") as rig:
        rig.checked = False  # the model sees more than was sent
        talk = Talk(rig, store=False)
        talk.echo = lambda output: [item for item in output if item["type"] != "reasoning"]
        for text in ("a", "b", "c"):
            await talk.say(text)
        assert talk.ways == [FIRST, DELTA, DELTA]
        assert proofs(rig) == [False, True, True]


async def test_a_record_in_doubt_is_not_compared() -> None:
    async with rigged(
        [Play(items=[reasoning("blob"), message("b")], faults=[Resealed()])] * 2, upstream=COMPARES
    ) as rig:
        talk = Talk(rig)
        for text in ("a", "b"):
            await talk.say(text)
        assert talk.ways == [FIRST, DELTA]
        assert proofs(rig) == [False, False]


# Clients that try again while their first try still runs

RETRY = {"x_stainless_retry_count": "1", "idempotency_key": "stainless-python-retry-1"}


@pytest.mark.parametrize("store", [True, False])
async def test_a_retry_of_a_turn_that_still_runs_goes_its_own_way_and_harms_no_state(*, store: bool) -> None:
    gate = asyncio.Event()
    async with rigged(on(2, Hold(gate, 3))) as rig:
        talk = Talk(rig, store=store)
        await talk.say("a")
        talk.history.append(user("b"))
        first = asyncio.ensure_future(talk.send(x_stainless_retry_count="0", idempotency_key=RETRY["idempotency_key"]))
        await rig.up.until(lambda: len(rig.up.turns) == 2 and rig.up.turns[1].events_sent == 3)
        retried = await talk.send(**RETRY)
        assert retried.way == (DELTA if store else ("full", "head_busy"))
        gate.set()
        assert (await first).way == DELTA
        again = await talk.send(**RETRY)
        assert again.response["status"] == "completed"
        assert all(turn.own for turn in rig.up.turns), "no turn is ever sent without an item of its own"
        assert len({turn.connection for turn in rig.up.turns[1:3]}) == 2
        for answer in (await first, retried, again):
            branch = talk.fork()
            branch.history += answer.response["output"]
            assert (await branch.say("c")).response["status"] == "completed"


async def test_a_retry_after_the_client_gave_the_first_try_up_is_a_full_turn() -> None:
    gate = asyncio.Event()
    async with rigged(on(2, Hold(gate, 3))) as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        talk.history.append(user("b"))
        first = asyncio.ensure_future(talk.send())
        await rig.up.until(lambda: len(rig.up.turns) == 2 and rig.up.turns[1].events_sent == 3)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        gate.set()
        await until(rig.up.connections[0].closed.is_set)
        got = await talk.send(**RETRY)
        assert (got.way, got.response["status"]) == (("full", "link_lost"), "completed")


async def test_a_retry_of_a_turn_that_was_answered_adds_nothing_and_is_asked_again_whole() -> None:
    async with rigged() as rig:
        talk = Talk(rig, store=False)
        await talk.say("a")
        body = rig.bodies[1]
        again = await rig.post(body, **RETRY)
        assert (again.status, rig.up.turns[1].parent) == (200, "")
        assert len(rig.up.turns[1].own) == 1
        rig.checked = False  # one body, two turns
