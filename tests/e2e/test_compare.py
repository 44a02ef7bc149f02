from __future__ import annotations

from tests.e2e.compare import comparable


def test_made_names_compare_by_where_they_stand_and_everything_else_by_value() -> None:
    one = [{"id": "a", "created_at": 1, "text": "t"}, {"call_id": "b"}, {"call_id": "a", "completed_at": None}]
    same = [{"id": "x", "created_at": 2, "text": "t"}, {"call_id": "y"}, {"call_id": "x", "completed_at": None}]
    crossed = [{"id": "x", "created_at": 2, "text": "t"}, {"call_id": "y"}, {"call_id": "y", "completed_at": None}]
    assert comparable(one) == comparable(same)
    assert comparable(one) != comparable(crossed)
    assert comparable([{"text": "t"}]) != comparable([{"text": "u"}])
