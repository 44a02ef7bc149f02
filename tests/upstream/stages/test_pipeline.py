import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.helpers import WEATHER, items
from upstream.stages.items import Item
from upstream.stages.pipeline import EMPTY, Context, bare, extend, refolded
from upstream.stages.resolve import Resolved
from wire.errors import ApiError

_exchange = st.builds(
    lambda n: items(
        f"question {n}",
        {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"c{n}", "output": "x" * (n % 50)},
        {"type": "additional_tools", "tools": [WEATHER]},
    ),
    st.integers(0, 10_000),
)


@given(st.lists(_exchange), st.lists(_exchange))
def test_in_two_steps_it_is_the_same_as_in_one(a: list[list[Item]], b: list[list[Item]]) -> None:
    first = [item for exchange in a for item in exchange]
    then = [item for exchange in b for item in exchange]

    assert extend(extend(EMPTY, first), then) == extend(EMPTY, first + then)


def test_a_context_that_is_continued_twice_stays_as_it_was() -> None:
    trunk = extend(EMPTY, items("a"))
    left, right = extend(trunk, items("b")), extend(trunk, items("c"))

    assert len(trunk.items) == 1
    assert left.rendered.digest != right.rendered.digest
    assert extend(trunk, items("b")) == left


def test_an_item_that_does_not_fit_leaves_the_context_usable() -> None:
    trunk = extend(EMPTY, items("a"))
    with pytest.raises(ApiError):
        extend(trunk, items("b", {"type": "function_call_output", "call_id": "none", "output": ""}))

    assert extend(trunk, items("b")) == extend(EMPTY, items("a", "b"))


def test_the_size_is_that_of_the_items_bytes() -> None:
    fresh = items("a", "bb")

    assert extend(EMPTY, fresh).size == sum(len(item.raw) for item in fresh)


def test_another_model_or_offer_changes_nothing_else() -> None:
    context = extend(EMPTY, items("a"))
    under = context.under(Resolved("m"))

    assert under.resolved.model == "m"
    assert under.items is context.items
    assert under.under(Resolved("m")) is under
    assert context == Context(context.items, context.known, context.resolved, context.rendered, context.size)


@given(st.lists(_exchange, max_size=4))
def test_a_bare_context_keeps_no_more_than_its_items_and_folds_to_the_whole_again(made: list[list[Item]]) -> None:
    whole = extend(EMPTY, [item for exchange in made for item in exchange])
    kept = bare(whole)

    assert kept.items == whole.items
    assert len(kept.rendered.segments) == 0
    assert all(item.facts.made is None for item in kept.items)
    assert refolded(EMPTY, kept) == whole
