"""What the client sees of an answer that comes over a link: bytes, statuses, ends."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import Any
from unittest.mock import patch

import orjson
import pytest

from proxy import link as link_module
from tests.support.responses import user
from tests.support.rig import Got, Rig, Talk, read, rigged, until
from upstream.scripted import Accept, Play, Turn, answer, message, reasoning
from upstream.scripted.faults import (
    Big,
    CloseAfter,
    EmptyOutput,
    ErrorAfter,
    ErrorFirst,
    Failed,
    Fault,
    Hold,
    Incomplete,
    Resealed,
    Silence,
    Spaced,
    Stray,
)
from wire import sse
from wire.errors import ApiError, server_error

HANDSHAKE = 2
"""Events before the first one of the answer itself."""
RATE_LIMIT = ApiError(
    429, "Slow down.", type="rate_limit_error", code="rate_limit_exceeded", headers={"retry-after": "7"}
)


def one(*faults: Fault, text: str = "answer") -> Any:
    """A script whose first turn has faults, and no other."""
    return lambda turn: Play(items=[message(text)], faults=faults if turn.number == 1 else ())


async def first_turn(rig: Rig, *, stream: bool = True) -> Got:
    return await Talk(rig, stream=stream).say("a")


async def test_every_event_is_its_type_and_its_json_and_nothing_else() -> None:
    async with rigged() as rig:
        got = await first_turn(rig)
        expected = answer(
            [message("answer 1")], response_id="resp_000001", request=rig.up.turns[0].body, input_tokens=21
        )
        assert got.raw == b"".join(sse.encode(event["type"], orjson.dumps(event)) for event in expected)
        assert got.raw.count(b"\n\n") == got.raw.count(b"event: ") == len(expected)


async def test_the_stream_says_that_it_must_be_neither_cached_nor_buffered() -> None:
    async with rigged() as rig:
        headers = (await first_turn(rig)).headers
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-cache"
        assert headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in headers
        assert "content-length" not in headers


async def test_each_event_reaches_the_client_before_the_next_one_exists() -> None:
    gates = {count: asyncio.Event() for count in range(3, 9)}
    async with rigged(one(*(Hold(gate, count) for count, gate in gates.items()))) as rig:
        body = rig.body([user("a")], stream=True)
        async with rig.open(body) as got:
            parser, seen = sse.Parser(), 0
            async for chunk in got.content.iter_any():
                seen += len(parser.feed(chunk))
                if seen in gates:
                    gates[seen].set()
            assert seen > len(gates)


async def test_the_client_reads_the_previous_response_id_that_it_sent_which_is_none() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        await talk.say("a")
        got = await talk.say("b")
        assert rig.up.turns[1].parent == "resp_000001"
        shown = [event["response"]["previous_response_id"] for event in got.events if "response" in event]
        assert shown == [None] * 3


async def test_a_client_that_does_not_stream_reads_the_previous_response_id_that_it_sent() -> None:
    async with rigged() as rig:
        talk = Talk(rig, stream=False, previous_response_id=None)
        await talk.say("a")
        got = await talk.say("b")
        assert got.way == ("delta", None)
        assert got.response["previous_response_id"] is None
        assert rig.up.turns[1].parent == "resp_000001"


async def test_newlines_between_tokens_do_not_break_the_stream() -> None:
    async with rigged(one(Spaced())) as rig:
        talk = Talk(rig)
        got = await talk.say("a")
        assert got.raw.count(b"\n") == 3 * len(got.events)
        assert got.response["output"][0]["content"][0]["text"] == "answer"
        assert (await talk.say("b")).way == ("delta", None)


async def test_events_of_an_unknown_type_are_passed_on() -> None:
    odd = b'{"type":"codex.rate_limits","limits":{"a":1.00}}'
    async with rigged(one(Stray(odd, 0), Stray(odd, 5))) as rig:
        talk = Talk(rig)
        got = await talk.say("a")
        assert got.raw.count(b"event: codex.rate_limits\ndata: " + odd + b"\n\n") == 2
        assert got.status == 200
        assert (await talk.say("b")).way == ("delta", None)


@pytest.mark.parametrize("stream", [True, False])
async def test_what_a_handshake_said_of_limits_is_not_told_of_turns(*, stream: bool) -> None:
    stale = {"x-ratelimit-remaining-requests": "9", "openai-processing-ms": "7", "x-request-id": "req_handshake"}
    async with rigged(upstream={"upgrades": Accept(headers=stale)}) as rig:
        got = await first_turn(rig, stream=stream)
        assert got.way == ("full", "first_turn")
        assert not {"x-ratelimit-remaining-requests", "openai-processing-ms"} & got.headers.keys()
        assert got.headers["x-request-id"] != "req_handshake"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_rate_limit_right_after_the_handshake_is_a_real_429(*, stream: bool) -> None:
    async with rigged(one(ErrorAfter(RATE_LIMIT, HANDSHAKE))) as rig:
        got = await first_turn(rig, stream=stream)
        assert got.status == 429
        assert got.headers["retry-after"] == "7"
        assert got.headers["content-type"].startswith("application/json")
        assert got.fault == {
            "message": "Slow down.",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        assert got.own_error is None


@pytest.mark.parametrize("style", ["nested", "no_status", "flat", "untyped"])
async def test_an_error_before_any_event_keeps_its_status_in_every_shape(style: Any) -> None:
    async with rigged(one(ErrorFirst(ApiError(400, "No.", code="invalid_prompt"), style))) as rig:
        got = await first_turn(rig)
        assert (got.status, got.fault["code"], got.fault["message"]) == (400, "invalid_prompt", "No.")
        assert len(rig.up.turns) == 1


async def test_an_error_after_output_is_one_flat_error_event_at_the_end() -> None:
    async with rigged(one(ErrorAfter(ApiError(503, "Busy.", code="server_is_overloaded"), 5))) as rig:
        got = await first_turn(rig)
        assert got.status == 200
        assert got.types[-1] == "error"
        assert got.events[-1] == {
            "type": "error",
            "code": "server_is_overloaded",
            "message": "Busy.",
            "param": None,
            "sequence_number": 5,
        }


async def test_a_client_that_does_not_stream_gets_an_error_at_any_time_as_a_status() -> None:
    async with rigged(one(ErrorAfter(ApiError(503, "Busy.", code="server_is_overloaded"), 5))) as rig:
        got = await first_turn(rig, stream=False)
        assert (got.status, got.fault["code"]) == (503, "server_is_overloaded")


async def test_the_status_is_sent_after_the_hold_time_with_the_events_so_far() -> None:
    gate = asyncio.Event()
    async with rigged(one(ErrorAfter(RATE_LIMIT, HANDSHAKE), Hold(gate, HANDSHAKE)), hold=0.0) as rig:
        async with rig.open(rig.body([user("a")], stream=True)) as got:
            assert got.status == 200
            gate.set()
            types = [event["type"] for event in (await read(got)).events]
        assert types[:HANDSHAKE] == ["response.created", "response.in_progress"]
        assert types[-1] == "error"


@pytest.mark.parametrize("code", [None, 1000, 1009, 1011])
async def test_a_link_that_dies_after_the_frame_was_written_is_a_502_and_never_sent_again(code: int | None) -> None:
    async with rigged(one(CloseAfter(0, code))) as rig:
        got = await first_turn(rig)
        assert (got.status, got.own_error) == (502, "link_lost")
        assert got.way == ("full", "first_turn")
        assert len(rig.up.turns) == 1


@pytest.mark.parametrize("code", [None, 1000])
@pytest.mark.parametrize("after", [1, 5])
async def test_an_answer_that_breaks_off_is_never_a_completed_one(after: int, code: int | None) -> None:
    async with rigged(one(CloseAfter(after, code))) as rig:
        got = await first_turn(rig, stream=False)
        assert (got.status, got.own_error) == (502, "link_lost")
        assert len(rig.up.turns) == 1


async def test_a_stream_that_breaks_off_after_output_ends_in_response_failed() -> None:
    async with rigged(one(CloseAfter(5, 1000))) as rig:
        got = await first_turn(rig)
        assert got.status == 200
        last = got.events[-1]
        assert last["type"] == "response.failed"
        assert last["sequence_number"] == 5
        assert last["response"]["status"] == "failed"
        assert last["response"]["error"]["code"] == "server_error"
        assert last["response"]["id"] == "resp_000001"
        assert rig.running.sidecar.recent.newest()[0]["error"] == "link_lost"


async def test_a_stream_that_breaks_off_while_only_a_comment_was_sent_ends_in_an_error_event() -> None:
    gate = asyncio.Event()
    async with rigged(one(CloseAfter(0, 1011), Hold(gate)), silence=0.01) as rig:
        async with rig.open(rig.body([user("a")], stream=True)) as got:
            gate.set()
            events = (await read(got)).events
        assert [event["type"] for event in events] == ["error"]
        assert events[0]["code"] == "link_lost"


async def test_a_silent_stream_is_kept_alive_by_comments_between_events() -> None:
    gate = asyncio.Event()
    raw = b""
    async with rigged(one(Hold(gate, 5)), silence=0.01) as rig:
        async with rig.open(rig.body([user("a")], stream=True)) as got:
            async for chunk in got.content.iter_any():
                raw += chunk
                if b"\n\n" + sse.COMMENT in raw:
                    gate.set()
            assert got.status == 200
        assert raw.replace(sse.COMMENT, b"").count(b"event: ") == 11
        assert all(part.lstrip().startswith(b"event: ") for part in raw.replace(sse.COMMENT, b"").split(b"\n\n")[:-1])
        assert [event.event for event in sse.Parser().feed(raw)][-1] == "response.completed"


async def test_silence_before_any_event_is_a_200_with_comments() -> None:
    gate = asyncio.Event()
    async with rigged(one(Hold(gate)), silence=0.01) as rig, rig.open(rig.body([user("a")], stream=True)) as got:
        assert got.status == 200
        assert (await got.content.readany()).startswith(sse.COMMENT)
        gate.set()
        assert b"event: response.completed" in await got.read()


async def test_a_client_that_does_not_stream_waits_for_as_long_as_it_takes() -> None:
    gate = asyncio.Event()
    async with rigged(one(Hold(gate, 4)), silence=0.01, hold=0.0) as rig:
        asking = asyncio.ensure_future(first_turn(rig, stream=False))
        await rig.up.until(lambda: bool(rig.up.turns) and rig.up.turns[0].events_sent == 4)
        assert not asking.done()
        gate.set()
        assert (await asking).response["status"] == "completed"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_that_failed_is_told_as_the_upstream_told_it(*, stream: bool) -> None:
    async with rigged(one(Failed())) as rig:
        got = await first_turn(rig, stream=stream)
        assert got.status == 200
        assert got.response["status"] == "failed"
        assert got.response["error"]["message"] == "The model failed."


@pytest.mark.parametrize("stream", [True, False])
async def test_an_incomplete_response_is_told_as_the_upstream_told_it(*, stream: bool) -> None:
    async with rigged(one(Incomplete())) as rig:
        got = await first_turn(rig, stream=stream)
        assert got.status == 200
        assert got.response["incomplete_details"] == {"reason": "max_output_tokens"}


async def test_an_output_that_the_terminal_event_left_out_is_rebuilt_from_its_items() -> None:
    async with rigged(one(EmptyOutput())) as rig:
        talk = Talk(rig, stream=False)
        got = await talk.say("a")
        assert got.response["output"][0]["content"][0]["text"] == "answer"
        assert (await talk.say("b")).way == ("delta", None)


async def test_a_stream_keeps_an_empty_terminal_output_and_the_next_turn_is_a_delta_all_the_same() -> None:
    async with rigged(one(EmptyOutput())) as rig:
        talk = Talk(rig)
        got = await talk.say("a")
        assert got.response["output"] == []
        talk.history += [event["item"] for event in got.events if event["type"] == "response.output_item.done"]
        assert (await talk.say("b")).way == ("delta", None)


@pytest.mark.parametrize("stream", [True, False])
async def test_reasoning_that_was_sealed_twice_is_known_in_both_forms(*, stream: bool) -> None:
    def script(turn: Turn) -> Play:
        return Play(items=[reasoning(f"sealed-{turn.number}"), message("m")], faults=[Resealed()])

    async with rigged(script) as rig:
        talk = Talk(rig, stream=stream, store=False)
        await talk.say("a")
        await talk.say("b")
        assert talk.ways[1] == ("delta", None)


async def test_usage_and_number_text_of_the_terminal_event_are_passed_on_byte_by_byte() -> None:
    def script(turn: Turn) -> Play:
        events = answer([message("m")], response_id="resp_x", request=turn.body)
        raw = [orjson.dumps(event) for event in events]
        raw[-1] = raw[-1].replace(b'"cached_tokens":0', b'"cached_tokens": 10E0, "b":"\\u00e4"')
        return Play(events=raw)

    async with rigged(script) as rig:
        for stream in (True, False):
            got = await first_turn(rig, stream=stream)
            assert b'"cached_tokens": 10E0, "b":"\\u00e4"' in got.raw


@pytest.mark.parametrize("stream", [True, False])
async def test_an_event_of_many_megabytes_passes(*, stream: bool) -> None:
    async with rigged(one(Big(9 * 2**20))) as rig:
        talk = Talk(rig, stream=stream)
        got = await talk.say("a")
        assert len(got.response["padding"]) == 9 * 2**20
        assert (await talk.say("b")).way == ("delta", None)


@pytest.mark.parametrize(
    "stray",
    [
        b"{not json",
        b'{"type":"response.created","response":{"id":"resp_other"}}',
        b'{"type":"response.output_text.delta","stream_id":"lane","delta":"x"}',
        b'{"no":"type"}',
    ],
)
async def test_a_frame_that_cannot_belong_to_the_answer_ends_the_link_and_the_answer(stray: bytes) -> None:
    async with rigged(one(Stray(stray, 5))) as rig:
        talk = Talk(rig)
        got = await talk.say("a")
        assert got.types[-1] == "response.failed"
        assert "other" not in got.raw.decode()
        await rig.up.connections[0].closed.wait()
        assert (await rig.metrics())("deltawire_link_ends_total", cause="out_of_order") == 1
        assert (await talk.send()).status == 200


async def test_a_slow_reader_stops_the_reading_of_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "MAX_BUFFERED", 256 * 1024)
    piece = b'{"type":"response.output_text.delta","delta":"%b"}' % (b"x" * 64 * 1024)
    count = 600

    def script(turn: Turn) -> Play:
        events: list[Any] = answer([message("m")], response_id="resp_x", request=turn.body)
        return Play(events=[*events[:5], *[piece] * count, *events[5:]])

    async with rigged(script, ping_interval=0.05) as rig, rig.open(rig.body([user("a")], stream=True)) as got:
        link = next(iter(rig.links._links.values()))
        await until(lambda: not link._room.is_set())
        # What the sockets, the writer and the link hold is bounded; the upstream waits with the rest.
        assert link._buffered < 512 * 1024
        assert rig.up.turns[0].events_sent < count // 2
        assert len((await read(got)).events) == count + 9


async def test_the_first_event_and_all_events_are_counted() -> None:
    async with rigged() as rig:
        await first_turn(rig)
        turn = rig.running.sidecar.recent.newest()[0]
        assert turn["events"] == 11
        assert isinstance(turn["first_event_s"], float)
        assert (turn["usage_input"], turn["usage_output"], turn["usage_cached"]) == (21, 1, 0)


async def test_the_events_of_an_answer_that_breaks_off_are_counted_as_well() -> None:
    async with rigged(one(CloseAfter(4, 1011))) as rig:
        await first_turn(rig)
        (record,) = rig.running.sidecar.recent.newest()
        assert (record["error"], record["events"]) == ("link_lost", 4)


async def test_an_error_of_the_upstream_is_on_record_by_its_code() -> None:
    async with rigged(one(ErrorFirst(server_error("Boom.", code="boom")))) as rig:
        got = await first_turn(rig)
        assert json.loads(got.raw)["error"]["code"] == "boom"
        turn = rig.running.sidecar.recent.newest()[0]
        assert (turn["status"], turn["upstream_error"], turn["error"]) == (500, "boom", "")


async def test_a_code_that_quotes_the_request_is_shown_to_the_client_and_is_not_on_record() -> None:
    async with rigged(one(ErrorFirst(server_error("Boom.", code="no key sk-9d2")))) as rig:
        got = await first_turn(rig)
        assert json.loads(got.raw)["error"]["code"] == "no key sk-9d2"
        turn = rig.running.sidecar.recent.newest()[0]
        assert (turn["upstream_error"], "sk-9d2" in str(turn)) == ("other", False)


async def test_a_client_that_leaves_a_silent_stream_is_noticed() -> None:
    async with rigged(one(Silence(5))) as rig:
        await rig.leave(rig.body([user("a")], stream=True))
        await rig.up.connections[0].closed.wait()
        await rig.quiet()
        assert (await rig.metrics())("deltawire_link_ends_total", cause="client_gone") == 1


# An upstream that says nothing more


@pytest.mark.parametrize("stream", [True, False])
async def test_a_first_event_that_does_not_come_in_time_is_a_504_whatever_pongs_come(*, stream: bool) -> None:
    async with rigged(one(Silence(0)), first_event_timeout=0.2, ping_interval=0.05) as rig:
        got = await first_turn(rig, stream=stream)
        assert (got.status, got.own_error, got.fault["code"]) == (504, "upstream_late", "upstream_late")
        assert len(rig.up.turns) == 1
        assert rig.up.connections[0].pings > 0
        assert (await rig.metrics())("deltawire_link_ends_total", cause="event_timeout") == 1


async def test_a_further_event_that_does_not_come_in_time_ends_the_stream_in_response_failed() -> None:
    async with rigged(one(Silence(5)), event_timeout=0.1) as rig:
        got = await first_turn(rig)
        assert (got.status, got.types[-1]) == (200, "response.failed")
        assert got.events[-1]["response"]["error"]["message"] == "The upstream said nothing for too long."
        assert rig.running.sidecar.recent.newest()[0]["error"] == "upstream_late"


async def test_each_event_gives_the_next_one_its_time_and_the_first_has_its_own() -> None:
    gate, looks = asyncio.Event(), 0

    def later() -> float:
        nonlocal looks
        looks += 1
        return monotonic() + 1000.0

    async with (
        rigged(one(Hold(gate, 5)), first_event_timeout=500.0, event_timeout=3600.0, silence=0.01) as rig,
        rig.open(rig.body([user("a")], stream=True)) as got,
    ):
        await got.content.readuntil(b"response.output_item.added")
        with patch("proxy.relay.monotonic", later), patch("proxy.link.monotonic", later):
            await until(lambda: looks > 20)
            gate.set()
            assert b"event: response.completed" in await got.read()


# A turn that may have run, sent once more with the operator's leave


@pytest.mark.parametrize("code", [None, 1011])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_link_that_dies_in_silence_is_replayed_once_where_the_operator_wants_it(
    *, code: int | None, stream: bool
) -> None:
    async with rigged(one(CloseAfter(0, code)), replay_ambiguous="on") as rig:
        rig.checked = False  # the checker takes a turn that comes twice for doubled
        got = await first_turn(rig, stream=stream)
        assert (got.status, got.way, got.response["status"]) == (200, ("full", "first_turn"), "completed")
        assert len(rig.up.turns) == 2
        value = await rig.metrics()
        assert value("deltawire_retries_total", cause="link_lost") == 1
        assert value("deltawire_errors_total", error="link_lost") == 0


async def test_a_link_that_dies_twice_or_after_an_event_is_not_replayed() -> None:
    async with rigged(lambda _: Play(items=[message("a")], faults=[CloseAfter(0)]), replay_ambiguous="on") as rig:
        rig.checked = False
        got = await first_turn(rig)
        assert (got.status, got.own_error, len(rig.up.turns)) == (502, "link_lost", 2)
    async with rigged(one(CloseAfter(1)), replay_ambiguous="on") as rig:
        got = await first_turn(rig)
        assert (got.status, got.own_error, len(rig.up.turns)) == (502, "link_lost", 1)
