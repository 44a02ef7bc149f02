from __future__ import annotations

import pytest

from tests.upstream.engines.vocabularies import BYTES
from upstream.engine import Delta, End, Part, Start
from upstream.engines.writing import Writing

_CALL, _CUSTOM = Start("function_call", "f"), Start("custom_tool_call", "apply_patch")


def _written(start: Start, text: str, *, cut: bool = False) -> list[Part]:
    item = Writing(start, BYTES)
    parts = [*item.begin(), *(part for token in BYTES.ids(text) for part in item.feed(token))]
    return [*parts, *item.end(cut=cut)]


def test_text_is_told_token_by_token() -> None:
    assert _written(Start("message"), "ab") == [Start("message"), Delta("a"), Delta("b"), End()]


def test_tokens_of_one_character_are_counted_together() -> None:
    assert _written(Start("message"), "ü") == [Start("message"), Delta("ü", 2), End()]


@pytest.mark.parametrize("kind", ["message", "reasoning"])
def test_no_text_is_no_item(kind: str) -> None:
    assert _written(Start("message" if kind == "message" else "reasoning"), "") == []


def test_a_call_begins_before_its_arguments_and_has_empty_ones_when_there_are_none() -> None:
    item = Writing(_CALL, BYTES)

    assert list(item.begin()) == [_CALL]
    assert list(item.end()) == [Delta("{}", 0), End()]


def test_arguments_are_told_as_they_were_written() -> None:
    assert _written(_CALL, "{ }") == [_CALL, Delta("{"), Delta(" "), Delta("}"), End()]


@pytest.mark.parametrize(("written", "told"), [('{"input": "*** x"}', "*** x"), ("*** x", "*** x")])
def test_a_custom_tools_input_is_told_whole_and_unwrapped(written: str, told: str) -> None:
    assert _written(_CUSTOM, written) == [_CUSTOM, Delta(told, len(written)), End()]


@pytest.mark.parametrize("start", [Start("message"), _CALL, _CUSTOM])
def test_what_is_cut_does_not_end(start: Start) -> None:
    parts = _written(start, "x", cut=True)

    assert parts == [start, Delta("x")]
    assert End() not in _written(start, "", cut=True)


def test_half_a_character_is_told_at_the_end() -> None:
    item = Writing(Start("message"), BYTES)
    parts = [*item.feed("ü".encode()[0]), *item.end()]

    assert parts == [Start("message"), Delta("�"), End()]


def test_the_end_says_what_it_was_written_with_and_a_cut_has_none() -> None:
    item = Writing(Start("message"), BYTES)
    parts = [*item.feed(0x61), *item.end(b"abcd")]

    assert parts[-1] == End(b"abcd")
    assert End(b"abcd") not in [*Writing(Start("message"), BYTES).end(b"abcd", cut=True)]
