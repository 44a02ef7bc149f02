import json

import pytest

from upstream.scripted.answers import events_of, message, response_object
from upstream.scripted.faults import CloseAfter, EmptyOutput
from upstream.scripted.script import Play, ScriptEnded, as_function
from upstream.scripted.steps import Reset, Text
from upstream.scripted.turn import ContextItem, Turn
from wire.errors import ApiError


def _turn() -> Turn:
    return Turn(1, "ws", 1, b"{}", members={"model": b'"m"'}, context=(ContextItem(b"x" * 40),))


def _texts(play: Play) -> list[bytes]:
    return [step.data for step in play.steps(_turn(), "resp_9") if isinstance(step, Text)]


def test_items_become_a_whole_answer_under_the_given_name() -> None:
    first, *_, last = [json.loads(text) for text in _texts(Play(items=[message("a")]))]
    assert first["response"]["id"] == "resp_9"
    assert last["response"]["model"] == "m"
    assert last["response"]["usage"]["input_tokens"] == 10


def test_a_response_object_becomes_its_events() -> None:
    response = response_object([message("a")], response_id="resp_1", request={})
    assert [json.loads(text) for text in _texts(Play(response=response))] == events_of(response)


def test_events_are_compact_raw_utf_8_and_bytes_are_left_alone() -> None:
    assert _texts(Play(events=[{"type": "x", "text": "é"}, b'{ "type": "y" }'])) == [
        '{"type":"x","text":"é"}'.encode(),
        b'{ "type": "y" }',
    ]


def test_an_error_comes_before_everything_else() -> None:
    assert _texts(Play(error=ApiError(500, "No."), items=[message("a")])) == [ApiError(500, "No.").ws_frame()]


def test_faults_apply_in_order() -> None:
    play = Play(items=[message("a")], faults=[EmptyOutput(), CloseAfter(None)])
    assert play.steps(_turn(), "resp_9")[-1] == Reset()
    assert json.loads(_texts(play)[-1])["response"]["output"] == []


def test_a_list_is_played_in_order_and_ends() -> None:
    one, two = Play(), Play()
    decide = as_function([one, two])
    assert [decide(_turn()), decide(_turn())] == [one, two]
    with pytest.raises(ScriptEnded):
        decide(_turn())


def test_a_function_decides_by_itself() -> None:
    play = Play()
    assert as_function(lambda _: play)(_turn()) is play
