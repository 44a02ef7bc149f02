"""Prometheus' text format, as far as a measurement needs it: sums and counts of a histogram."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Observed:
    """What a histogram has seen so far, over all its labels."""

    total: float = 0.0
    count: float = 0.0

    def since(self, before: Observed) -> float:
        """The mean of what was observed in between. Raises `ValueError` when that is nothing."""
        number = self.count - before.count
        if number <= 0:
            raise ValueError("nothing was observed")
        return (self.total - before.total) / number


def histogram(page: str, name: str) -> Observed:
    """The histogram of this name; one without observations may be absent."""
    return Observed(_sum(page, f"{name}_sum"), _sum(page, f"{name}_count"))


def _sum(page: str, name: str) -> float:
    return sum(map(float, re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE)))
