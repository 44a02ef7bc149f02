from __future__ import annotations

from array import array

import pytest

from upstream.stages.style import Style, check, encoded, size, written
from upstream.templates.parts import Run
from upstream.tokens.vocabulary import load

HARMONY, QWEN = Style(), Style("chatml", "qwen3")


@pytest.mark.parametrize("style", [HARMONY, QWEN])
def test_a_template_and_a_vocabulary_that_fit_are_fine(style: Style) -> None:
    check(style)


@pytest.mark.parametrize(
    ("style", "said"),
    [
        (Style("jinja"), r"^unknown template 'jinja': harmony, chatml$"),
        (Style("harmony", "gpt2"), "^unknown vocabulary 'gpt2'"),
        (Style("harmony", "qwen3"), r"^the vocabulary qwen3 has no token <\|start\|>$"),
        (Style("chatml"), r"^the vocabulary o200k_harmony has no token <\|im_start\|>$"),
    ],
)
def test_those_that_do_not_are_told_in_one_line(style: Style, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check(style)


def test_only_control_runs_become_control_tokens() -> None:
    known = load("o200k_harmony")
    raw = encoded(HARMONY, (Run(True, "<|end|>"), Run(False, "<|end|>")))

    assert raw == array("I", (known.special("<|end|>"),)).tobytes() + known.ordinary("<|end|>")
    assert size(raw) == 6


def test_a_tag_that_is_no_token_is_encoded_with_the_text_around_it() -> None:
    runs = (Run(False, "<think>", True), Run(False, "\nhm\n"))

    assert encoded(HARMONY, runs) == load("o200k_harmony").ordinary("<think>\nhm\n")
    assert encoded(QWEN, runs) == array("I", (151667,)).tobytes() + load("qwen3").ordinary("\nhm\n")


def test_what_a_model_wrote_is_ended_by_its_template() -> None:
    known = load("o200k_harmony")
    wrote = array("I", (7, known.special("<|return|>"))).tobytes()

    assert array("I", written(HARMONY, wrote)).tolist() == [7, known.special("<|end|>")]
