from importlib.metadata import version
from platform import python_version

from prometheus_client import Counter

from telemetry.registry import CONTENT_TYPE, Registry


def test_series_are_told_without_the_time_of_their_creation() -> None:
    registry = Registry("a_build")
    Counter("a_thing", "Things", registry=registry).inc()
    body, content_type = registry.render()

    assert "a_thing_total 1.0" in body.decode()
    assert "_created" not in body.decode()
    assert content_type == CONTENT_TYPE


def test_what_runs_here_is_told() -> None:
    build = Registry("a_build", "1.2").get_sample_value("a_build", {"version": "1.2", "python": python_version()})
    assert build == 1
    assert f'version="{version("deltawire")}"' in Registry("a_build").render()[0].decode()


def test_what_is_observed_is_asked_for_at_each_scrape_and_by_its_name_once() -> None:
    registry, values = Registry("a_build"), {"x": 1.0}
    registry.observe("waiting", "Waiting", "sink", dict)
    registry.observe("waiting", "Waiting", "sink", lambda: values)
    registry.observe("plain", "Plain", "", lambda: {"": 7.0})
    for number in (1.0, 5.0):
        values["x"] = number
        assert registry.get_sample_value("waiting", {"sink": "x"}) == number
    assert registry.get_sample_value("plain") == 7.0
