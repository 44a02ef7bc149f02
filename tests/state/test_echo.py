"""How near items are to an answer that they do not echo exactly."""

from __future__ import annotations

import pytest

from state.echo import NEAR, near, same, taken
from state.heads import AnswerItem
from state.match import Item

THOUGHT, CALL, SAID = (AnswerItem((name * 16,), name) for name in (b"t", b"c", b"s"))
ANSWER = (AnswerItem(THOUGHT.digests, THOUGHT.reference, reasoning=True), CALL, SAID)


def echo(*names: str) -> list[Item]:
    return [Item(b"{}", name.encode() * 16, None) for name in names]


@pytest.mark.parametrize(
    ("items", "count", "reason"),
    [
        (echo("t", "s", "c"), 3, "output_reordered"),
        (echo("t", "s", "c", "x"), 3, "output_reordered"),
        (echo("c", "s"), 2, "reasoning_dropped"),
        (echo("c", "s", "x"), 2, "reasoning_dropped"),
        (echo("s", "c"), 2, "output_reordered"),
        (echo("t", "c"), None, "history_diverged"),
        (echo("c", "x", "s"), None, "history_diverged"),
        ([], None, "history_diverged"),
    ],
)
def test_reasoning_may_be_missing_and_the_order_another_but_nothing_else(
    items: list[Item], count: int | None, reason: str
) -> None:
    assert taken(ANSWER, items) == count
    assert near(ANSWER, items) == reason
    assert reason in NEAR


def test_an_item_is_the_echo_in_either_form_and_a_reference_by_its_name() -> None:
    answer = AnswerItem((b"1" * 16, b"2" * 16), b"name")
    assert [same(answer, item) for item in echo("1", "2", "3")] == [True, True, False]
    assert same(answer, Item(b"{}", None, None, b"name"))
    assert not same(answer, Item(b"{}", b"1" * 16, None, b"other"))
