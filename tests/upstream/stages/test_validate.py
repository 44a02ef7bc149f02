import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.helpers import SEALER, items
from upstream.stages.items import Item, output_item, read_items
from upstream.stages.validate import EMPTY, Known, dereferenced, extend
from wire.errors import ApiError

_item = st.one_of(
    st.builds(lambda n: Item(b"{}", "message", id=n, role="user"), st.sampled_from([None, "a", "b", "c"])),
    st.builds(lambda n: Item(b"{}", "function_call", call_id=n, name="f"), st.sampled_from(["1", "2"])),
    st.builds(lambda n: Item(b"{}", "function_call_output", call_id=n), st.sampled_from(["1", "2"])),
)


def _nothing(_item_id: str) -> Item | None:
    return None


def _outcome(start: Known, *batches: list[Item]) -> Known | str:
    try:
        for batch in batches:
            start = extend(start, batch)
    except ApiError as error:
        return error.message
    return start


@given(st.lists(_item), st.lists(_item))
def test_in_two_steps_it_is_the_same_as_in_one(a: list[Item], b: list[Item]) -> None:
    assert _outcome(EMPTY, a, b) == _outcome(EMPTY, a + b)


@pytest.mark.parametrize(("kind", "words"), [("function", "function call"), ("custom_tool", "custom tool call")])
def test_an_output_without_its_call_is_refused(kind: str, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        extend(EMPTY, items({"type": f"{kind}_call_output", "call_id": "call_x", "output": "1"}))

    assert (caught.value.status, caught.value.param) == (400, "input")
    assert caught.value.message == f"No tool call found for {words} output with call_id call_x."


def test_an_output_may_answer_a_call_of_an_earlier_step() -> None:
    known = extend(EMPTY, items({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}))

    assert extend(known, items({"type": "function_call_output", "call_id": "c", "output": "1"})).calls == known.calls


def test_an_output_before_its_call_is_refused() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    with pytest.raises(ApiError):
        extend(EMPTY, items({"type": "function_call_output", "call_id": "c", "output": "1"}, call))


def test_an_id_that_the_conversation_holds_may_not_come_again() -> None:
    known = extend(EMPTY, items({"type": "message", "id": "msg_1", "role": "assistant", "content": "x"}))
    with pytest.raises(ApiError) as caught:
        extend(known, items({"type": "message", "id": "msg_1", "role": "assistant", "content": "x"}))

    assert caught.value.message.startswith("Duplicate item found with id msg_1.")


def test_a_reference_becomes_the_item_that_it_names() -> None:
    kept = output_item({"type": "message", "id": "msg_1", "role": "assistant", "content": []})

    assert dereferenced(items({"type": "item_reference", "id": "msg_1"}), {"msg_1": kept}.get) == [kept]


def test_a_reference_to_nothing_is_not_found() -> None:
    with pytest.raises(ApiError) as caught:
        dereferenced(items({"id": "msg_2"}), _nothing)

    assert (caught.value.status, caught.value.message) == (404, "Item with id 'msg_2' not found.")


def test_reasoning_that_comes_back_by_its_id_alone_gets_its_text_again() -> None:
    kept = output_item({"type": "reasoning", "id": "rs_1", "summary": []}, hidden="thought")
    echoed = items({"type": "reasoning", "id": "rs_1", "summary": []})

    assert dereferenced(echoed, {"rs_1": kept}.get) == [kept]
    assert dereferenced(echoed, _nothing) == echoed


def test_reasoning_with_its_own_seal_is_taken_as_sent() -> None:
    sent = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEALER.seal("sent")}
    (item,) = dereferenced(read_items(json.dumps([sent]).encode(), SEALER), _nothing)

    assert item.hidden == "sent"
