from __future__ import annotations

import pytest

from upstream.tokens.vocabulary import DEFAULT, load


def test_a_vocabulary_is_read_once() -> None:
    assert load(DEFAULT) is load("o200k_harmony")


def test_a_vocabulary_says_its_name() -> None:
    assert load("qwen3").name == "qwen3"


def test_an_unknown_name_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"^unknown vocabulary 'gpt2': o200k_harmony, qwen3, llama3, cl100k_base, or "):
        load("gpt2")


def test_a_path_names_a_file() -> None:
    with pytest.raises(ValueError, match=r"^vocabulary /nowhere/tokenizer.json: No such file or directory$"):
        load("/nowhere/tokenizer.json")
