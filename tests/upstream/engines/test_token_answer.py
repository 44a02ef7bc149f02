from __future__ import annotations

import pytest

from tests.upstream.engines.prompts import told
from tests.upstream.engines.vocabularies import BYTES
from upstream.engine import End, Part, Stop, Usage
from upstream.engines.chains import packed
from upstream.engines.read_chatml import ChatML
from upstream.engines.token_answer import Piece, TokenAnswer
from wire.errors import ApiError


def _played(*pieces: Piece) -> tuple[TokenAnswer, list[Part]]:
    answer = TokenAnswer(ChatML(BYTES, {}))
    fed = [part for piece in pieces for part in answer.feed(piece)]
    return answer, fed + list(answer.end())


def test_an_answer_is_parts_and_the_tokens_as_they_were_written() -> None:
    written = BYTES.ids("<think>hm</think>Hi<|im_end|>")
    answer, parts = _played(
        Piece(packed(written[:3])), Piece(packed(written[3:]), "stop"), Piece(usage=Usage(30, 20, 21))
    )

    assert told(parts) == [("reasoning", "", "hm"), ("message", "", "Hi")]
    assert answer.tokens == packed(written)
    stop = parts[-1]
    assert isinstance(stop, Stop)
    assert stop.usage is not None
    assert (stop.usage.input_tokens, stop.usage.cached_tokens, stop.usage.output_tokens) == (30, 20, 21)
    assert 0 < stop.usage.reasoning_tokens < 21


def test_a_limit_makes_the_answer_incomplete() -> None:
    _, parts = _played(Piece(packed(BYTES.ids("Hi")), "length"))

    assert parts[-1] == Stop("max_output_tokens")
    assert End() not in parts


def test_an_answer_of_nothing_is_one() -> None:
    assert _played(Piece(finish="stop"))[1] == [Stop()]


def test_an_answer_without_an_end_was_cut_short() -> None:
    with pytest.raises(ApiError) as broken:
        _played(Piece(packed(BYTES.ids("Hi"))))
    assert broken.value.status == 502


def test_no_more_tokens_of_reasoning_are_told_than_tokens() -> None:
    _, parts = _played(Piece(packed(BYTES.ids("<think>hm hm")), "stop", Usage(30, 0, 2)))

    assert parts[-1] == Stop(usage=Usage(30, 0, 2, 2))
