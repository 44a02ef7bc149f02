from __future__ import annotations

import pytest

from tests.upstream.helpers import SEALER
from upstream.engine import Start
from upstream.turns.written import begun


@pytest.mark.parametrize(
    ("start", "prefix"),
    [
        (Start("message"), "msg_"),
        (Start("reasoning"), "rs_"),
        (Start("function_call", "f"), "fc_"),
        (Start("custom_tool_call", "c"), "ctc_"),
    ],
)
def test_ids_tell_the_kind_and_are_never_the_same(start: Start, prefix: str) -> None:
    one, other = begun(start, 0), begun(start, 0)

    assert one.id.startswith(prefix)
    assert one.id != other.id
    assert one.call_id.startswith("call_") is start.name.isalpha()


def test_a_message_has_its_text_once_it_is_whole() -> None:
    item = begun(Start("message"), 0)
    item.pieces += ["a", "b"]

    assert item.value("in_progress", None)["content"] == []
    assert item.value("completed", None)["content"][0]["text"] == "ab"


def test_reasoning_shows_its_text_sealed_or_not_at_all() -> None:
    item = begun(Start("reasoning"), 0)
    item.pieces.append("secret")

    assert "encrypted_content" not in item.value("completed", None)
    sealed = item.value("completed", SEALER)["encrypted_content"]
    assert SEALER.open(sealed, param="x") == "secret"


def test_a_call_names_what_it_calls() -> None:
    function = begun(Start("function_call", "f", "space"), 0).value("completed", None)
    custom = begun(Start("custom_tool_call", "c"), 0).value("completed", None)

    assert (function["name"], function["namespace"], function["arguments"]) == ("f", "space", "")
    assert (custom["name"], custom["input"]) == ("c", "")
    assert "namespace" not in custom
