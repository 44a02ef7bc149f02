from typing import Any

import pytest
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from tests.upstream.helpers import items
from upstream.http.listing import page
from upstream.kept.store import Stored
from upstream.stages.pipeline import EMPTY
from wire.errors import ApiError

_CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseItem)


def _stored(*conversation: Any) -> Stored:
    return Stored("resp_1", b"me", None, b"{}", tuple(items(*conversation)), (), EMPTY)


def _page(stored: Stored, **query: str) -> dict[str, Any]:
    return page(stored, order=query.get("order"), after=query.get("after"), limit=query.get("limit"))


def test_every_item_has_the_shape_of_a_listed_one() -> None:
    for item in _page(_stored("hi", {"role": "assistant", "content": "yes"}, _CALL))["data"]:
        _ITEM.validate_python(item)


def test_the_newest_comes_first_unless_the_other_order_is_asked_for() -> None:
    stored = _stored("a", "b")

    assert [item["content"][0]["text"] for item in _page(stored)["data"]] == ["b", "a"]
    assert [item["content"][0]["text"] for item in _page(stored, order="asc")["data"]] == ["a", "b"]


def test_a_list_is_read_to_its_end_page_by_page() -> None:
    stored = _stored("a", "b", "c", "d", "e")
    seen, last, more = [], None, True
    while more:
        got = _page(stored, limit="2", **({"after": last} if last else {}))
        seen += [item["content"][0]["text"] for item in got["data"]]
        last, more = got["last_id"], got["has_more"]

    assert seen == ["e", "d", "c", "b", "a"]


def test_an_item_keeps_its_own_id_and_others_get_one_that_stays() -> None:
    stored = _stored("a", _CALL)

    assert _page(stored)["first_id"] == "fc_1"
    assert _page(stored)["last_id"] == _page(stored)["last_id"]


def test_an_empty_list_has_no_ends() -> None:
    assert _page(_stored()) == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}
    assert _page(_stored("a"), after="none")["data"] == []


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "1.5"])
def test_a_limit_out_of_bounds_is_refused(limit: str) -> None:
    with pytest.raises(ApiError) as caught:
        _page(_stored("a"), limit=limit)

    assert caught.value.param == "limit"


def test_an_order_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(ApiError) as caught:
        page(_stored("a"), order="newest", after=None, limit=None)

    assert (caught.value.status, caught.value.param) == (400, "order")
