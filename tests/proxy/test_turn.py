"""Whole turns through a sidecar: which way each goes, and that the model sees exactly what the client sent."""

from __future__ import annotations

import asyncio
import gzip
import sys
from dataclasses import replace

import pytest

from proxy.habits import ALONE
from tests.support.responses import tool_output, user
from tests.support.rig import Talk, rigged
from upstream.scripted import Play, Turn, function_call, message, reasoning

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FIRST = ("full", "first_turn")
DELTA = ("delta", None)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("store", [..., True, False])
async def test_after_the_first_turn_only_new_items_travel_and_the_context_stays_whole(
    *, stream: bool, store: object
) -> None:
    async with rigged() as rig:
        talk = Talk(rig, stream=stream, store=store)
        for number in range(12):
            got = await talk.say(f"question {number}")
            assert got.status == 200
            assert len(rig.up.turns[-1].own) == 1
        assert talk.ways == [FIRST] + [DELTA] * 11
        assert {turn.connection for turn in rig.up.turns} == {1}
        assert [len(turn.context) for turn in rig.up.turns] == [1 + 2 * number for number in range(12)]


@pytest.mark.parametrize("store", [True, False])
async def test_a_tool_loop_with_reasoning_goes_as_deltas_of_tool_outputs(*, store: bool) -> None:
    def script(turn: Turn) -> Play:
        sealed = f"sealed-{turn.number}"
        return Play(items=[reasoning(sealed), function_call(f"call_{turn.number}", "ls", '{"b": 1,"a":[2]}')])

    def stripped(output: list[dict[str, object]]) -> list[dict[str, object]]:
        """What clients do to an answer on its way back."""
        thought, call = output
        return [
            {"type": "reasoning", "summary": [], "encrypted_content": thought["encrypted_content"]},
            {"type": "function_call", "call_id": call["call_id"], "name": "ls", "arguments": '{"a":[2],"b":1}'},
        ]

    async with rigged(script) as rig:
        talk = Talk(rig, store=store, instructions="Use tools.", tools=[{"type": "function", "name": "ls"}])
        talk.echo = stripped
        await talk.say("go")
        for number in range(1, 6):
            await talk.say(tool_output(f"call_{number}"))
            assert rig.up.turns[-1].own[0].value["type"] == "function_call_output"
        assert talk.ways == [FIRST] + [DELTA] * 5
        assert [len(turn.own) for turn in rig.up.turns] == [1] * 6


@pytest.mark.parametrize("store", [True, False])
async def test_five_siblings_at_once_under_one_key_each_get_their_own_link_and_go_on_as_deltas(*, store: bool) -> None:
    together, gate = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> Play:
        if len(turn.context) == 1:
            if sum(len(one.context) == 1 for one in rig.up.turns) == 5:
                together.set()
            await gate.wait()
        return Play(items=[message(f"answer {turn.number}")])

    async with rigged(script) as rig:
        talks = [Talk(rig, store=store, prompt_cache_key="shared") for _ in range(5)]
        firsts = [asyncio.ensure_future(talk.say("the same question")) for talk in talks]
        await together.wait()
        gate.set()
        assert [got.way for got in await asyncio.gather(*firsts)] == [FIRST] * 5
        for step in range(3):
            gots = await asyncio.gather(*(talk.say(f"{number} goes on {step}") for number, talk in enumerate(talks)))
            assert [got.way for got in gots] == [DELTA] * 5
        assert len({turn.connection for turn in rig.up.turns}) == 5


async def test_interleaved_conversations_never_continue_each_other() -> None:
    async with rigged() as rig:
        talks = [Talk(rig, store=False, prompt_cache_key="one") for _ in range(3)]
        for step in range(4):
            for number, talk in enumerate(talks):
                await talk.say(f"{number} says {step}")
        assert [talk.ways for talk in talks] == [[FIRST] + [DELTA] * 3] * 3


async def test_both_branches_of_a_stored_conversation_are_deltas() -> None:
    async with rigged() as rig:
        one = Talk(rig)
        await one.say("a")
        await one.say("b")
        other = one.fork()
        for talk, text in ((one, "left"), (other, "right"), (one, "more left"), (other, "more right")):
            assert (await talk.say(text)).way == DELTA


async def test_a_branch_of_an_unstored_conversation_is_full_once_and_then_both_go_on_as_deltas() -> None:
    async with rigged() as rig:
        one = Talk(rig, store=False)
        await one.say("a")
        await one.say("b")
        other = one.fork()
        assert (await one.say("left")).way == DELTA
        assert (await other.say("right")).way == ("full", "superseded")
        assert (await one.say("more left")).way == DELTA
        assert (await other.say("more right")).way == DELTA
        assert len({turn.connection for turn in rig.up.turns}) == 2


