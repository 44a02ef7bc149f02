from __future__ import annotations

import json
import sys
from array import array
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.tokens.tokenizer_json import _BYTES, TokenizerJson
from upstream.tokens.vocabulary import load

if TYPE_CHECKING:
    from pathlib import Path

START, THINK = 300, 301
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w")]


def described(**changed: Any) -> dict[str, Any]:
    """A small byte-level vocabulary with a control token, and a tag that its makers did not call special."""
    vocab = dict(_BYTES)
    vocab |= {"".join(pair): 256 + at for at, pair in enumerate(MERGES)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": START, "content": "<|im_start|>", "special": True, **flags},
            {"id": THINK, "content": "<think>", "special": False, **flags},
        ],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocab, "merges": [" ".join(pair) for pair in MERGES]},
    } | changed


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> TokenizerJson:
    path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.json"
    path.write_text(json.dumps(described()))
    return TokenizerJson(str(path))


def test_text_is_merged_into_tokens(vocabulary: TokenizerJson) -> None:
    assert array("I", vocabulary.ordinary("hello wé")).tolist() == [259, 260, 0xC3, 0xA9]


def test_added_tokens_are_known_by_name_and_in_text_are_text(vocabulary: TokenizerJson) -> None:
    assert (vocabulary.special("<|im_start|>"), vocabulary.special("<think>")) == (START, THINK)
    assert not {START, THINK} & set(array("I", vocabulary.ordinary("<|im_start|>user <think>")))
    assert vocabulary.text([START, THINK]) == b"<|im_start|><think>"
    with pytest.raises(ValueError, match=r"has no token <\|end\|>$"):
        vocabulary.special("<|end|>")


@given(st.text())
def test_tokens_give_the_text_back(vocabulary: TokenizerJson, text: str) -> None:
    ids = array("I", vocabulary.ordinary(text)).tolist()
    assert b"".join(vocabulary.text([one]) for one in ids) == text.encode()


def test_lone_surrogates_are_replaced(vocabulary: TokenizerJson) -> None:
    assert vocabulary.text(array("I", vocabulary.ordinary("a\ud800b\ud83d\ude80"))) == "a\ufffdb🚀".encode()


@pytest.mark.parametrize("token", [-1, 299, 2**40])
def test_an_id_that_is_no_token_has_no_text(vocabulary: TokenizerJson, token: int) -> None:
    assert vocabulary.text([token]) == b""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no tokenizer.json of a BPE model"),
        ("[]", "no tokenizer.json of a BPE model"),
        ('{"model": {"type": "WordLevel"}}', "no tokenizer.json of a BPE model"),
        (json.dumps(described(added_tokens=[{"id": "x"}])), "no tokenizer.json of a BPE model"),
        (json.dumps(described(decoder={"type": "Metaspace"})), "only byte-level vocabularies can be used"),
        (json.dumps(described(model={"type": "BPE", "vocab": {"▁a": 1}})), "only byte-level vocabularies can be used"),
        (json.dumps(described(model={"type": "BPE", "vocab": {"a": 1}})), ": "),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"^vocabulary ") as failure:
        load(str(path))
    assert said in str(failure.value)
    assert "\n" not in str(failure.value)


def test_without_the_extra_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(described()))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[tokenizers\]'$"):
        load(str(path))
