from typing import Any

import pytest

from tests.upstream.helpers import items
from upstream.stages.items import output_item
from upstream.stages.meaning import NOTHING, chained, digest


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return digest(items(left)[0]) == digest(items(right)[0])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"role": "user", "content": "hi"}, {"content": [{"type": "input_text", "text": "hi"}], "role": "user"}),
        (
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}],
            },
            {"role": "assistant", "content": "x"},
        ),
        (
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": '{"b": 1, "a": 2}'},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": '{"a":2,"b":1}'},
        ),
        (
            {"type": "function_call_output", "call_id": "a", "output": "x"},
            {
                "type": "function_call_output",
                "id": "fco_1",
                "call_id": "b",
                "output": [{"type": "input_text", "text": "x"}],
            },
        ),
        ({"type": "new_kind", "id": "1", "x": {"b": 1, "a": 2}}, {"type": "new_kind", "x": {"a": 2, "b": 1}}),
    ],
)
def test_what_a_model_cannot_tell_apart_means_the_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert _same(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"role": "user", "content": "hi"}, {"role": "developer", "content": "hi"}),
        ({"role": "user", "content": "hi"}, {"role": "user", "content": "hi "}),
        (
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "a", "name": "g", "arguments": "{}"},
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:1"}]},
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:2"}]},
        ),
        ({"type": "new_kind", "x": 1}, {"type": "new_kind", "x": 2}),
    ],
)
def test_what_a_model_can_tell_apart_is_not(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert not _same(left, right)


def test_reasoning_counts_by_its_hidden_text_and_not_by_what_a_client_sees() -> None:
    bare = output_item({"type": "reasoning", "id": "a", "summary": []}, hidden="thought")
    dressed = output_item({"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]}, hidden="thought")

    assert digest(bare) == digest(dressed)
    assert digest(bare) != digest(output_item({"type": "reasoning", "summary": []}, hidden="other"))


def test_the_order_of_items_matters() -> None:
    a, b = (digest(item) for item in items("a", "b"))

    assert chained(chained(NOTHING, a), b) != chained(chained(NOTHING, b), a)


@pytest.mark.parametrize("odd", ["not json", '{"a":', "1e999", "[" * 3000, '{"a":99999999999999999999999}'])
def test_arguments_that_are_no_json_are_shown_as_they_are(odd: str) -> None:
    item = items({"type": "function_call", "call_id": "c", "name": "f", "arguments": odd})[0]

    assert digest(item) == digest(item)


def test_integers_beyond_64_bits_differ_too() -> None:
    assert digest(items({"type": "new", "x": 10**30})[0]) != digest(items({"type": "new", "x": 10**30 + 1})[0])
