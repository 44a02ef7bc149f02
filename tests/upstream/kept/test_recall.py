from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.helpers import items, members
from upstream.kept.recall import Named, Recall, named
from upstream.kept.store import Store, Stored
from upstream.stages.items import output_item
from upstream.stages.pipeline import EMPTY, extend
from upstream.turns.asked import Kept
from upstream.websocket.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upstream.kept.library import Library
    from upstream.stages.items import Item
    from upstream.stages.pipeline import Context

_ME, _YOU = b"me", b"you"


def _stored(name: str) -> Stored:
    made = output_item({"type": "message", "id": f"msg_{name}", "role": "assistant", "content": []})
    fresh = items("hi")
    return Stored(name, _ME, None, b"{}", tuple(fresh), (made,), extend(EMPTY, [*fresh, made]))


class _Library:
    """Has what it is given, and remembers what it was asked for."""

    def __init__(self, *there: Stored) -> None:
        self.there = {one.id: one for one in there}
        self.asked: list[str] = []
        self.forgotten: list[str] = []
        self.slow: asyncio.Event | None = None

    async def find(self, response_id: str, owner: bytes, empty: Context) -> Stored | None:
        assert empty is EMPTY
        found = await self.told(response_id, owner)
        if self.slow is not None:
            await self.slow.wait()
        return found

    async def told(self, response_id: str, owner: bytes) -> Stored | None:
        self.asked.append(response_id)
        found = self.there.get(response_id)
        return found if found is not None and found.owner == owner else None

    async def items(self, ids: Sequence[str], owner: bytes, empty: Context) -> dict[str, Item]:
        assert empty is EMPTY
        self.asked += ids
        known = {item.id: item for one in self.there.values() if one.owner == owner for item in one.output}
        return {name: known[name] for name in ids if name in known}

    def forget(self, response_id: str, owner: bytes) -> None:
        self.forgotten.append(f"{owner.decode()}:{response_id}")


def _recall(*there: Stored, room: int = 1_000_000) -> tuple[Recall, Store, _Library]:
    store, library = Store(room), _Library(*there)
    return Recall(store, EMPTY, cast("Library", library)), store, library


@pytest.mark.parametrize(
    ("request_input", "names"),
    [
        ("hi", ()),
        ([{"type": "item_reference", "id": "a"}, {"id": "b"}], ("a", "b")),
        ([{"type": "reasoning", "id": "r", "summary": []}], ("r",)),
        ([{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}], ()),
        ([{"role": "user", "id": "m", "content": "x"}, {"type": "function_call", "id": "f"}], ()),
        ([{"type": "item_reference", "id": 7}, {"type": "item_reference"}, 3, None], ()),
    ],
)
def test_items_are_named_that_a_request_refers_to_or_whose_text_it_lacks(
    request_input: Any, names: tuple[str, ...]
) -> None:
    asked = members(model="m", input=request_input, previous_response_id="resp_1")

    assert named(asked) == Named("resp_1", names)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_whatever_cannot_be_read_names_nothing(parent: bytes, raw: bytes) -> None:
    found = named({"previous_response_id": parent, "input": b'["id",' + raw})

    assert found.items == () or all(isinstance(name, str) for name in found.items)


async def test_what_memory_has_is_not_missing() -> None:
    recall, store, library = _recall()
    store.put(_stored("a"))
    asked = members(previous_response_id="a", input=[{"type": "item_reference", "id": "msg_a"}])

    assert recall.missing(asked, _ME) is None
    assert recall.missing(asked, _YOU) == Named("a", ("msg_a",))
    assert await recall.find("a", _ME) is not None
    assert library.asked == []


def test_what_a_lane_has_is_not_missing() -> None:
    recall, _, _ = _recall()
    lane, kept = Lane(), _stored("a")
    asked = members(previous_response_id="a", input=[{"type": "item_reference", "id": "msg_a"}])
    assert recall.missing(asked, _ME, lane) == Named("a", ("msg_a",))
    lane.latest = Kept("a", kept.context, cast("Any", None))

    assert recall.missing(asked, _ME, lane) is None


async def test_what_is_brought_is_at_hand_while_a_request_is_admitted() -> None:
    recall, store, _ = _recall(_stored("a"), _stored("b"))
    asked = members(previous_response_id="a", input=[{"type": "item_reference", "id": "msg_b"}])
    with (await recall.brought(asked, _ME)).at_hand():
        assert store.get("a", _ME) is not None
        assert store.item("msg_b", _ME) is not None
        assert store.item("msg_b", _YOU) is None

    assert store.get("a", _ME) is not None, "it is in memory from now on"
    assert store.item("msg_b", _ME) is None, "items are lent"
    assert recall.missing(members(previous_response_id="a"), _ME) is None


async def test_what_is_too_large_to_be_kept_is_brought_all_the_same() -> None:
    recall, store, _ = _recall(_stored("a"), room=1)
    with (await recall.brought(members(previous_response_id="a"), _ME)).at_hand():
        assert store.get("a", _ME) is not None

    assert store.get("a", _ME) is None


async def test_what_is_deleted_while_it_is_brought_does_not_come_back() -> None:
    recall, store, library = _recall(_stored("a"))
    library.slow = asyncio.Event()
    asked = members(previous_response_id="a")
    coming = [asyncio.ensure_future(recall.brought(asked, _ME)) for _ in range(2)]
    while len(library.asked) < len(coming):  # noqa: ASYNC110 (the library tells nobody)
        await asyncio.sleep(0)
    recall.forget("a", _ME)
    library.slow.set()
    for one in coming:
        with (await one).at_hand():
            assert store.get("a", _ME) is None

    with (await recall.brought(asked, _ME)).at_hand():
        assert store.get("a", _ME) is not None, "the library of this test has it still: nothing is remembered for ever"


async def test_what_was_brought_twice_at_once_is_kept_once() -> None:
    recall, store, _ = _recall(_stored("a"))
    asked = members(previous_response_id="a")
    first, second = [await recall.brought(asked, _ME) for _ in range(2)]
    for one in (first, second):
        with one.at_hand():
            pass
    store.delete("a", _ME)

    assert (len(store), store.bytes) == (0, 0)


async def test_what_nobody_has_stays_missing() -> None:
    recall, store, library = _recall(_stored("a"))
    with (await recall.brought(members(previous_response_id="a"), _YOU)).at_hand():
        assert store.get("a", _YOU) is None

    assert await recall.find("b", _ME) is None
    assert library.asked == ["a", "b"]


async def test_without_a_library_nothing_is_missing_and_nothing_is_read() -> None:
    recall = Recall(Store(1000), EMPTY)
    asked = {"previous_response_id": json.dumps("a").encode(), "input": b"not even JSON"}

    assert recall.missing(asked, _ME) is None
    assert await recall.find("a", _ME) is None
    with (await recall.brought(asked, _ME)).at_hand():
        pass


def test_a_response_is_forgotten_everywhere() -> None:
    recall, store, library = _recall()
    store.put(_stored("a"))
    recall.forget("a", _ME)

    assert (len(store), library.forgotten) == (0, ["me:a"])
