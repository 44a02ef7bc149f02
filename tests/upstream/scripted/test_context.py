import json
from typing import Any

import pytest

from upstream.scripted.answers import function_call, message
from upstream.scripted.context import MAX_LANES, Cache, Contexts
from upstream.scripted.turn import ContextItem, Transport, Turn
from wire.errors import PREVIOUS_NOT_FOUND, ApiError
from wire.extensions import ENVELOPE_UNKNOWN, envelope_digest

A, B, C = ({"role": "user", "content": text} for text in "abc")
ANSWER = message("yes", id="msg_1")
CALL = function_call("call_1", "run", id="fc_1")


def _turn(body: dict[str, Any] | bytes, transport: Transport = "ws") -> Turn:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Turn(1, transport, 1, raw)


def _open(contexts: Contexts, cache: Cache, transport: Transport = "ws", **body: Any) -> Turn:
    turn = _turn(body, transport)
    contexts.open(turn, cache)
    return turn


def _complete(contexts: Contexts, cache: Cache, turn: Turn, name: str, *output: dict[str, Any]) -> None:
    turn.response_id = name
    turn.output = [ContextItem(json.dumps(item).encode(), output=True) for item in output]
    contexts.commit(turn, cache)


def _refusal(contexts: Contexts, cache: Cache, transport: Transport = "ws", **body: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        _open(contexts, cache, transport, **body)
    return caught.value


def _values(turn: Turn) -> list[Any]:
    return [item.value for item in turn.context]


def test_a_full_turn_is_what_it_says() -> None:
    assert _values(_open(Contexts(), Cache(), input=[A, B])) == [A, B]


def test_text_alone_is_one_message_of_the_user() -> None:
    assert _values(_open(Contexts(), Cache(), input="hi")) == [{"type": "message", "role": "user", "content": "hi"}]


def test_a_chain_of_deltas_sees_all_input_and_output_in_order() -> None:
    contexts, cache = Contexts(), Cache()
    _complete(contexts, cache, _open(contexts, cache, input=[A], store=False), "resp_1", ANSWER)
    second = _open(contexts, cache, input=[B], store=False, previous_response_id="resp_1")
    _complete(contexts, cache, second, "resp_2", CALL)
    third = _open(contexts, cache, input=[C], store=False, previous_response_id="resp_2")
    assert _values(third) == [A, ANSWER, B, CALL, C]
    assert [item.output for item in third.context] == [False, True, False, True, False]
    assert [item.value for item in third.own] == [C]


def test_without_store_only_the_latest_of_the_same_connection_goes_on() -> None:
    contexts, cache = Contexts(), Cache()
    for name in ("resp_1", "resp_2"):
        _complete(contexts, cache, _open(contexts, cache, input=[A], store=False), name)
    chained: dict[str, Any] = {"input": [B], "store": False}
    assert _refusal(contexts, cache, **chained, previous_response_id="resp_1").code == PREVIOUS_NOT_FOUND
    assert _refusal(contexts, Cache(), **chained, previous_response_id="resp_2").code == PREVIOUS_NOT_FOUND
    _open(contexts, cache, **chained, previous_response_id="resp_2")


@pytest.mark.parametrize("store", [{}, {"store": True}])
def test_a_stored_response_goes_on_anywhere(store: dict[str, Any]) -> None:
    contexts, cache = Contexts(), Cache()
    _complete(contexts, cache, _open(contexts, cache, input=[A], **store), "resp_1", ANSWER)
    _complete(contexts, cache, _open(contexts, cache, input=[B]), "resp_2")
    later = _open(contexts, Cache(), "http", input=[C], previous_response_id="resp_1")
    assert _values(later) == [A, ANSWER, C]


def test_a_response_that_did_not_complete_cannot_be_continued() -> None:
    contexts, cache = Contexts(), Cache()
    _open(contexts, cache, input=[A])
    assert _refusal(contexts, cache, input=[B], previous_response_id="resp_1").code == PREVIOUS_NOT_FOUND


def test_a_failed_continuation_takes_its_parent_with_it() -> None:
    contexts, cache = Contexts(), Cache()
    _complete(contexts, cache, _open(contexts, cache, input=[A], store=False), "resp_1")
    contexts.evict(_open(contexts, cache, input=[B], store=False, previous_response_id="resp_1"), cache)
    refusal = _refusal(contexts, cache, input=[B], store=False, previous_response_id="resp_1")
    assert (refusal.code, refusal.status, refusal.param) == (PREVIOUS_NOT_FOUND, 400, "previous_response_id")


def test_a_failed_full_turn_leaves_the_cache_alone() -> None:
    contexts, cache = Contexts(), Cache()
    _complete(contexts, cache, _open(contexts, cache, input=[A], store=False), "resp_1")
    contexts.evict(_open(contexts, cache, input=[B], store=False), cache)
    _open(contexts, cache, input=[B], store=False, previous_response_id="resp_1")


@pytest.mark.parametrize("again", [CALL, {"type": "item_reference", "id": "fc_1"}, {"id": "q_1", **A}])
def test_history_sent_again_in_a_chain_is_a_duplicate(again: dict[str, Any]) -> None:
    contexts, cache = Contexts(), Cache()
    _complete(contexts, cache, _open(contexts, cache, input=[{"id": "q_1", **A}]), "resp_1", CALL)
    refusal = _refusal(contexts, cache, input=[again, B], previous_response_id="resp_1")
    assert refusal.message.startswith(f"Duplicate item found with id {again['id']}.")
    _open(contexts, cache, input=[A, CALL, B])


def test_a_reference_is_the_item_it_names() -> None:
    contexts, cache = Contexts(), Cache()
    _complete(contexts, cache, _open(contexts, cache, input=[A]), "resp_1", ANSWER)
    for reference in ({"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}):
        turn = _open(contexts, Cache(), input=[A, reference, B])
        assert _values(turn) == [A, ANSWER, B]
        assert turn.context[1].output


def test_a_reference_to_what_was_not_stored_is_refused() -> None:
    contexts, cache = Contexts(), Cache()
    _complete(contexts, cache, _open(contexts, cache, input=[A], store=False), "resp_1", ANSWER)
    assert _refusal(contexts, cache, input=[A, {"type": "item_reference", "id": "msg_1"}]).status == 404


@pytest.mark.parametrize("name", ["type", "stream_id", "generate", "deltawire_envelope"])
def test_members_of_websocket_mode_are_refused_over_http(name: str) -> None:
    assert _refusal(Contexts(), Cache(), "http", **{name: "x", "input": []}).param == name


def test_stream_is_tolerated_over_websocket_and_remarked_but_background_is_not() -> None:
    turn = _open(Contexts(), Cache(), input=[], stream=True, background=False)
    assert turn.remarks == ["stream sent over WebSocket", "background sent over WebSocket"]
    assert _refusal(Contexts(), Cache(), input=[], background=True).param == "background"


def test_a_conversation_excludes_a_previous_response() -> None:
    contexts, cache = Contexts(), Cache()
    refusal = _refusal(contexts, cache, input=[], previous_response_id="resp_1", conversation="conv_1")
    assert refusal.param == "conversation"


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"input":[{"a":1,"a":2}]}', b'{"a":"\xff"}'])
def test_what_is_not_one_clear_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(ApiError):
        Contexts().open(_turn(raw), Cache())


def test_an_input_of_another_type_is_refused() -> None:
    assert _refusal(Contexts(), Cache(), input={"role": "user"}).param == "input"


def test_an_envelope_digest_stands_for_what_the_connection_has_carried() -> None:
    contexts, cache = Contexts(envelope=True), Cache()
    tools = [{"type": "function", "name": "run"}]
    digest = {"tools": envelope_digest(json.dumps(tools).encode())}
    unknown = _refusal(contexts, cache, input=[], deltawire_envelope=digest)
    assert (unknown.code, unknown.status, unknown.param) == (ENVELOPE_UNKNOWN, 409, "tools")
    _open(contexts, cache, input=[], tools=tools)
    assert _open(contexts, cache, input=[], deltawire_envelope=digest).envelope == {"tools": tools}
    assert _refusal(contexts, Cache(), input=[], deltawire_envelope=digest).code == ENVELOPE_UNKNOWN


def test_an_envelope_digest_is_refused_where_it_was_not_offered_or_makes_no_sense() -> None:
    assert _refusal(Contexts(), Cache(), input=[], deltawire_envelope={"tools": "x"}).param == "deltawire_envelope"
    contexts = Contexts(envelope=True)
    assert _refusal(contexts, Cache(), input=[], tools=[], deltawire_envelope={"tools": "x"}).status == 400
    assert _refusal(contexts, Cache(), input=[], deltawire_envelope={"model": "x"}).status == 400


def test_lanes_each_have_their_own_latest_response() -> None:
    contexts, cache = Contexts(lanes=True), Cache()
    for lane in ("one", "two"):
        turn = _open(contexts, cache, input=[A], store=False, stream_id=lane)
        _complete(contexts, cache, turn, f"resp_{lane}")
    for lane in ("one", "two"):
        _open(contexts, cache, input=[B], store=False, stream_id=lane, previous_response_id=f"resp_{lane}")


def test_lane_names_are_checked_counted_and_refused_where_not_offered() -> None:
    assert _refusal(Contexts(), Cache(), input=[], stream_id="a").param == "stream_id"
    contexts, cache = Contexts(lanes=True), Cache()
    assert _refusal(contexts, cache, input=[], stream_id="").code == "invalid_stream_id"
    for number in range(MAX_LANES):
        _open(contexts, cache, input=[], stream_id=f"lane-{number}")
    assert _refusal(contexts, cache, input=[], stream_id="one-more").code == "websocket_stream_limit_reached"
    _open(contexts, cache, input=[], stream_id="lane-0")


def test_the_envelope_is_all_that_is_neither_input_nor_way() -> None:
    turn = _open(Contexts(), Cache(), type="response.create", input=[A], stream=True, model="m", tools=[], x=1)
    assert turn.envelope == {"model": "m", "tools": [], "x": 1}


def test_of_more_responses_than_are_kept_the_oldest_is_forgotten_with_its_items() -> None:
    contexts, cache = Contexts(keep=2), Cache()
    for number in range(3):
        turn = _open(contexts, cache, input=[A])
        _complete(contexts, cache, turn, f"resp_{number}", message("yes", id=f"msg_{number}"))
    assert _refusal(contexts, Cache(), input=[B], previous_response_id="resp_0").code == PREVIOUS_NOT_FOUND
    assert _refusal(contexts, Cache(), input=[{"type": "item_reference", "id": "msg_0"}]).status == 404
    assert len(_open(contexts, Cache(), input=[B], previous_response_id="resp_1").context) == 3


def test_a_connection_whose_latest_response_was_forgotten_says_so() -> None:
    contexts, idle, busy = Contexts(keep=1, append=True), Cache(), Cache()
    for cache, name in ((idle, "resp_0"), (busy, "resp_1")):
        _complete(contexts, cache, _open(contexts, cache, input=[A], store=False), name, ANSWER)
    assert _refusal(contexts, idle, input=[B], previous_response_id="resp_0").code == PREVIOUS_NOT_FOUND
    assert _refusal(contexts, idle, type="response.append", response_id="resp_0").code == PREVIOUS_NOT_FOUND


# Responses that are resumed


def _append(contexts: Contexts, cache: Cache, name: str, **body: Any) -> Turn:
    return _open(contexts, cache, type="response.append", response_id=name, **body)


def test_a_resumed_turn_is_the_request_before_it_but_for_what_it_says() -> None:
    contexts, cache = Contexts(append=True), Cache()
    first = _open(contexts, cache, type="response.create", input=[A], model="m", user="u", store=False, top_p=1)
    _complete(contexts, cache, first, "resp_1", ANSWER)
    second = _append(contexts, cache, "resp_1", input=[B], user=None, top_p=0.5)
    _complete(contexts, cache, second, "resp_2")
    third = _append(contexts, cache, "resp_2", input=[C])

    assert (second.resumes, second.parent, _values(second)) == (True, "resp_1", [A, ANSWER, B])
    assert second.envelope == third.envelope == {"model": "m", "store": False, "top_p": 0.5}
    assert _values(third) == [A, ANSWER, B, C]


def test_only_the_latest_response_of_the_lane_is_resumed() -> None:
    contexts, cache = Contexts(append=True), Cache()
    for name in ("resp_1", "resp_2"):
        _complete(contexts, cache, _open(contexts, cache, input=[A]), name)
    for name in ("resp_1", "resp_9"):
        assert _refusal(contexts, cache, type="response.append", response_id=name).code == PREVIOUS_NOT_FOUND
    assert _refusal(contexts, cache, type="response.append").code == PREVIOUS_NOT_FOUND
    turn = _turn({"type": "response.append", "response_id": "resp_2", "input": 3})
    with pytest.raises(ApiError):
        contexts.open(turn, cache)
    contexts.evict(turn, cache)
    assert cache.latest == {}, "the response that could not be resumed is lost with the turn"


def test_where_it_is_not_offered_the_frame_is_of_an_unknown_type() -> None:
    assert _refusal(Contexts(), Cache(), type="response.append", response_id="resp_1").param == "type"
