from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.helpers import items
from upstream.stages import render
from upstream.stages.pipeline import EMPTY, Context, extend
from upstream.stages.window import fitted
from wire.errors import ApiError

_TEXTS = st.lists(st.integers(0, 300).map("x".__mul__), min_size=1, max_size=12)


def _context(*texts: str) -> Context:
    return extend(EMPTY, items(*texts))


def _texts(context: Context) -> list[str]:
    return [item.value()["content"] for item in context.items]


def _refused(context: Context, window: int, truncation: str | None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        fitted(context, beside=0, window=window, truncation=truncation)
    return caught.value


def test_what_fits_is_shown_whole_and_so_is_all_without_a_window() -> None:
    context = _context("a", "b")

    assert fitted(context, beside=0, window=0, truncation=None) is context
    assert fitted(context, beside=3, window=context.rendered.tokens + 3, truncation=None) is context


@pytest.mark.parametrize("truncation", [None, "disabled"])
def test_too_much_is_refused_unless_it_may_be_cut(truncation: str | None) -> None:
    error = _refused(_context("a", "b"), 5, truncation)

    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "input")


@given(_TEXTS, st.integers(20, 400))
def test_the_newest_items_that_fit_are_shown(texts: list[str], window: int) -> None:
    context = _context(*texts)
    if render.extend(render.EMPTY, list(context.items)[-1:]).tokens > window:
        assert _refused(context, window, "auto").code == "context_length_exceeded"
        return
    shown = fitted(context, beside=0, window=window, truncation="auto")
    left = len(texts) - len(shown.items)

    assert _texts(shown) == texts[left:]
    assert shown.rendered.tokens <= window
    assert not left or render.extend(render.EMPTY, list(context.items)[left - 1 :]).tokens > window
    assert shown.rendered == render.extend(render.EMPTY, shown.items)


@given(_TEXTS, _TEXTS, st.integers(20, 400))
def test_the_way_a_history_came_changes_nothing(a: list[str], b: list[str], window: int) -> None:
    shown: list[render.Rendered | None] = []
    for context in (_context(*a, *b), extend(_context(*a), items(*b))):
        try:
            shown.append(fitted(context, beside=0, window=window, truncation="auto").rendered)
        except ApiError:
            shown.append(None)
    assert shown[0] == shown[1]


def test_instructions_within_the_conversation_leave_last() -> None:
    context = extend(EMPTY, items({"role": "system", "content": "be"}, "a" * 90, "b" * 90))

    assert _texts(fitted(context, beside=0, window=45, truncation="auto")) == ["be", "b" * 90]
    big = extend(EMPTY, items({"role": "system", "content": "s" * 900}, "b"))
    assert _texts(fitted(big, beside=0, window=35, truncation="auto")) == ["b"]


def test_an_output_leaves_with_its_call() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "x" * 400}
    context = extend(EMPTY, items(call, {"type": "function_call_output", "call_id": "c", "output": "o"}, "next"))

    assert _texts(fitted(context, beside=0, window=40, truncation="auto")) == ["next"]
    asked = extend(EMPTY, list(context.items)[:2])
    assert _refused(asked, 40, "auto").code == "context_length_exceeded"
