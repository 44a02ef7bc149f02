from __future__ import annotations

import pytest

from tests.upstream.helpers import items
from upstream.templates.parts import Run, merged, no_form, output_of, plain, text_of, without_tags


def test_neighbours_of_text_are_one_run_and_empty_ones_are_none() -> None:
    runs = merged(Run(False, "a"), Run(False, ""), Run(False, "b"), Run(True, "<x>"), Run(False, "c"))

    assert runs == (Run(False, "ab"), Run(True, "<x>"), Run(False, "c"))
    assert plain([runs, runs]) == "ab<x>cab<x>c"


def test_a_tag_stands_alone_until_it_is_text() -> None:
    tagged = merged(Run(False, "a"), Run(False, "<think>", True), Run(False, "b"))

    assert len(tagged) == 3
    assert without_tags(tagged) == (Run(False, "a<think>b"),)


@pytest.mark.parametrize(
    ("content", "text", "missing"),
    [
        ("hi", "hi", 0),
        ([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}], "ab", 0),
        ([{"type": "refusal", "refusal": "no"}], "no", 0),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image"}, 3], "a", 2),
        ([{"type": "text", "text": None}], "", 0),
        (None, "", 0),
    ],
)
def test_content_is_its_text_and_what_is_none_is_told(content: object, text: str, missing: int) -> None:
    found, told = text_of(content)

    assert (found, len(told)) == (text, missing)
    assert all(one.endswith(" cannot be shown to this engine.") for one in told)


def test_an_output_of_another_shape_is_shown_as_json() -> None:
    (item,) = items({"type": "shell_call_output", "call_id": "c", "output": {"code": 1}})

    assert output_of(item) == ('{"code": 1}', ())


def test_the_name_of_a_kind_is_told_in_part_only() -> None:
    (item,) = items({"type": "x" * 1000, "id": "a"})

    assert len(no_form(item)) < 150
