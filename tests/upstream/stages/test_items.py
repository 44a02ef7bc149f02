import json
from typing import Any

import pytest

from tests.upstream.helpers import SEALER
from upstream.stages.items import output_item, read_items, without_hidden
from wire.errors import ApiError


def _refused(value: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read_items(json.dumps(value).encode(), SEALER)
    assert caught.value.status == 400
    return caught.value


def test_a_string_is_one_message_of_the_user() -> None:
    (item,) = read_items(b'"hi \\u00e4"', SEALER)

    assert (item.type, item.role) == ("message", "user")
    assert item.value() == {"type": "message", "role": "user", "content": "hi ä"}


def test_an_item_keeps_its_bytes() -> None:
    raw = b'{ "content": "x",  "role":"user" }'

    assert read_items(b"[" + raw + b"]", SEALER)[0].raw == raw


def test_types_that_a_client_leaves_out_are_those_of_messages_and_references() -> None:
    first, second = read_items(b'[{"role":"user","content":[]},{"id":"msg_1"}]', SEALER)

    assert first.type == "message"
    assert second.type == "item_reference"


def test_an_unknown_type_is_taken_as_it_is() -> None:
    (item,) = read_items(b'[{"type":"something_new","x":1}]', SEALER)

    assert item.type == "something_new"


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (3, "input"),
        ({"role": "user"}, "input"),
        ([3], "input[0]"),
        ([{}], "input[0].type"),
        ([{"role": 3}], "input[0].role"),
        ([{"role": "user"}], "input[0].content"),
        ([{"role": "user", "content": 3}], "input[0].content"),
        ([{"role": "user", "content": "x"}, {"type": "function_call"}], "input[1].call_id"),
        ([{"type": "function_call_output", "call_id": "c"}], "input[0].output"),
        ([{"type": "function_call", "call_id": "c", "name": "n", "arguments": {}}], "input[0].arguments"),
        ([{"type": "item_reference"}], "input[0].id"),
        ([{"type": 1}], "input[0].type"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "x"}, 3]}], "input[0].content[1]"),
        ([{"role": "user", "content": [{"type": {}}]}], "input[0].content[0].type"),
        ([{"type": "function_call_output", "call_id": "c", "output": [{"type": []}]}], "input[0].output[0].type"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(value: Any, param: str) -> None:
    assert _refused(value).param == param


def test_a_sealed_reasoning_item_is_opened() -> None:
    raw = json.dumps([{"type": "reasoning", "summary": [], "encrypted_content": SEALER.seal("thought")}]).encode()

    assert read_items(raw, SEALER)[0].hidden == "thought"


def test_a_seal_that_is_not_ours_is_refused_with_its_place() -> None:
    error = _refused([{"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}])

    assert (error.code, error.param) == ("invalid_encrypted_content", "input[0].encrypted_content")


def test_an_item_of_our_own_can_lose_its_hidden_text_and_nothing_else() -> None:
    made = output_item({"type": "reasoning", "id": "rs_1", "summary": []}, hidden="thought")

    assert made.hidden == "thought"
    assert without_hidden(made).hidden == ""
    assert without_hidden(made).raw == made.raw
    assert without_hidden(without_hidden(made)) == without_hidden(made)


def test_content_does_not_show_in_the_text_form_of_an_item() -> None:
    assert "secret" not in repr(read_items(b'"secret"', SEALER)[0])
