from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.upstream.engines.prompts import call, histories, output, said
from tests.upstream.helpers import SEALER, WEATHER, items, members, serving
from upstream.engine import Delta, End, Start, Stop
from upstream.engines.sim import Sim
from upstream.kept.budget import KEY, PROCESS, Budget, head_weight, item_weight, offer_weight
from upstream.kept.content import CACHING, Contents, Shelf
from upstream.kept.store import Store
from upstream.stages.head import Told, head
from upstream.stages.resolve import Offer, read_offer
from upstream.stages.style import Style
from upstream.tokens.vocabulary import load
from upstream.turns.admit import Admission, Turn
from upstream.websocket.lane import Lane

if TYPE_CHECKING:
    import aiohttp

    from upstream.stages.items import Item

_ME, _YOU = b"me", b"you"
_HEAD = head(Style(), Told())
_TOOLS = json.dumps([WEATHER]).encode()


def _budget(**limits: int) -> Budget:
    return Budget({KEY: 10_000_000, PROCESS: 10_000_000} | limits)


def _put(contents: Contents, *found: Item, owner: bytes = _ME, offer: Offer | None = None) -> Shelf:
    shelf = contents.of(owner)
    contents.put(owner, shelf, found, offer or Offer(), _HEAD)
    return shelf


# Shelves


def test_an_item_is_known_by_its_bytes_and_by_its_owner_alone() -> None:
    contents = Contents(_budget())
    (item,) = items("hi")
    _put(contents, item)

    assert contents.of(_ME).item(bytes(bytearray(item.raw))) is item
    assert contents.of(_ME).item(item.raw + b" ") is None
    assert contents.of(_YOU).item(item.raw) is None


def test_an_offer_that_came_before_is_not_read_again() -> None:
    contents = Contents(_budget())
    offer = read_offer(_TOOLS)
    _put(contents, offer=offer)

    assert contents.of(_ME).offer(bytes(bytearray(_TOOLS))) is offer
    assert contents.of(_YOU).offer(_TOOLS) is not offer


def test_heads_are_charged_with_their_instructions_and_leave_when_there_is_no_room() -> None:
    budget = _budget()
    contents = Contents(budget, limit=500_000)
    shelf = contents.of(_ME)
    for number in range(20):
        contents.put(_ME, shelf, (), Offer(), head(Style(), Told(f"{number} " + "x" * 100_000)))

    assert budget.used() == shelf.held == sum(head_weight(one) for one in shelf.heads)
    assert 100_000 * len(shelf.heads) < shelf.held <= 500_000
    for number in range(20):
        contents.put(_ME, shelf, (), Offer(), head(Style(), Told(str(number))))
    assert len(shelf.heads) == 8
    assert budget.used() == shelf.held == sum(head_weight(one) for one in shelf.heads)


def test_without_a_budget_nothing_is_kept() -> None:
    contents = Contents(None)
    (item,) = items("hi")
    shelf = _put(contents, item)

    assert contents.of(_ME) is not shelf
    assert contents.of(_ME).item(item.raw) is None


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 12))
def test_a_shelf_is_bounded_and_what_was_not_used_for_longest_leaves(order: list[int], room: int) -> None:
    made = [items(f"item {number:02}")[0] for number in range(13)]
    weight = item_weight(made[0])
    shelf = Shelf(room * weight + head_weight(_HEAD))
    used: list[int] = []
    for number in order:
        if shelf.item(made[number].raw) is None:
            shelf.put([made[number]], Offer(), _HEAD)
        used = [*(one for one in used if one != number), number][-room:]
        kept = [one for one in range(13) if made[one].raw in shelf._items]

        assert kept == sorted(used)
        assert shelf.held == len(used) * weight + head_weight(_HEAD)


def test_few_offers_and_heads_are_kept() -> None:
    shelf = Shelf(10_000_000)
    offers = [read_offer(json.dumps([WEATHER | {"description": str(number)}]).encode()) for number in range(20)]
    for number, offer in enumerate(offers):
        shelf.put([], offer, head(Style(), Told(str(number))))

    assert shelf.offer(offers[-1].raw) is offers[-1]
    assert shelf.offer(offers[0].raw) is not offers[0]
    assert shelf.held == sum(map(offer_weight, offers[-8:])) + sum(map(head_weight, shelf.heads))
    assert len(shelf.heads) == 8


def test_offers_and_heads_that_are_used_again_outlast_those_that_came_after_them() -> None:
    shelf = Shelf(10_000_000)
    offers = [read_offer(json.dumps([WEATHER | {"description": str(number)}]).encode()) for number in range(9)]
    heads = [head(Style(), Told(str(number))) for number in range(9)]
    for number in [*range(8), 0, 8]:
        shelf.put([], offers[number], heads[number])

    assert [one.told.instructions for one in shelf.heads] == ["2", "3", "4", "5", "6", "7", "0", "8"]
    assert [number for number, one in enumerate(offers) if shelf.offer(one.raw) is one] == [0, *range(2, 9)]


def test_offers_leave_where_they_alone_are_more_than_a_shelf_holds() -> None:
    shelf = Shelf(1_000_000)
    offers = [
        read_offer(json.dumps([WEATHER | {"description": str(number) * size}]).encode())
        for number, size in enumerate([50_000, 50_000, 50_000, 200_000])
    ]
    for number, offer in enumerate(offers[:3], 1):
        shelf.put([], offer, _HEAD)
        assert shelf.held == sum(map(offer_weight, offers[max(0, number - 2) : number])) + sum(
            map(head_weight, shelf.heads)
        )
        assert shelf.held <= 1_000_000
    shelf.put([], offers[3], _HEAD)

    assert shelf.held == 0
    assert shelf.offer(offers[3].raw) is not offers[3]


