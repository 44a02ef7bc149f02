from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.upstream.engines.prompts import PATCH, WEATHER
from upstream.stages.head import Told, head
from upstream.stages.style import Style

STYLE = Style()
TOLD = Told("Be kind.", (WEATHER, PATCH), "auto", {"effort": "low"})


def test_a_head_that_is_known_is_not_made_again() -> None:
    known = head(STYLE, TOLD)

    assert head(STYLE, dataclasses.replace(TOLD, tools=(WEATHER, PATCH)), [known]) is known


@pytest.mark.parametrize(
    "changed",
    [
        {"instructions": "Be brief."},
        {"instructions": None},
        {"tools": (WEATHER,)},
        {"tools": (dataclasses.replace(WEATHER), PATCH)},
        {"tool_choice": "none"},
        {"reasoning": None},
    ],
)
def test_a_head_of_anything_else_is(changed: dict[str, Any]) -> None:
    known = head(STYLE, TOLD)
    other = dataclasses.replace(TOLD, **changed)

    assert head(STYLE, other, [known]) == head(STYLE, other)
    assert head(STYLE, other, [known]) is not known


def test_a_head_of_another_style_is() -> None:
    known = head(STYLE, TOLD)

    assert head(Style("chatml", "qwen3"), TOLD, [known]).raw != known.raw


def test_a_choice_that_cannot_be_shown_counts_as_none_made() -> None:
    forced = head(STYLE, dataclasses.replace(TOLD, tool_choice="required"))

    assert forced.refusal is not None
    assert (forced.raw, forced.tokens) == (head(STYLE, TOLD).raw, head(STYLE, TOLD).tokens)
    assert head(STYLE, TOLD).refusal is None
