import json
from typing import Any

import pytest

from tests.upstream.helpers import SEALER, check_events, members
from upstream.engine import Accepted, Delta, End, Part, Start, Stop, Summary, Usage
from upstream.turns.answer import Answer, Event
from upstream.turns.request import read_request
from wire.response import shown_for


def _answer(**request: Any) -> Answer:
    given = members(model="m", **request)
    return Answer(
        read_request(given),
        shown=shown_for(given),
        input_tokens=10,
        cached_tokens=2,
        created_at=7,
        sealer=SEALER,
    )


def _play(answer: Answer, *parts: Part) -> list[dict[str, Any]]:
    events: list[Event] = answer.begin()
    for part in parts:
        events += answer.add(part)
        if isinstance(part, Stop):
            events.append(answer.finish(part, 9))
    assert all(json.loads(event.data)["type"] == event.type for event in events)
    return [json.loads(event.data) for event in events]


_MESSAGE = (Start("message"), Delta("Hel"), Delta("lo"), End())
_CALL = (Start("function_call", "f", "space"), Delta('{"a"'), Delta(":1}"), End())


def test_a_message_comes_in_the_events_of_the_api() -> None:
    events = _play(_answer(), *_MESSAGE, Stop())

    check_events(events)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[6]["text"] == "Hello"


def test_a_call_comes_in_the_events_of_the_api_and_is_named_at_its_end() -> None:
    events = _play(_answer(), *_CALL, Stop())

    check_events(events)
    assert [event["type"] for event in events][2:-1] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert (events[5]["arguments"], events[5]["name"]) == ('{"a":1}', "f")
    assert events[6]["item"]["namespace"] == "space"


def test_a_custom_call_comes_in_its_own_events() -> None:
    events = _play(
        _answer(), Accepted(), Start("custom_tool_call", "patch"), Delta("*** "), Delta("Begin"), End(), Stop()
    )

    check_events(events, open_responses=False)
    assert [event["type"] for event in events][2:-1] == [
        "response.output_item.added",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.done",
    ]
    assert events[5]["input"] == "*** Begin"
    item = events[6]["item"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", "*** Begin")
    assert item["id"].startswith("ctc_")


def test_an_engines_own_count_of_tokens_replaces_ours() -> None:
    events = _play(_answer(), *_MESSAGE, Stop(usage=Usage(30, 20, 9, 4)))

    usage = events[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (30, 9, 39)
    assert usage["input_tokens_details"]["cached_tokens"] == 20
    assert usage["output_tokens_details"]["reasoning_tokens"] == 4


def test_usage_is_null_until_the_end() -> None:
    events = _play(_answer(), Start("reasoning"), Delta("t", 3), End(), *_MESSAGE, Stop())

    assert [event["response"]["usage"] for event in events[:2]] == [None, None]
    usage = events[-1]["response"]["usage"]
    assert usage["output_tokens"] == 5
    assert usage["output_tokens_details"]["reasoning_tokens"] == 3
    assert usage["input_tokens_details"] == {"cached_tokens": 2, "cache_write_tokens": 0}


def test_the_last_event_holds_every_item_as_it_was_done() -> None:
    events = _play(_answer(), Start("reasoning"), End(), *_MESSAGE, *_CALL, Stop())
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]

    assert events[-1]["response"]["output"] == done
    assert [event["output_index"] for event in events if event["type"] == "response.output_item.done"] == [0, 1, 2]
    assert events[-1]["response"]["completed_at"] == 9


def test_reasoning_is_sealed_only_when_that_is_asked_for() -> None:
    plain = _play(_answer(), Start("reasoning"), Delta("thought"), End(), Stop())
    sealed = _play(
        _answer(include=["reasoning.encrypted_content"]), Start("reasoning"), Delta("thought"), End(), Stop()
    )

    assert "encrypted_content" not in plain[-1]["response"]["output"][0]
    blob = sealed[-1]["response"]["output"][0]["encrypted_content"]
    assert SEALER.open(blob, param="x") == "thought"
    assert "thought" not in json.dumps(plain)
    check_events(sealed)


def test_a_summary_comes_in_the_events_of_the_api() -> None:
    events = _play(_answer(), Start("reasoning"), Summary(("a", "b")), End(), Stop())

    check_events(events)
    assert [event["type"].removeprefix("response.reasoning_") for event in events[3:8]] == [
        "summary_part.added",
        "summary_text.delta",
        "summary_text.delta",
        "summary_text.done",
        "summary_part.done",
    ]
    assert events[-1]["response"]["output"][0]["summary"] == [{"type": "summary_text", "text": "ab"}]


@pytest.mark.parametrize(
    ("request_members", "kept"),
    [
        ({}, "thought"),
        ({"store": False}, ""),
        ({"store": False, "include": ["reasoning.encrypted_content"]}, "thought"),
    ],
)
def test_hidden_text_stays_only_where_a_full_history_would_bring_it_as_well(
    request_members: dict[str, Any], kept: str
) -> None:
    answer = _answer(**request_members)
    _play(answer, Start("reasoning"), Delta("thought"), End(), Stop())

    assert answer.items[0].hidden == kept


def test_an_answer_cut_at_its_limit_is_incomplete_and_so_is_its_last_item() -> None:
    events = _play(_answer(), Start("message"), Delta("Hel"), Stop("max_output_tokens"))

    check_events(events)
    last = events[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["status"] == "incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][0]["status"] == "incomplete"
    assert last["response"]["completed_at"] is None
    assert last["response"]["usage"]["output_tokens"] == 1


def test_an_answer_that_breaks_off_ends_in_failed_with_what_was_done() -> None:
    answer = _answer()
    events = _play(answer, *_MESSAGE, Start("message"))
    events.append(json.loads(answer.fail().data))

    check_events(events)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["code"] == "server_error"
    assert len(events[-1]["response"]["output"]) == 1


def test_ids_are_new_for_every_answer() -> None:
    first, second = _play(_answer(), *_CALL, Stop()), _play(_answer(), *_CALL, Stop())
    ids = [
        (e[-1]["response"]["id"], e[-1]["response"]["output"][0]["id"], e[-1]["response"]["output"][0]["call_id"])
        for e in (first, second)
    ]

    assert not set(ids[0]) & set(ids[1])


def test_text_outside_of_an_item_is_the_engines_fault() -> None:
    with pytest.raises(RuntimeError):
        _answer().add(Delta("x"))
