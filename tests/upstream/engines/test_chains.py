from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.engines.prompts import prompt, said
from upstream.engines.chains import Chain, Slots, continued, packed, unpacked
from upstream.templates import chatml
from upstream.templates.chatml import EMPTY, extend
from upstream.templates.parts import plain

if TYPE_CHECKING:
    from upstream.stages.items import Item

_ME, _OTHER = b"me", b"other"


def _items(*texts: str) -> tuple[Item, ...]:
    return tuple(prompt(*texts).items)


def _read(slots: Slots, owner: bytes, *texts: str) -> int:
    slot, _, _ = slots.take(owner, _items(*texts))
    slots.give_back(slot, Chain(owner, _items(*texts)))
    return slot


def test_a_conversation_that_goes_on_finds_its_slot_and_others_take_another() -> None:
    slots = Slots(3)

    assert _read(slots, _ME, "a") == 0
    assert _read(slots, _ME, "b") == 1
    assert _read(slots, _ME, "a", "more") == 0
    slot, chain, may_reuse = slots.take(_ME, _items("a", "more", "and more"))
    assert (slot, may_reuse) == (0, True)
    assert chain.items == _items("a", "more")


def test_when_all_slots_hold_something_the_one_not_used_for_longest_is_taken() -> None:
    slots = Slots(2)
    _read(slots, _ME, "a")
    _read(slots, _ME, "b")
    _read(slots, _ME, "a", "more")

    assert _read(slots, _ME, "c") == 1


def test_a_fork_beside_a_running_turn_takes_another_slot_and_still_knows_its_beginning() -> None:
    slots = Slots(2)
    _read(slots, _ME, "a", "b")
    slots.take(_ME, _items("a", "b", "c"))
    slot, chain, _ = slots.take(_ME, _items("a", "b", "d"))

    assert slot == 1
    assert chain.items == _items("a", "b")


def test_what_another_owner_sent_is_never_used() -> None:
    slots = Slots(1)
    _read(slots, _OTHER, "a")
    slot, chain, may_reuse = slots.take(_ME, _items("a", "b"))

    assert (slot, chain.items, may_reuse) == (0, (), False)


def test_a_slot_that_broke_off_holds_nothing_that_is_known() -> None:
    slots = Slots(1)
    slot, _, _ = slots.take(_ME, _items("a"))
    slots.give_back(slot, None)

    assert slots.take(_ME, _items("a")) == (0, Chain(_ME), False)


def test_known_segments_keep_their_tokens_and_so_does_what_the_model_wrote() -> None:
    items = _items("hi")
    rendered = extend(EMPTY, items)
    chain = continued(Chain(_ME), items, rendered, ())
    chain.tokens[:] = [b"", b"hi.."]
    chain.wrote = (plain([chatml.tail(rendered.open)]) + "yes", b"yes.")
    answer, more = prompt(said("assistant", "yes"), "more").items
    grown = continued(chain, (*items, answer, more), extend(rendered, [answer, more]), ())

    assert grown.tokens == [b"", b"hi..", b"yes.", None]


def test_an_answer_that_was_changed_is_tokenized_anew() -> None:
    items = _items("hi")
    rendered = extend(EMPTY, items)
    chain = continued(Chain(_ME), items, rendered, ())
    chain.tokens[:] = [b"", b"hi.."]
    chain.wrote = (plain([chatml.tail(rendered.open)]) + "yes", b"yes.")
    (answer,) = prompt(said("assistant", "no")).items

    assert continued(chain, (*items, answer), extend(rendered, [answer]), ()).tokens == [b"", b"hi..", None]


def test_another_head_changes_the_heads_tokens_only() -> None:
    items = _items("hi")
    rendered = extend(EMPTY, items)
    chain = continued(Chain(_ME), items, rendered, ())
    chain.tokens[:] = [b"", b"hi.."]

    assert continued(chain, items, rendered, chatml.head(prompt(instructions="x"))).tokens == [None, b"hi.."]


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_tokens_are_kept_as_four_bytes_each(tokens: list[int]) -> None:
    assert unpacked(packed(tokens)) == tokens
    assert len(packed(tokens)) == 4 * len(tokens)
