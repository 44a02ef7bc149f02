from __future__ import annotations

import pytest

from tests.upstream.engines.vocabularies import BYTES, Bytes
from upstream.engines.read_chatml import ChatML
from upstream.engines.read_harmony import Harmony
from upstream.engines.reading import CHATML, HARMONY, reading


def test_a_reading_names_what_ends_its_answers_and_what_reads_them() -> None:
    harmony, chatml = reading(HARMONY, BYTES), reading(CHATML, BYTES)

    assert list(harmony.stops) == BYTES.ids("<|return|><|call|>")
    assert list(chatml.stops) == BYTES.ids("<|im_end|>")
    assert [harmony.opening, chatml.opening] == BYTES.ids("<|start|><|im_start|>")
    assert isinstance(harmony.reader({}, b""), Harmony)
    assert isinstance(chatml.reader({}, b""), ChatML)


def test_what_cannot_be_used_is_one_clear_line() -> None:
    with pytest.raises(ValueError, match=r"^unknown template 'llama': harmony, chatml$"):
        reading("llama", BYTES)
    with pytest.raises(ValueError, match=r"<\|return\|>"):
        reading(HARMONY, Bytes(("<|im_start|>", "<|im_end|>")))