async def test_a_rewind_continues_the_older_stored_state() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        for text in ("a", "b", "c"):
            await talk.say(text)
        del talk.history[3:]
        assert (await talk.say("edited")).way == DELTA  # of the first answer
        talk.history = talk.history[:2]
        assert (await talk.say("from the very start")).way == DELTA


async def test_a_restart_with_the_same_first_message_is_a_turn_of_its_own() -> None:
    async with rigged() as rig:
        first = Talk(rig, prompt_cache_key="same")
        await first.say("hello")
        await first.say("how are you")
        again = Talk(rig, prompt_cache_key="same")
        assert (await again.say("hello")).way == FIRST
        assert (await again.say("how are you")).way == DELTA
        assert [item.value["type"] for item in rig.up.turns[-1].context] == ["message"] * 3


async def test_after_a_compaction_exactly_the_short_history_is_sent() -> None:
    async with rigged() as rig:
        talk = Talk(rig, store=False)
        await talk.say("long " * 400)
        await talk.say("and on")
        talk.history = [user("short"), {"type": "compaction", "encrypted_content": "x"}]
        got = await talk.say("next")
        assert got.way[0] == "full"
        assert len(rig.up.turns[-1].own) == 3
        assert (await talk.say("further")).way == DELTA


@pytest.mark.parametrize("store", [True, False])
async def test_a_side_request_between_turns_does_not_disturb_the_conversation(*, store: bool) -> None:
    async with rigged() as rig:
        talk, side = Talk(rig, store=store), Talk(rig, store=store, stream=False)
        await talk.say("work")
        await rig.spare()
        assert (await side.say("a title for: work")).way == FIRST
        assert (await talk.say("more work")).way == DELTA
        assert (await talk.say("still more")).way == DELTA


@pytest.mark.parametrize(("store", "way"), [(True, DELTA), (False, ("full", "superseded"))])
async def test_the_same_body_again_is_never_an_empty_delta(*, store: bool, way: tuple[str, str | None]) -> None:
    async with rigged() as rig:
        talk = Talk(rig, store=store)
        await talk.say("a")
        talk.history.append(user("b"))
        assert (await talk.send()).way == DELTA
        assert (await talk.send()).way == way
        assert all(turn.own for turn in rig.up.turns)


async def test_a_history_that_ends_in_the_last_answer_is_sent_whole() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        await talk.say("a")
        assert (await talk.send()).way == ("full", "empty_delta")


async def test_item_references_to_known_outputs_are_those_outputs() -> None:
    async with rigged(lambda turn: Play(items=[reasoning(), message(f"answer {turn.number}")])) as rig:
        talk = Talk(rig)
        talk.echo = lambda output: [{"type": "item_reference", "id": item["id"]} for item in output]
        for number in range(5):
            await talk.say(f"question {number}")
        assert talk.ways == [FIRST] + [DELTA] * 4


async def test_an_item_reference_to_an_unknown_id_goes_by_http() -> None:
    async with rigged() as rig:
        rig.checked = False
        got = await rig.post(rig.body([user("a"), {"type": "item_reference", "id": "msg_gone"}, user("b")]))
        assert got.way == ("http", "client_state")
        assert got.status == 404


async def test_text_as_input_is_one_message_of_the_user() -> None:
    async with rigged() as rig:
        got = await rig.post(rig.body('say "hi"', stream=True))
        assert got.way == FIRST
        history = [{"role": "user", "type": "message", "content": 'say "hi"'}, *got.response["output"], user("again")]
        assert (await rig.post(rig.body(history, stream=True))).way == DELTA


async def test_where_new_instructions_are_honoured_they_come_with_a_delta() -> None:
    async with rigged(upstream_dialect="openai") as rig:
        talk = Talk(rig)
        for second in (20, 34, 50):
            talk.envelope["instructions"] = f"Now 15:09:{second}"
            await talk.say("a")
        assert talk.ways == [FIRST, DELTA, DELTA]
        assert b"15:09:50" in rig.up.turns[-1].raw


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("instructions", ["Now 15:09:20", "Now 15:09:34"]),
        ("tools", [[], [{"type": "function", "name": "y"}]]),
        ("reasoning", [{"effort": "low"}, {"effort": "high"}]),
        ("never_heard_of", [1, 1.0]),
    ],
)
async def test_a_changed_field_that_the_model_sees_is_sent_with_the_whole_history(
    field: str,
    values: list[object],
) -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        talk.envelope[field] = values[0]
        await talk.say("a")
        talk.envelope[field] = values[1]
        assert (await talk.say("b")).way == ("full", "envelope_changed")
        assert (await talk.say("c")).way == DELTA
        assert rig.running.sidecar.recent.newest()[1]["envelope_changed"] == field


