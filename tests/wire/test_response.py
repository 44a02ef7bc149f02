from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response
from openresponses_types.types import ResponseResource

from wire.response import ECHOED, encoded, shown_for, usage
from wire.split import Malformed, splice

_ENDED: dict[str, Any] = {
    "id": "resp_1",
    "created_at": 7,
    "status": "completed",
    "completed_at": 8,
    "usage": usage(input_tokens=10, cached_tokens=4, output_tokens=3, reasoning_tokens=1),
}


def _raw(**request: Any) -> dict[str, bytes]:
    return {name: json.dumps(value).encode() for name, value in ({"model": "m"} | request).items()}


def _object(**request: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(splice((shown_for(_raw(**request)) | encoded(_ENDED)).items()))
    return whole


def test_the_object_fits_the_models_of_both_specifications() -> None:
    Response.model_validate(_object(), strict=False)
    ResponseResource.model_validate(_object())


def test_members_stand_in_the_order_of_the_api_whatever_the_request_has() -> None:
    assert [*_object()] == [*_object(user="u", tools=[], instructions="be", id="x")]
    assert [*_object()][:4] == ["id", "object", "created_at", "status"]


def test_defaults_are_spelled_out() -> None:
    made = _object()

    assert made["temperature"] == made["top_p"] == 1.0
    assert made["tool_choice"] == "auto"
    assert made["truncation"] == "disabled"
    assert made["service_tier"] == "default"
    assert made["parallel_tool_calls"] is made["store"] is True
    assert made["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert made["reasoning"] == {"effort": None, "summary": None}
    assert (made["output"], made["tools"], made["instructions"]) == ([], [], None)


def test_what_the_request_says_stands_in_their_place() -> None:
    made = _object(
        temperature=0, store=False, parallel_tool_calls=False, text={"verbosity": "low"}, reasoning={"effort": "high"},
        metadata={"a": "b"}, service_tier="flex", instructions="be", user="u",
    )  # fmt: skip

    assert made["temperature"] == 0.0
    assert made["store"] is made["parallel_tool_calls"] is False
    assert made["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert made["reasoning"] == {"effort": "high", "summary": None}
    assert (made["metadata"], made["service_tier"]) == ({"a": "b"}, "flex")
    assert (made["instructions"], made["user"]) == ("be", "u")


def test_what_belongs_to_one_turn_is_not_taken_from_the_request() -> None:
    made = shown_for(_raw(id="resp_9", status="failed", previous_response_id="resp_0", usage={}))

    assert (made["id"], made["status"]) == (b'""', b'"in_progress"')
    assert (made["previous_response_id"], made["usage"]) == (b"null", b"null")


def test_tools_and_formats_are_shown_with_their_defaults() -> None:
    tools = [{"type": "function", "name": "f", "strict": False}, {"type": "web_search"}]
    made = _object(tools=tools, text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}})

    Response.model_validate(made, strict=False)  # the other model has a format's schema always null
    assert made["tools"][0] == {
        "type": "function",
        "name": "f",
        "strict": False,
        "description": None,
        "parameters": None,
    }
    assert made["tools"][1] == {"type": "web_search"}
    assert made["text"] == {
        "format": {
            "type": "json_schema",
            "name": "n",
            "schema": {"type": "object"},
            "description": None,
            "strict": False,
        },
        "verbosity": "medium",
    }


def test_text_is_shown_as_itself_however_it_was_escaped() -> None:
    assert shown_for({"model": b'"m"', "instructions": rb'"\u00e9 \/"'})["instructions"] == '"é /"'.encode()


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("tools", b"{}"),
        ("tools", b"[1]"),
        ("tools", b'[{"name":"f"}]'),
        ("instructions", b"3"),
        ("temperature", b'"hot"'),
        ("text", b'{"format":{"name":"n"}}'),
        ("text", b'{"format":3}'),
        ("text", b"[" * 5000),
    ],
)
def test_what_no_server_takes_is_malformed(name: str, raw: bytes) -> None:
    with pytest.raises(Malformed):
        shown_for({"model": b'"m"', name: raw})


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "max_output_tokens": st.integers(1, 10**6),
    "metadata": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    "parallel_tool_calls": st.booleans(),
    "store": st.booleans(),
    "temperature": st.floats(0, 2),
    "tools": st.lists(st.fixed_dictionaries({"type": st.just("function"), "name": st.text()}), max_size=2),
    "instructions": st.text(),
    "user": st.text(),
}
_REQUESTS = st.fixed_dictionaries({}, optional={name: st.none() | value for name, value in _VALUES.items()})


@given(_REQUESTS)
def test_null_and_absent_are_the_same(request: dict[str, Any]) -> None:
    assert _object(**request) == _object(**{name: value for name, value in request.items() if value is not None})


@given(_REQUESTS)
def test_only_members_that_are_shown_make_a_difference(request: dict[str, Any]) -> None:
    assert request.keys() <= ECHOED
    assert shown_for(_raw(**request)) == shown_for(_raw(**request, input="x", include=[], prompt_cache_options={}))


def test_the_input_tokens_are_the_whole_context_however_much_was_kept() -> None:
    assert usage(input_tokens=10, cached_tokens=4, output_tokens=3, reasoning_tokens=1) == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 13,
    }
