import json
from typing import Any

import pytest

from upstream.scripted.answers import answer, events_of, function_call, message, reasoning, response_object
from wire.events import HANDSHAKE, TERMINAL

ITEMS = [
    reasoning("sealed", "a thought", "another"),
    message("one two three — four"),
    function_call("call_1", "run", '{"cmd":"ls"}'),
    {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "*** Begin", "status": "completed"},
    {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}},
]


def _answer(**request: Any) -> list[dict[str, Any]]:
    return answer(ITEMS, response_id="resp_1", request=request)


def test_an_answer_begins_with_the_handshake_and_ends_with_the_terminal_event() -> None:
    types = [event["type"] for event in _answer()]
    assert types[:2] == ["response.created", "response.in_progress"]
    assert types[-1] == "response.completed"
    assert not (HANDSHAKE | TERMINAL) & set(types[2:-1])


def test_sequence_numbers_count_from_zero_without_gaps() -> None:
    assert [event["sequence_number"] for event in _answer()] == list(range(len(_answer())))


def test_every_item_is_added_and_done_in_order_and_done_says_what_the_terminal_event_says() -> None:
    events = _answer()
    for kind in ("added", "done"):
        indices = [event["output_index"] for event in events if event["type"] == f"response.output_item.{kind}"]
        assert indices == list(range(len(ITEMS)))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("response.output_text.delta", "one two three — four"),
        ("response.function_call_arguments.delta", '{"cmd":"ls"}'),
        ("response.custom_tool_call_input.delta", "*** Begin"),
        ("response.reasoning_summary_text.delta", "a thoughtanother"),
    ],
)
def test_the_deltas_add_up_to_the_text(kind: str, text: str) -> None:
    deltas = [event["delta"] for event in _answer() if event["type"] == kind]
    assert len(deltas) > 1
    assert "".join(deltas) == text


def test_an_added_item_is_still_empty() -> None:
    added = [event["item"] for event in _answer() if event["type"] == "response.output_item.added"]
    assert added[0]["summary"] == []
    assert added[1]["content"] == []
    assert added[2]["arguments"] == added[3]["input"] == ""
    assert {item["status"] for item in added[1:]} == {"in_progress"}


def test_a_refusal_is_a_content_part_of_its_own() -> None:
    item = message("") | {"content": [{"type": "refusal", "refusal": "no"}]}
    events = answer([item], response_id="resp_1", request={})
    assert [event["type"] for event in events[3:-2]] == [
        "response.content_part.added",
        "response.refusal.delta",
        "response.refusal.delta",
        "response.refusal.done",
        "response.content_part.done",
    ]


def test_the_response_echoes_the_request_and_fills_the_rest_with_defaults() -> None:
    response = response_object(
        [], response_id="resp_1", request={"model": "m", "store": False, "previous_response_id": "resp_0"}
    )
    assert (response["model"], response["store"], response["previous_response_id"]) == ("m", False, "resp_0")
    assert response["tool_choice"] == "auto"


def test_items_get_an_id_by_their_type_unless_they_have_one() -> None:
    items = [message("a"), function_call("c", "f", id="fc_mine"), reasoning(), {"type": "new_thing"}]
    output = response_object(items, response_id="resp_7", request={})["output"]
    assert [item["id"] for item in output] == ["msg_7_0", "fc_mine", "rs_7_2", "item_7_3"]


def test_events_are_made_for_a_response_that_did_not_complete() -> None:
    response = response_object([message("cut")], response_id="resp_1", request={}) | {"status": "incomplete"}
    assert events_of(response)[-1]["type"] == "response.incomplete"


def test_usage_counts_the_context_that_was_given() -> None:
    usage = response_object([message("a")], response_id="r", request={}, input_tokens=10)["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (10, 1, 11)


def test_the_same_answer_is_made_twice_byte_for_byte() -> None:
    assert json.dumps(_answer(model="m")) == json.dumps(_answer(model="m"))