async def test_fields_that_steer_one_turn_only_travel_fresh_with_a_delta() -> None:
    async with rigged() as rig:
        talk = Talk(rig, temperature=0.1, user="u1", client_metadata={"a": "1", "b": "2"})
        await talk.say("a")
        talk.envelope |= {"temperature": 0.9, "client_metadata": {"b": "2", "a": "1"}, "max_output_tokens": 99}
        del talk.envelope["user"]
        assert (await talk.say("b")).way == DELTA
        assert rig.up.turns[-1].envelope["temperature"] == 0.9
        assert "user" not in rig.up.turns[-1].envelope


@pytest.mark.parametrize(
    "state",
    [{"previous_response_id": "resp_000001"}, {"conversation": "conv_1"}, {"background": True}],
)
async def test_state_that_the_client_keeps_itself_goes_through_by_http(state: dict[str, object]) -> None:
    async with rigged() as rig:
        await rig.post(rig.body([user("a")]))
        got = await rig.post(rig.body([user("b")], **state))
        assert got.way == ("http", "client_state")
        assert got.response["output"][0]["content"][0]["text"] == "answer 2"
        assert rig.up.turns[-1].transport == "http"
        assert rig.up.turns[-1].raw == rig.bodies[2]


async def test_an_echo_without_its_reasoning_is_sent_as_it_is() -> None:
    async with rigged(lambda _: Play(items=[reasoning("e"), message("m")])) as rig:
        talk = Talk(rig)
        talk.echo = lambda output: output[1:]
        await talk.say("a")
        assert (await talk.say("b")).way == ("full", "reasoning_dropped")
        assert [item.value["type"] for item in rig.up.turns[-1].context] == ["message"] * 3


async def test_with_the_operators_leave_an_echo_without_its_reasoning_is_a_delta() -> None:
    async with rigged(lambda _: Play(items=[reasoning("e"), message("m")]), echo="lenient") as rig:
        rig.checked = False  # the record of the upstream stands, as said
        talk = Talk(rig)
        talk.echo = lambda output: output[1:]
        await talk.say("a")
        assert (await talk.say("b")).way == DELTA
        assert [item.value["type"] for item in rig.up.turns[-1].context] == [
            "message",
            "reasoning",
            "message",
            "message",
        ]


async def test_an_interrupted_tool_call_is_never_given_an_output_that_the_client_did_not_send() -> None:
    async with rigged(lambda turn: Play(items=[function_call(f"c{turn.number}", "ls")])) as rig:
        talk = Talk(rig)
        await talk.say("a")
        assert (await talk.say("never mind")).way == DELTA
        assert len(rig.up.turns[-1].context) == 3


async def test_two_keys_with_the_same_content_share_neither_states_nor_links() -> None:
    async with rigged() as rig:
        mine, yours = Talk(rig), Talk(rig, key="sk-two")
        await mine.say("a")
        yours.history = list(mine.history)
        assert (await yours.say("b")).way == ("full", "unknown_head")
        assert (await mine.say("b")).way == DELTA
        one, two = (rig.up.connections[turn.connection - 1] for turn in rig.up.turns[-2:])
        assert one.headers["authorization"] == "Bearer sk-two"
        assert two.headers["authorization"] == "Bearer sk-one"


@pytest.mark.parametrize("name", ["openai-organization", "openai-project", "openai-beta", "api-key"])
async def test_another_organization_project_or_beta_is_another_tenant(name: str) -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        await talk.say("a", **{name: "one"})
        assert (await talk.say("b", **{name: "two"})).way == ("full", "unknown_head")
        assert (await talk.say("c", **{name: "two"})).way == DELTA


async def test_headers_of_one_turn_do_not_cost_a_link() -> None:
    async with rigged() as rig:
        talk = Talk(rig, store=False)
        await talk.say("a", **{"x-turn-metadata": "one"})
        assert (await talk.say("b", **{"x-turn-metadata": "two"})).way == DELTA


@pytest.mark.parametrize(
    "body", [b'{"input": [', b"", b'{"input": "\xff"}', b'{"input": []} {}', b"[" * 100_000], ids=range(5)
)
async def test_a_body_that_is_no_json_is_refused_here(body: bytes) -> None:
    async with rigged() as rig:
        got = await rig.post(body)
        assert (got.status, got.fault["code"]) == (400, "invalid_json")
        assert got.own_error == "invalid_json"
        assert rig.up.turns == []


