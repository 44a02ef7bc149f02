from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.engine import Usage
from upstream.engines.chains import packed, unpacked
from upstream.engines.numbers import slots, token_ids, usage
from wire.errors import ApiError

_ANY = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just([]), st.integers(0, 10**9))


def test_tokens_are_taken_as_told_and_those_not_told_are_none() -> None:
    assert usage(30, 20, 9, 4) == Usage(30, 20, 9, 4)
    assert usage(3, None, None, None) == Usage(3)


@pytest.mark.parametrize("bad", [-5, -1, 10**9 + 1, 10**30, True, 1.5, "3", [], {}])
@pytest.mark.parametrize("place", range(4))
def test_one_that_is_no_number_of_tokens_makes_all_unknown(bad: object, place: int) -> None:
    told: list[Any] = [9, 9, 9, 9]
    told[place] = bad

    assert usage(*told) is None


@given(_ANY, _ANY, _ANY, _ANY)
def test_what_is_taken_can_always_be_true(read: object, cached: object, wrote: object, thought: object) -> None:
    found = usage(read, cached, wrote, thought)
    if found is not None:
        assert 0 <= found.cached_tokens <= found.input_tokens <= 10**9
        assert 0 <= found.reasoning_tokens <= found.output_tokens <= 10**9


@pytest.mark.parametrize(
    ("told", "taken"), [(1, 1), (8, 8), (None, 1), (0, 1), (-1, 1), (True, 1), ("4", 1), (10**12, 1)]
)
def test_slots_are_at_least_one_and_no_more_than_there_can_be(told: object, taken: int) -> None:
    assert slots(told) == taken


def test_tokens_are_kept_as_they_were_told() -> None:
    assert token_ids([0, 7, 2**32 - 1]) == packed([0, 7, 2**32 - 1])
    assert unpacked(token_ids([])) == []


@pytest.mark.parametrize("bad", [None, "1", {}, [-1], [2**32], ["1"], [None], [1.5], [[1]]])
def test_what_are_no_tokens_is_an_answer_that_cannot_be_read(bad: object) -> None:
    with pytest.raises(ApiError) as refused:
        token_ids(bad)

    assert refused.value.status == 502
