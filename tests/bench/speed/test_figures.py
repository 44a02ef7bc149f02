import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.speed.figures import interleaved, less, median, quantile, times


def test_the_median_is_that_of_the_standard_library() -> None:
    assert median([5.0, 1.0, 9.0]) == 5.0


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_is_one_of_the_values_and_enough_of_them_do_not_exceed_it(values: list[float], part: float) -> None:
    found = quantile(values, part)
    assert found in values
    assert sum(value <= found for value in values) >= part * len(values)


def test_a_quantile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_variants_take_turns_and_each_comes_once_a_round() -> None:
    assert list(interleaved("abc", 3)) == ["a", "b", "c", "c", "b", "a", "a", "b", "c"]


def test_ratios_say_how_many_times_and_how_much_less() -> None:
    assert times(10, 2) == 5
    assert times(1, 0) == math.inf
    assert less(60, 100) == pytest.approx(0.4)
    assert less(120, 100) == pytest.approx(-0.2)
    assert less(1, 0) == 0
