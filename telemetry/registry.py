"""A registry of Prometheus metrics, and how it is told: what the metrics of both sides have in common."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

OVERHEAD_BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
DURATION_BUCKETS: Final = tuple(round(0.01 * 2**power, 2) for power in range(17))
"""Doubling from 10 ms; the first fourteen are those that the GenAI conventions advise for durations."""


class Registry(CollectorRegistry):
    """Leaves out the creation times that the library adds to each series: they double the page and nobody asked."""

    def collect(self) -> Iterator[Metric]:
        """What there is to tell."""
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric

    def render(self) -> tuple[bytes, str]:
        """The text exposition of all metrics, and its content type."""
        return generate_latest(self), CONTENT_TYPE
