from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.helpers import WEATHER, members
from upstream.stages.resolve import Offer, offer_for
from upstream.turns.asked import Asked, asked, resume
from upstream.turns.request import read_request
from wire.errors import ApiError
from wire.response import shown_for

_FIRST: dict[str, Any] = {"model": "m", "instructions": "be brief", "tools": [WEATHER], "temperature": 1, "user": "u"}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "include": st.just(["reasoning.encrypted_content"]),
    "instructions": st.sampled_from(["", "be", "é\n"]),
    "metadata": st.dictionaries(st.sampled_from("ab"), st.text(max_size=2)),
    "model": st.sampled_from(["m", "n"]),
    "reasoning": st.sampled_from([{"effort": "low"}, {"summary": "auto"}]),
    "store": st.booleans(),
    "temperature": st.sampled_from([0, 1, 1.0, 0.5]),
    "tools": st.lists(st.just(WEATHER), max_size=2),
    "text": st.sampled_from([{"verbosity": "low"}, {"format": {"type": "json_object"}}]),
    "user": st.sampled_from(["u", "v"]),
}
_REQUESTS = st.fixed_dictionaries(
    {"model": _VALUES["model"]},
    optional={name: st.none() | values for name, values in _VALUES.items() if name != "model"},
)


def _asked(**values: Any) -> Asked:
    request = read_request(members(**values))
    return asked(request, offer_for(request.tools, Offer()))


def _after(before: Asked, **changes: Any) -> Asked:
    resumed = resume(before, members(**changes), "resp_1")
    return asked(resumed.request, offer_for(resumed.request.tools, before.offer), resumed)


def test_nothing_new_is_the_very_same_and_the_request_names_what_it_goes_on_from() -> None:
    before = _asked(**_FIRST)
    resumed = resume(before, members(input=[]), "resp_1")

    assert asked(resumed.request, before.offer, resumed) is before
    assert (resumed.request.fields.previous_response_id, resumed.request.input) == ("resp_1", b"[]")
    assert resumed.request.instructions is before.request.instructions
    assert not resumed.chooses_anew


def test_what_belongs_to_one_turn_is_not_taken_over() -> None:
    own = members(model="m", input="x", previous_response_id="resp_0", generate=False, stream=True)
    fields = asked(read_request(own), Offer()).request.fields

    assert (fields.previous_response_id, fields.generate, fields.stream) == (None, None, None)


def test_only_what_is_given_is_worked_out_anew() -> None:
    before = _asked(**_FIRST)
    after = _after(before, metadata={"a": "b"})

    assert after.text is before.text
    assert after.offer is before.offer
    assert json.loads(after.shown["metadata"]) == {"a": "b"}
    assert _after(before, client_metadata={"a": "b"}, include=[]).shown is before.shown
    assert _after(before, instructions="other").digest != before.digest


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"temperature": 9}, "temperature"),
        ({"model": None}, "model"),
        ({"tools": {}}, "tools"),
        ({"conversation": "c"}, "conversation"),
        ({"previous_response_id": "resp_2"}, "previous_response_id"),
    ],
)
def test_what_is_given_is_checked(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        resume(_asked(**_FIRST), members(**changes), "resp_1")
    assert caught.value.param == param


def test_it_weighs_what_it_holds_beside_the_tools() -> None:
    assert _asked(model="m", instructions="x" * 1000).size - _asked(model="m").size > 1900
    assert _asked(model="m", tools=[WEATHER]).size == _asked(model="m").size


@given(_REQUESTS, _REQUESTS)
def test_a_request_by_its_differences_is_the_request(first: dict[str, Any], second: dict[str, Any]) -> None:
    gone = dict.fromkeys(first.keys() - second.keys())
    changes = {name: value for name, value in second.items() if first.get(name, ...) != value}
    by_difference, whole = _after(_asked(**first), **gone, **changes), _asked(**second)

    assert by_difference.request.fields == whole.request.fields
    assert by_difference.digest == whole.digest
    assert (by_difference.request.tools or b"[]") == (whole.request.tools or b"[]")
    assert {**by_difference.shown} == {**whole.shown} == shown_for(members(**second))
