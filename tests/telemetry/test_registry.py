from prometheus_client import Counter

from telemetry.registry import CONTENT_TYPE, Registry


def test_series_are_told_without_the_time_of_their_creation() -> None:
    registry = Registry()
    Counter("a_thing", "Things", registry=registry).inc()
    body, content_type = registry.render()

    assert "a_thing_total 1.0" in body.decode()
    assert "_created" not in body.decode()
    assert content_type == CONTENT_TYPE
