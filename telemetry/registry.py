"""A registry of Prometheus metrics, and how it is told: what the metrics of both sides have in common."""

import platform
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version as installed_version
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

OVERHEAD_BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
DURATION_BUCKETS: Final = tuple(round(0.01 * 2**power, 2) for power in range(17))
"""Doubling from 10 ms; the first fourteen are those that the GenAI conventions advise for durations."""


class Registry(CollectorRegistry):
    """Leaves out the creation times that the library adds to each series: they double the page and nobody asked.

    `build_info` names the gauge that is always 1 and tells what runs here; `version` stands in for ours.
    """

    def __init__(self, build_info: str, version: str | None = None) -> None:
        super().__init__()
        self._observed: dict[str, tuple[str, str, Callable[[], Mapping[str, float]]]] = {}
        Gauge(build_info, "Always 1", ("version", "python"), registry=self).labels(
            version or installed_version("deltawire"), platform.python_version()
        ).set(1)

    def observe(self, name: str, about: str, label: str, values: Callable[[], Mapping[str, float]]) -> None:
        """Ask `values` at each scrape for the gauge `name`: a number for each value of `label`.

        A gauge without a label has its only number under the empty text.
        """
        self._observed[name] = (about, label, values)

    def collect(self) -> Iterator[Metric]:
        """What there is to tell."""
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
        for name, (about, label, values) in self._observed.items():
            family = GaugeMetricFamily(name, about, labels=(label,) if label else ())
            for key, number in values().items():
                family.add_metric((key,) if label else (), number)
            yield family

    def render(self) -> tuple[bytes, str]:
        """The text exposition of all metrics, and its content type."""
        return generate_latest(self), CONTENT_TYPE
