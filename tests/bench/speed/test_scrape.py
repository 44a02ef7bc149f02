import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from bench.speed.scrape import Observed, histogram


def test_a_histogram_is_summed_over_its_labels() -> None:
    registry = CollectorRegistry()
    made = Histogram("start_seconds", "x", ("transport",), registry=registry)
    Histogram("start_seconds_more", "x", registry=registry).observe(9)
    made.labels("http").observe(0.25)
    made.labels("websocket").observe(0.5)
    assert histogram(generate_latest(registry).decode(), "start_seconds") == Observed(0.75, 2)


def test_one_without_observations_may_be_absent() -> None:
    assert histogram("", "start_seconds") == Observed()


def test_the_mean_in_between_is_of_what_was_observed_in_between() -> None:
    assert Observed(3.0, 4).since(Observed(1.0, 2)) == 1.0


def test_there_is_no_mean_of_nothing() -> None:
    with pytest.raises(ValueError, match="nothing was observed"):
        Observed(3.0, 4).since(Observed(3.0, 4))
