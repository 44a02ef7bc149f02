from __future__ import annotations

import hashlib
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.harmony import PUBLISHED, oracle, published
from upstream.tokens.built_in import NAMES, BuiltIn, whole
from upstream.tokens.vocabulary import load

CONTROL = ("<|start|>", "<|end|>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<think>")
TEXTS = st.text(st.characters(exclude_categories=())) | st.lists(
    st.sampled_from(
        [*CONTROL, " ", "\n", "  \r\n", "word", "1234567", "漢字", "👩\u200d🚀", "e\u0301", "\ud83d", "\ude80"]
    ),
).map("".join)


def tokens(kept: bytes) -> list[int]:
    return array("I", kept).tolist()


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("o200k_harmony", [24912, 2375]),
        ("qwen3", [14990, 1879]),
        ("llama3", [15339, 1917]),
        ("cl100k_base", [15339, 1917]),
    ],
)
def test_ids_are_those_of_the_models(name: str, ids: list[int]) -> None:
    assert tokens(load(name).ordinary("hello world")) == ids


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_the_tables_are_the_published_ones(name: str) -> None:
    assert hashlib.sha256(published(name)).hexdigest() == PUBLISHED[name]


@given(TEXTS)
def test_text_has_the_tokens_that_the_makers_of_the_model_give_it(text: str) -> None:
    expected = oracle().encode(whole(text), allowed_special=set(), disallowed_special=())
    assert tokens(load("o200k_harmony").ordinary(text)) == expected


@given(TEXTS, st.sampled_from(NAMES))
def test_no_text_ever_becomes_a_control_token(text: str, name: str) -> None:
    vocabulary = BuiltIn(name)
    control = {vocabulary.special(one) for one in vocabulary._specials}
    assert not control & set(tokens(vocabulary.ordinary(text)))


@given(TEXTS, st.data())
def test_tokens_give_the_text_back_in_any_pieces(text: str, data: st.DataObject) -> None:
    vocabulary = load("o200k_harmony")
    ids = tokens(vocabulary.ordinary(text))
    at = data.draw(st.integers(0, len(ids)))
    assert vocabulary.text(ids[:at]) + vocabulary.text(ids[at:]) == whole(text).encode()


@pytest.mark.parametrize(
    ("name", "control", "token"),
    [
        ("o200k_harmony", "<|start|>", 200006),
        ("o200k_harmony", "<|end|>", 200007),
        ("o200k_harmony", "<|return|>", 200002),
        ("o200k_harmony", "<|call|>", 200012),
        ("qwen3", "<|im_start|>", 151644),
        ("qwen3", "<tool_call>", 151657),
        ("llama3", "<|eot_id|>", 128009),
        ("cl100k_base", "<|endoftext|>", 100257),
    ],
)
def test_control_tokens_are_known_by_name(name: str, control: str, token: int) -> None:
    assert load(name).special(control) == token
    assert load(name).text([token]) == control.encode()


def test_a_control_token_that_the_vocabulary_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^the vocabulary llama3 has no token <\|im_start\|>$"):
        load("llama3").special("<|im_start|>")


@pytest.mark.parametrize("token", [-1, 201_088, 2**40])
def test_an_id_that_is_no_token_has_no_text(token: int) -> None:
    assert load("o200k_harmony").text([24912, token, 2375]) == b"hello world"