@pytest.mark.parametrize(
    "body",
    [
        b"[1]",
        b'{"model":"m","input":"a","model":"m"}',
        b'{"model":"m","input":7}',
        b'{"model":"m"}',
        b'{"model":"m","input":[1]}',
        b'{"model":"m","input":[],"tools":[{"a":1,"a":2}]}',
        b'{"model":"m","input":[{"role":"user","content":"\\ud800"}],"text":NaN}',
    ],
    ids=range(7),
)
async def test_a_body_that_is_not_for_the_sidecar_to_judge_goes_through_untouched(body: bytes) -> None:
    async with rigged() as rig:
        rig.checked = False
        got = await rig.post(body)
        assert got.way == ("http", "unreadable")
        assert rig.up.turns[0].raw == body


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_beyond_the_limit_is_refused_with_413(*, chunked: bool) -> None:
    async with rigged(max_body=1000) as rig:

        async def chunks() -> object:
            for _ in range(20):
                yield b" " * 100

        async with rig.session.post(rig.url, data=chunks() if chunked else b" " * 2000) as answer:
            assert answer.status == 413
            assert answer.headers["x-deltawire-error"] == "body_too_large"
            assert (await answer.json())["error"]["code"] == "request_too_large"


async def test_compressed_bodies_are_read_and_travel_plain_over_the_link() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        await talk.say("a" * 1000)
        talk.history.append(user("b"))
        got = await rig.post(zstd.compress(talk.body()), content_encoding="zstd")
        assert got.way == DELTA
        got = await rig.post(gzip.compress(talk.body()), content_encoding="gzip")
        assert got.way == DELTA


@pytest.mark.parametrize(
    ("encoding", "status", "code"),
    [("snappy", 415, "unsupported_encoding"), ("gzip", 400, "invalid_encoding")],
)
async def test_a_coding_that_cannot_be_undone_is_refused(encoding: str, status: int, code: str) -> None:
    async with rigged() as rig:
        got = await rig.post(b"not compressed", content_encoding=encoding)
        assert (got.status, got.own_error) == (status, code)


async def test_a_compressed_body_that_goes_by_http_stays_as_it_came() -> None:
    async with rigged(transport="http") as rig:
        body = rig.body([user("a" * 1000)])
        packed = gzip.compress(body)
        got = await rig.post(packed, content_encoding="gzip")
        assert got.way == ("http", "disabled")
        assert rig.up.turns[0].size == len(packed)
        assert rig.up.turns[0].headers["content-encoding"] == "gzip"


async def test_without_deltas_every_turn_is_full_over_a_link() -> None:
    async with rigged(transport="full") as rig:
        talk = Talk(rig)
        await talk.say("a")
        await talk.say("b")
        assert talk.ways == [("full", "disabled")] * 2


async def test_a_body_larger_than_a_frame_may_be_goes_by_http_and_a_small_delta_of_it_over_a_link() -> None:
    async with rigged() as rig:
        rig.links.dialect = replace(rig.links.dialect, max_frame=20_000)
        talk = Talk(rig)
        await talk.say("a" * 15_000)
        await talk.say("b" * 10_000)
        assert talk.ways == [FIRST, DELTA]
        assert (await Talk(rig).say("c" * 30_000)).way == ("http", "too_large")


@pytest.mark.parametrize("member", ["type", "stream_id", "generate", "deltawire_envelope"])
async def test_members_that_mean_something_on_links_only_are_left_to_the_upstream(member: str) -> None:
    async with rigged() as rig:
        rig.checked = False
        got = await rig.post(rig.body([user("a")], **{member: "x"}))
        assert (got.status, got.fault["param"]) == (400, member)
        assert got.way == ("http", "unreadable")


async def test_a_first_turn_without_tools_may_go_by_http_when_no_link_is_warm() -> None:
    async with rigged(one_shot="http") as rig:
        talk = Talk(rig, tools=[{"type": "function", "name": "f"}])
        assert (await Talk(rig).say("a")).way == ("http", "one_shot")
        assert (await talk.say("b")).way == FIRST
        await rig.spare()
        assert (await Talk(rig).say("c")).way == FIRST


async def test_a_caller_who_never_goes_on_gets_no_link_that_has_to_be_opened_until_it_does() -> None:
    async with rigged(one_shot="auto") as rig:
        for number in range(ALONE):
            assert (await Talk(rig).say(f"{number}")).way == FIRST
            await rig.spare()
            rig.end_links()
        talk = Talk(rig)
        assert (await talk.say("a")).way == ("http", "one_shot")
        assert (await talk.say("b")).way == ("full", "unknown_head")
        assert (await talk.say("c")).way == DELTA
        await rig.spare()
        rig.end_links()
        assert (await Talk(rig).say("a")).way == FIRST


async def test_callers_who_come_once_with_a_key_of_their_own_cost_no_handshake_after_a_while() -> None:
    async with rigged(one_shot="auto") as rig:
        for number in range(ALONE + 5):
            got = await Talk(rig, key=f"sk-{number}").say("a")
            assert got.way == (FIRST if number < ALONE else ("http", "one_shot"))
