from __future__ import annotations

import dataclasses
from array import array
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.engines.prompts import WEATHER, call, histories, output, prompt, said
from tests.upstream.helpers import items
from upstream.stages.head import Told, head
from upstream.stages.render import Rendered, Tokens, extend, shared, tail
from upstream.stages.style import Style
from upstream.tokens.vocabulary import load
from wire.errors import ApiError

if TYPE_CHECKING:
    from upstream.stages.items import Item

HARMONY, CHATML = Style(), Style("chatml", "qwen3")
STYLES = st.sampled_from([HARMONY, CHATML])


def thought(text: str) -> Item:
    return dataclasses.replace(items({"type": "reasoning", "id": f"rs_{text}", "summary": []})[0], hidden=text)


def made(*history: dict[str, Any] | str | Item) -> list[Item]:
    return list(prompt(*history).items)


def rendered(style: Style, *history: dict[str, Any] | str | Item) -> Rendered:
    return extend(Rendered(style=style), made(*history))


def text(one: Rendered) -> str:
    raw = b"".join(segment.raw for segment in one.segments) + tail(one)
    return load(one.style.vocabulary).text(array("I", raw)).decode()


HISTORIES = st.lists(
    st.one_of(
        histories().map(lambda history: made(*history)),
        st.text(min_size=1, max_size=3).map(lambda text: [thought(text)]),
        st.just(items({"role": "user", "content": [{"type": "input_image", "image_url": "data:1"}]})),
    ),
    max_size=5,
).map(lambda lists: [item for one in lists for item in one])


@given(HISTORIES, STYLES, st.data())
def test_a_rendering_that_grew_is_the_one_made_at_once(history: list[Item], style: Style, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=4)))
    grown = Rendered(style=style)
    for begin, end in zip([0, *cuts], [*cuts, len(history)], strict=True):
        grown = extend(grown, history[begin:end])
    anew = [dataclasses.replace(item) for item in history]

    assert all(item.facts.made is None for item in anew)
    assert grown == extend(Rendered(style=style), anew)
    assert len(grown.segments) == len(history)
    assert grown.tokens == sum(segment.tokens for segment in grown.segments)


@given(HISTORIES, STYLES, st.integers(0, 30))
def test_what_two_renderings_share_is_what_both_begin_with(history: list[Item], style: Style, cut: int) -> None:
    before = extend(Rendered(style=style), history[:cut])
    after = extend(before, history[cut:])
    pairs = list(zip(before.segments, after.segments, strict=False))
    same = next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))

    assert shared(before, after) == sum(a.tokens for a, _ in pairs[:same])


@given(HISTORIES, STYLES)
def test_growing_changes_nothing_but_reasoning_that_has_done_its_work(history: list[Item], style: Style) -> None:
    grown = Rendered(style=style)
    for item in history:
        before, grown = grown, extend(grown, [item])
        changed = {at for at, one in enumerate(before.segments) if grown.segments[at] != one}
        assert changed <= (set(before.thoughts) if item.role == "user" else set())


def test_reasoning_goes_once_it_is_answered_and_the_user_speaks() -> None:
    step: list[Any] = ["hi", thought("hm"), call("a"), output("a"), thought("so")]

    assert text(rendered(HARMONY, *step)).count("analysis") == 2
    assert text(rendered(HARMONY, *step, said("assistant", "yes"))).count("analysis") == 2
    assert text(rendered(HARMONY, *step, said("assistant", "yes"), "more")).count("analysis") == 0
    assert text(rendered(HARMONY, *step, "stop")).count("analysis") == 2
    assert text(rendered(CHATML, *step, "stop")).count("<think>") == 0


def test_a_tag_is_one_token_where_the_vocabulary_has_it_and_text_where_it_has_not() -> None:
    (item,) = made(thought("hm"))
    qwen = extend(Rendered(style=CHATML), [item])
    tokens = list(array("I", qwen.segments[0].raw))

    assert tokens.count(load("qwen3").special("<think>")) == 1
    assert load("qwen3").special("<think>") not in array("I", rendered(CHATML, "<think>").segments[0].raw)


def test_what_is_no_text_counts_and_is_refused_to_an_engine_that_needs_tokens() -> None:
    shown = rendered(HARMONY, {"role": "user", "content": [{"type": "input_image", "image_url": "data:1"}]})

    assert shown.tokens > 1024
    with pytest.raises(ApiError) as refused:
        Tokens(head(HARMONY, Told()), shown).raw()
    assert (refused.value.status, refused.value.param) == (400, "input")


def test_a_prompt_is_head_segments_and_tail() -> None:
    begun, shown = head(HARMONY, Told("Be kind.", (WEATHER,))), rendered(HARMONY, "hi")
    whole = Tokens(begun, shown)

    assert whole.raw() == begun.raw + b"".join(one.raw for one in shown.segments) + tail(shown)
    assert whole.raw().endswith(whole.tail())


def test_a_choice_that_the_template_cannot_show_is_refused_with_the_tokens() -> None:
    whole = Tokens(head(HARMONY, Told(None, (WEATHER,), "required")), rendered(HARMONY, "hi"))

    with pytest.raises(ApiError) as refused:
        whole.raw()
    assert refused.value.param == "tool_choice"


def _written(style: Style, item: Item, *tokens: int) -> list[int]:
    kept = dataclasses.replace(item, tokens=array("I", tokens).tobytes())
    return array("I", extend(Rendered(style=style), [kept]).segments[0].raw).tolist()


def test_what_a_model_wrote_keeps_its_tokens_and_ends_as_a_history_does() -> None:
    known = load("o200k_harmony")
    start, end, back, called = (known.special(f"<|{name}|>") for name in ("start", "end", "return", "call"))
    answer, asked = made(said("assistant", "yes"), call("a"))

    assert _written(HARMONY, answer, start, 1, 2, back) == [start, 1, 2, end]
    assert _written(HARMONY, answer, start, 1, 2) == [start, 1, 2, end]
    assert _written(HARMONY, asked, start, 1, called) == [start, 1, called]
    assert _written(CHATML, answer, 5, 6, load("qwen3").special("<|im_end|>")) == [5, 6]


@given(HISTORIES, STYLES)
def test_no_item_is_rendered_twice(history: list[Item], style: Style) -> None:
    first = extend(Rendered(style=style), history)
    again = extend(Rendered(style=style), history)
    known = {id(item.facts.made.segment) for item in history if item.facts.made is not None}
    kept = [at for at in range(len(history)) if first.segments[at].bare is not None or at in first.thoughts]

    assert first == again
    assert all(id(again.segments[at]) in known for at in kept)
