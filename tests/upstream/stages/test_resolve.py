import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.helpers import WEATHER, items
from upstream.stages.items import Item
from upstream.stages.resolve import EMPTY, Offer, Resolved, extend, offer_for, read_offer
from wire.errors import ApiError

_adding = st.builds(
    lambda names: items(
        {"type": "additional_tools", "role": "developer", "tools": [WEATHER | {"name": n} for n in names]}
    )[0],
    st.lists(st.sampled_from("abc"), max_size=3),
)
_item = st.one_of(_adding, st.just(items("hi")[0]))


@given(st.lists(_item), st.lists(_item))
def test_in_two_steps_it_is_the_same_as_in_one(a: list[Item], b: list[Item]) -> None:
    assert extend(extend(EMPTY, a), b) == extend(EMPTY, a + b)


def test_tools_of_an_item_and_of_the_request_are_both_on_offer() -> None:
    added = extend(EMPTY, items({"type": "additional_tools", "role": "developer", "tools": [WEATHER]}))
    resolved = Resolved("m", read_offer(json.dumps([WEATHER | {"name": "own"}]).encode()), added.added)

    assert [tool.name for tool in resolved.tools()] == ["own", "get_weather"]


def test_items_that_add_nothing_change_nothing() -> None:
    resolved = extend(EMPTY, items("hi", {"type": "additional_tools", "tools": "not a list"}))

    assert resolved is EMPTY


def test_tools_within_a_namespace_are_found_with_its_name() -> None:
    offer = read_offer(json.dumps([{"type": "namespace", "name": "clock", "tools": [WEATHER]}]).encode())

    assert [(tool.namespace, tool.name) for tool in offer.tools] == [("clock", "get_weather")]


def test_tools_that_the_server_runs_itself_offer_nothing_to_call() -> None:
    assert read_offer(b'[{"type":"web_search"},{"type":"tool_search","parameters":{}}]').tools == ()


def test_the_echo_spells_out_the_defaults_of_a_function() -> None:
    (echo,) = json.loads(read_offer(json.dumps([WEATHER]).encode()).echo)

    assert echo == WEATHER | {"description": None, "strict": True}


def test_the_digest_does_not_depend_on_white_space() -> None:
    tight, loose = (json.dumps([WEATHER], separators=s).encode() for s in ((",", ":"), (" , ", " : ")))

    assert tight != loose
    assert read_offer(tight).digest == read_offer(loose).digest


def test_an_offer_already_read_is_taken_again_only_for_the_same_bytes() -> None:
    raw = json.dumps([WEATHER]).encode()
    known = read_offer(raw)

    assert offer_for(raw, known) is known
    assert offer_for(b"", known) == Offer()
    assert offer_for(raw + b" ", known) is not known


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([3], "tools[0]"),
        ([{}], "tools[0].type"),
        ([{"type": 3}], "tools[0].type"),
        ([{"type": "function"}], "tools[0].name"),
        ([WEATHER, {"type": "function", "name": 3}], "tools[1].name"),
        ([WEATHER | {"parameters": []}], "tools[0].parameters"),
    ],
)
def test_what_is_wrong_with_a_tool_is_named_by_its_path(tools: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_offer(json.dumps(tools).encode())

    assert (caught.value.status, caught.value.param) == (400, param)
