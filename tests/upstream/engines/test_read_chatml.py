from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.engines.prompts import WEATHER, told
from tests.upstream.engines.vocabularies import BYTES, UNKNOWN, Bytes
from upstream.engine import Delta, End, Part, Start
from upstream.engines.chains import packed
from upstream.engines.read_chatml import ChatML
from upstream.templates.functions import by_name

_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'


def _played(*pieces: list[int], cut: bool = False) -> list[Part]:
    reader = ChatML(BYTES, by_name([WEATHER]))
    return [*(part for piece in pieces for part in reader.feed(piece)), *reader.end(cut=cut)]


def test_text_streams_and_ends_with_its_token() -> None:
    reader = ChatML(BYTES, {})

    assert list(reader.feed(BYTES.ids("Hi"))) == [Start("message"), Delta("H"), Delta("i")]
    assert list(reader.feed(BYTES.ids("<|im_end|>more"))) == []
    assert list(reader.end()) == [End(packed(BYTES.ids("Hi<|im_end|>")))]


@pytest.mark.parametrize("end", ["<|im_end|>", "<|im_start|>", "<|endoftext|>"])
def test_where_another_turn_or_nothing_begins_the_answer_has_ended(end: str) -> None:
    vocabulary = Bytes(("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
    reader = ChatML(vocabulary, {})
    parts = [*reader.feed(vocabulary.ids(f"Hi{end}user\nmore")), *reader.end()]

    assert told(parts) == [("message", "", "Hi")]


def test_thoughts_and_parallel_calls_are_items() -> None:
    parts = _played(BYTES.ids(f"<think>\nhm\n</think>\n\nI look.\n{_CALL}\n{_CALL}<|im_end|>"))

    assert told(parts) == [
        ("reasoning", "", "hm"),
        ("message", "", "I look."),
        *[("function_call", "get_weather", "{}")] * 2,
    ]


def test_every_token_is_counted_once_and_those_of_reasoning_apart() -> None:
    reader = ChatML(BYTES, {})
    written = BYTES.ids("<think>hm</think>Hi")
    parts = [*reader.feed(written), *reader.end()]

    assert sum(part.tokens for part in parts if isinstance(part, Delta)) == len(written)
    assert 2 <= reader.reasoning_tokens <= len(written) - 2


def test_an_item_that_is_the_whole_answer_has_its_tokens_behind_those_of_the_prompt() -> None:
    written = BYTES.ids(f"{_CALL}<|im_end|>")
    reader = ChatML(BYTES, by_name([WEATHER]), packed([7]))
    parts = [*reader.feed(written), *reader.end()]

    assert parts[-1] == End(packed([7, *written]))


def test_items_that_share_a_block_have_none() -> None:
    parts = _played(BYTES.ids(f"<think>\nhm\n</think>\n\nI look.\n{_CALL}<|im_end|>"))

    assert [part for part in parts if isinstance(part, End)] == [End()] * 3


def test_an_answer_that_is_cut_leaves_its_item_open() -> None:
    assert _played(BYTES.ids("Hi"), cut=True)[-1] == Delta("i")


def test_nothing_and_unknown_tokens_are_no_item() -> None:
    assert _played([]) == []
    assert _played([UNKNOWN, *BYTES.ids("<|im_end|>")]) == []


def test_half_a_character_is_told_as_such() -> None:
    assert told(_played(BYTES.ids("€")[:1])) == [("message", "", "�")]


@given(
    st.lists(st.one_of(st.integers(0, 1010), st.sampled_from(BYTES.ids("<think></tool_call>"))), max_size=60), st.data()
)
def test_whatever_is_written_is_parts_in_order_and_the_same_however_it_is_cut(
    tokens: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(tokens)))
    parts = _played(tokens)

    assert _played(tokens[:at], tokens[at:]) == parts
    assert sum(isinstance(part, End) for part in parts) == sum(isinstance(part, Start) for part in parts)
    told(parts)
