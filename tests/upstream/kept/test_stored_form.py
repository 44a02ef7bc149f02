from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.helpers import SEALER, WEATHER, items
from upstream.kept.store import Stored
from upstream.kept.stored_form import decode_record, decode_turn, encode_record, encode_turn, stored_from
from upstream.stages import compaction
from upstream.stages.items import Item, output_item
from upstream.stages.pipeline import EMPTY, Context, extend
from upstream.stages.render import Rendered
from upstream.stages.resolve import Resolved, read_offer
from upstream.stages.screen import Screened
from upstream.stages.screens import chain
from upstream.stages.style import Style

if TYPE_CHECKING:
    from upstream.kept.lineage import Path

_SCREENED = Context(screened=Screened(chain("on")))
_PATH: Path = ((b"log", 3), (b"other", 1))


def _turn(number: int, text: str, *, hidden: str = "", compacts: bool = False) -> tuple[list[Item], list[Item], bool]:
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "f", "arguments": "{}"}
    written = [
        output_item({"type": "reasoning", "id": f"rs_{number}", "summary": []}, hidden),
        output_item(call, tokens=array("I", [number % 1000, 7]).tobytes()),
    ]
    more = {"type": "additional_tools", "tools": [WEATHER]} if number % 3 == 0 else text
    return items(more, text * 40), written, compacts


_turns = st.lists(
    st.builds(_turn, st.integers(0, 10**6), st.text(), hidden=st.text(), compacts=st.booleans()),
    min_size=1,
    max_size=6,
    unique_by=lambda turn: turn[1][0].id,
)


def _chain(turns: list[tuple[list[Item], list[Item], bool]], empty: Context) -> list[Stored]:
    """The responses as admission and settling make them."""
    context, made, parent = empty, [], None
    for number, (fresh, written, compacts) in enumerate(turns):
        context = extend(context, fresh)
        folded = [compaction.compact(context, SEALER)] if compacts else []
        context = extend(extend(context, folded), written)
        output = (*folded, *written)
        made.append(Stored(f"resp_{number}", b"me", parent, b'{"id":1}', tuple(fresh), output, context))
        parent = made[-1].id
    return made


def _same(one: Context, other: Context) -> bool:
    """Everything that a continuation goes on from."""
    return (
        list(one.items) == list(other.items)
        and one.rendered == other.rendered
        and one.screened == other.screened
        and one.size == other.size
        and one.known.calls == other.known.calls
        and list(one.resolved.added) == list(other.resolved.added)
    )


@given(_turns, st.sampled_from([EMPTY, _SCREENED]), st.integers(0, 5))
def test_a_conversation_that_is_read_is_the_one_that_was_written(
    turns: list[tuple[list[Item], list[Item], bool]], empty: Context, begin: int
) -> None:
    made = _chain(turns, empty)
    begin %= len(made)
    # The turn at `begin` brings the whole conversation; what stood before it is not read.
    written = [encode_turn(one, whole=at == begin) for at, one in enumerate(made)][begin:]
    record = decode_record(encode_record(made[-1], _PATH))
    read = stored_from(made[-1].id, b"me", record, [decode_turn(one) for one in written], empty)

    assert _same(read.context, made[-1].context)
    assert replace(read, context=made[-1].context) == made[-1]
    assert record.path == _PATH


def test_what_stands_before_a_turn_that_brings_everything_does_not_count() -> None:
    first, second = _chain([_turn(1, "a"), _turn(2, "b")], EMPTY)
    turns = [decode_turn(encode_turn(first, whole=False)), decode_turn(encode_turn(second, whole=True))]
    read = stored_from("x", b"me", decode_record(encode_record(second, _PATH)), turns, EMPTY)

    assert _same(read.context, second.context)


def test_the_offer_of_tools_comes_with_the_next_request_and_not_from_the_store() -> None:
    (made,) = _chain([_turn(1, "a")], EMPTY)
    offer = read_offer(msgspec.json.encode([WEATHER]))
    made = replace(made, context=made.context.under(Resolved("m", offer, made.context.resolved.added)))
    read = stored_from(
        "x", b"me", decode_record(encode_record(made, _PATH)), [decode_turn(encode_turn(made, whole=False))], EMPTY
    )

    assert read.context.resolved.offer.raw == b""


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x93\x01\x02\x03", msgspec.msgpack.encode([1])])
def test_what_has_another_form_is_an_error_and_nothing_else(data: bytes) -> None:
    for decode in (decode_record, decode_turn):
        with pytest.raises(msgspec.DecodeError):
            decode(data)


def test_tokens_that_a_model_wrote_come_back_where_they_are_tokens_of_the_same_vocabulary() -> None:
    (made,) = _chain([_turn(1, "a")], EMPTY)
    turn = decode_turn(encode_turn(made, whole=False))
    other = replace(EMPTY, rendered=Rendered(style=Style("chatml")))

    assert [item.tokens for item in turn.items(EMPTY)] == [item.tokens for item in (*made.input, *made.output)]
    assert turn.items(EMPTY)[-1].tokens != b""
    assert [item.tokens for item in turn.items(other)] == [b""] * 4
