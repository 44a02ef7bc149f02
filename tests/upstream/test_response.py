import json

from openai.types.responses import Response
from openresponses_types.types import ResponseResource

from tests.upstream.helpers import members
from upstream.request import read_request
from upstream.response import encoded, static_members, usage


def _object(**request: object) -> dict[str, object]:
    static = static_members(
        read_request(members(model="m", **request)), response_id="resp_1", created_at=7, tools=b"[]"
    )
    whole: dict[str, object] = json.loads(
        encoded(
            json.dumps(static | {"tools": []}).encode(),
            status="completed",
            output=[],
            completed_at=8,
            error=None,
            incomplete_details=None,
            usage=usage(input_tokens=10, cached_tokens=4, output_tokens=3, reasoning_tokens=1),
        )
    )
    return whole


def test_the_object_fits_the_models_of_both_specifications() -> None:
    Response.model_validate(_object(), strict=False)
    ResponseResource.model_validate(_object())


def test_defaults_are_spelled_out() -> None:
    made = _object()

    assert made["temperature"] == made["top_p"] == 1.0
    assert made["tool_choice"] == "auto"
    assert made["truncation"] == "disabled"
    assert made["service_tier"] == "default"
    assert made["parallel_tool_calls"] is made["store"] is True
    assert made["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert made["reasoning"] == {"effort": None, "summary": None}


def test_what_the_request_says_stands_in_their_place() -> None:
    made = _object(
        temperature=0, store=False, parallel_tool_calls=False, text={"verbosity": "low"}, reasoning={"effort": "high"},
        metadata={"a": "b"}, previous_response_id="resp_0", service_tier="flex", instructions="be", user="u",
    )  # fmt: skip

    assert made["temperature"] == 0.0
    assert made["store"] is made["parallel_tool_calls"] is False
    assert made["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert made["reasoning"] == {"effort": "high", "summary": None}
    assert (made["metadata"], made["previous_response_id"]) == ({"a": "b"}, "resp_0")
    assert (made["service_tier"], made["instructions"], made["user"]) == ("flex", "be", "u")


def test_the_input_tokens_are_the_whole_context_however_much_was_kept() -> None:
    assert usage(input_tokens=10, cached_tokens=4, output_tokens=3, reasoning_tokens=1) == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 13,
    }


def test_a_format_with_a_schema_is_shown_with_its_defaults() -> None:
    made = _object(text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}})

    Response.model_validate(made, strict=False)  # the other model has a format's schema always null
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
