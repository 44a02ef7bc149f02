from typing import Any

import pytest

from upstream.turns.request import Fields
from upstream.turns.values import check, compact_threshold
from wire.errors import ApiError

_SCHEMA = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
_COMPACT: dict[str, Any] = {"type": "compaction"}


@pytest.mark.parametrize(
    ("name", "value", "param"),
    [
        ("temperature", 2.1, "temperature"),
        ("temperature", -0.1, "temperature"),
        ("top_p", 1.5, "top_p"),
        ("top_logprobs", 21, "top_logprobs"),
        ("max_output_tokens", 0, "max_output_tokens"),
        ("max_tool_calls", -1, "max_tool_calls"),
        ("truncation", "sometimes", "truncation"),
        ("tool_choice", "any", "tool_choice"),
        ("tool_choice", {"name": "f"}, "tool_choice.type"),
        ("include", ["reasoning.encrypted_content", "everything"], "include[1]"),
        ("prompt_cache_retention", "for ever", "prompt_cache_retention"),
        ("metadata", {str(n): "" for n in range(17)}, "metadata"),
        ("metadata", {"k" * 65: ""}, "metadata"),
        ("metadata", {"k": "v" * 513}, "metadata.k"),
        ("context_management", [{}], "context_management[0].type"),
        ("context_management", [{"type": "forgetting"}], "context_management[0].type"),
        ("context_management", [_COMPACT | {"compact_threshold": 999}], "context_management[0].compact_threshold"),
        ("context_management", [_COMPACT | {"compact_threshold": "1"}], "context_management[0].compact_threshold"),
        ("text", {"format": _SCHEMA | {"schema": {"type": "x"}}}, "text.format.schema"),
        ("text", {"format": _SCHEMA | {"strict": True}}, "text.format.schema"),
        ("text", {"format": {"type": "xml"}}, "text.format.type"),
        ("text", {"format": {}}, "text.format.type"),
        ("text", {"format": "text"}, "text.format.type"),
        ("text", {"format": _SCHEMA | {"name": None}}, "text.format.name"),
        ("text", {"format": _SCHEMA | {"schema": "x"}}, "text.format.schema"),
    ],
)
def test_a_value_that_the_api_does_not_know_is_refused_by_name(name: str, value: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        check(Fields(**{name: value}))

    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    "fields",
    [
        Fields(),
        Fields(temperature=0.0, top_p=1.0, top_logprobs=0, max_output_tokens=1, truncation="auto"),
        Fields(temperature=2.0, max_output_tokens=10**9, truncation="disabled"),
        Fields(tool_choice="required"),
        Fields(tool_choice={"type": "function", "name": "f"}),
        Fields(metadata={"k": "v"} | {str(n): "v" * 512 for n in range(15)}, include=["reasoning.encrypted_content"]),
        Fields(context_management=[_COMPACT, _COMPACT | {"compact_threshold": 1000}]),
        Fields(text={"verbosity": "low"}),
        Fields(text={"format": None}),
        Fields(text={"format": _SCHEMA}),
    ],
)
def test_what_it_knows_is_taken(fields: Fields) -> None:
    check(fields)


def test_a_refused_value_is_not_repeated() -> None:
    with pytest.raises(ApiError) as caught:
        check(Fields(truncation="a secret"))

    assert "secret" not in caught.value.message


def test_the_first_threshold_counts() -> None:
    entries = [_COMPACT, _COMPACT | {"compact_threshold": 2000}]

    assert compact_threshold(Fields(context_management=entries)) == 2000
    assert compact_threshold(Fields(context_management=entries[:1])) is None
    assert compact_threshold(Fields()) is None
