"""Statistics of small samples, and the order in which variants take turns."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_T = TypeVar("_T")

__all__ = ["interleaved", "less", "median", "quantile", "times"]


def quantile(values: Iterable[float], part: float) -> float:
    """The smallest value that at least this part of the values does not exceed. Raises `ValueError` without values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def interleaved(variants: Sequence[_T], rounds: int) -> Iterator[_T]:
    """Each variant once a round, every other round backwards: slow changes of the machine meet all alike."""
    for number in range(rounds):
        yield from reversed(variants) if number % 2 else variants


def times(value: float, base: float) -> float:
    """How many times `base` goes into `value`; infinite for a base of zero."""
    return value / base if base else math.inf


def less(value: float, base: float) -> float:
    """The part by which `value` is less than `base`: 0.4 is 40% less, negative is more."""
    return 1 - value / base if base else 0.0