def test_a_shelf_is_charged_to_its_owner_and_to_the_process() -> None:
    (item,) = items("hi")
    budget = _budget()
    shelf = _put(Contents(budget), item)

    assert budget.held(shelf) == budget.used() == shelf.held == item_weight(item) + head_weight(_HEAD)


@pytest.mark.parametrize("level", [KEY, PROCESS])
def test_a_shelf_that_a_budget_has_no_room_for_goes_as_a_whole(level: str) -> None:
    contents = Contents(_budget(**{level: 4000}))
    first, second = items("x" * 1000, "y" * 1000)
    shelf = _put(contents, first)
    _put(contents, second)

    assert shelf.held == 0
    assert contents.of(_ME) is not shelf
    assert contents.of(_ME).item(first.raw) is None


# The generations


class _Route:
    """A conversation by one of the generations: over HTTP with all of it each turn, or a lane with what is new."""

    def __init__(self, caching: str) -> None:
        budget = Budget({KEY: 10**9, PROCESS: 10**9})
        self.admission = Admission(
            engine=Sim(), sealer=SEALER, store=Store(10**9, budget), now=lambda: 7, caching=caching
        )
        self._lane = Lane() if caching == CACHING[-1] else None
        self._previous: str | None = None

    def turn(self, history: list[Any], new: list[Any]) -> Turn:
        shown = {"input": new, "previous_response_id": self._previous} if self._lane is not None else {"input": history}
        asked = {"model": "m", "tools": [WEATHER], "instructions": "Be kind.", "store": False}
        turn = self.admission.admit(members(**asked, **shown), _ME, self._lane)
        turn.answer.begin()
        for part in (Start("message"), Delta("yes"), End()):
            turn.answer.add(part)
        turn.answer.finish(Stop(), 8)
        kept = self.admission.settle(turn)
        if self._lane is not None:
            self._lane.settled(kept)
            self._previous = kept.id if kept is not None else None
        return turn


_ANSWER = said("assistant", "yes")


@settings(max_examples=40)
@given(st.lists(histories(), min_size=1, max_size=5))
def test_all_generations_show_a_model_the_same(turns: list[list[dict[str, Any]]]) -> None:
    routes = [_Route(caching) for caching in CACHING]
    history: list[dict[str, Any]] = []
    for number, made in enumerate(turns):
        new = [_renamed(item, number) for item in made] or [said("user", "go on")]
        history += new
        shown = [route.turn(history, new) for route in routes]
        prompts = [turn.prompt for turn in shown]

        assert len({prompt.digest for prompt in prompts if prompt is not None}) == 1
        assert len({prompt.tokens.raw() for prompt in prompts if prompt is not None}) == 1
        assert len({turn.input_tokens for turn in shown}) == 1
        history.append(_ANSWER)


def _renamed(item: dict[str, Any], turn: int) -> dict[str, Any]:
    return item | {"call_id": f"{turn} {item['call_id']}"} if "call_id" in item else item


@pytest.mark.parametrize("caching", CACHING)
def test_of_200_deltas_nothing_is_encoded_twice_but_without_caching(
    caching: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, encoded = load("o200k_harmony"), list[str]()

    class Counting:
        name, special, has, text = known.name, known.special, known.has, known.text

        def ordinary(self, text: str) -> bytes:
            encoded.append(text)
            return known.ordinary(text)

    monkeypatch.setattr("upstream.stages.style.vocabulary.load", lambda _: Counting())
    route, history = _Route(caching), list[dict[str, Any]]()
    turns = 200 if caching != "none" else 40
    for number in range(turns):
        new = [call(f"c{number}"), output(f"c{number}", f"output {number}")] if number else [said("user", "hi")]
        history += new
        route.turn(history, new)
        history.append(_ANSWER)

    times = {text: encoded.count(text) for text in (*(f"output {number}" for number in range(1, turns)), "hi")}
    assert set(times.values()) == ({1} if caching != "none" else set(range(1, turns + 1)))
    assert sum(text.startswith("# Instructions\n\nBe kind.") for text in encoded) == (1 if caching != "none" else turns)


def test_without_caching_a_stored_response_keeps_its_items_only() -> None:
    route = _Route("none")
    first = route.admission.admit(members(model="m", input="hi"), _ME)
    first.answer.begin()
    first.answer.finish(Stop(), 8)
    route.admission.settle(first)
    stored = route.admission.store.get(first.answer.id, _ME)
    assert stored is not None
    (item,) = stored.context.items

    assert (item.facts.made, item.facts.verdict) == (None, None)
    assert len(stored.context.rendered.segments) == 0
    then = route.admission.admit(members(model="m", input="more", previous_response_id=first.answer.id), _ME)
    assert [one.type for one in then.context.items] == ["message", "message"]
    assert then.cached_tokens == 0


@pytest.mark.parametrize("caching", ["none", "http"])
async def test_without_websockets_an_upgrade_is_answered_426(caching: str, http: aiohttp.ClientSession) -> None:
    async with serving(caching=caching) as server:
        asked = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        async with http.get(f"{server.url}/v1/responses", headers=asked) as answer:
            assert answer.status == 426
            assert (await answer.json())["error"]["code"] == "websocket_not_supported"
        async with http.post(f"{server.url}/v1/responses", json={"model": "m", "input": "hi"}) as answer:
            assert answer.status == 200
