from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.engines.vocabularies import BYTES, UNKNOWN
from upstream.engines.reader import Spelling


def _spelled(tokens: list[int]) -> list[str]:
    spelling = Spelling(BYTES)
    return [*(spelling.feed(token) for token in tokens), spelling.rest()]


def test_a_character_is_told_with_the_token_that_completes_it() -> None:
    assert _spelled([0x61, *"ü".encode()]) == ["a", "", "ü", ""]


def test_half_a_character_at_the_end_is_a_replacement_character() -> None:
    assert _spelled(list("€".encode()[:2])) == ["", "", "�"]


def test_after_the_rest_the_next_text_begins_anew() -> None:
    spelling = Spelling(BYTES)
    spelling.feed("ü".encode()[0])
    spelling.rest()

    assert spelling.feed(0x61) == "a"


def test_a_token_that_nobody_knows_says_nothing() -> None:
    assert _spelled([0x61, UNKNOWN, 0x62]) == ["a", "", "b", ""]


@given(st.text())
def test_any_text_comes_out_as_it_went_in(text: str) -> None:
    assert "".join(_spelled(BYTES.ids(text))) == text


@given(st.lists(st.integers(0, 2000)))
def test_no_tokens_make_it_fail(tokens: list[int]) -> None:
    assert isinstance("".join(_spelled(tokens)), str)
