"""Every field with values that make no sense, as a first turn and as one that would be a delta: answered as directly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.compare import comparable
from tests.support import http

if TYPE_CHECKING:
    from tests.e2e.sidecar import Server, Sidecar

VALUES: tuple[Any, ...] = ("x", "", 1, -1.5, [], [1], {}, {"a": 1}, True, False, None)
FIELDS = (
    "background",
    "conversation",
    "generate",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "service_tier",
    "store",
    "stream",
    "stream_id",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "truncation",
    "type",
    "user",
    "deltawire_envelope",
    "a_field_that_nobody_knows",
)


def _post(base_url: str, **members: Any) -> tuple[int, str, Any]:
    answer = http.post(f"{base_url}/responses", json.dumps({"model": "gpt-5.2", **members}).encode())
    kind = answer.headers["content-type"].split(";")[0]
    if kind != "text/event-stream":
        return answer.status, kind, answer.json()
    lines = answer.body.decode().splitlines()
    return answer.status, kind, [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


@pytest.mark.parametrize("field", FIELDS)
def test_an_odd_value_is_answered_as_directly_on_a_first_turn(field: str, server: Server, sidecar: Sidecar) -> None:
    for value in VALUES:
        for members in ({"input": "hello"}, {"input": "hello", "stream": True}):
            directly, through = (_post(url, **{**members, field: value}) for url in (server.base_url, sidecar.base_url))
            assert comparable(list(through)) == comparable(list(directly)), (value, members)


@pytest.mark.parametrize("field", [field for field in FIELDS if field != "input"])
def test_an_odd_value_is_answered_as_directly_in_a_conversation_which_then_goes_on(
    field: str, server: Server, sidecar: Sidecar
) -> None:
    for value in VALUES:
        directly, through = (_conversation(url, field, value) for url in (server.base_url, sidecar.base_url))
        assert comparable(through) == comparable(directly), value


def _conversation(base_url: str, field: str, value: Any) -> list[Any]:
    history: list[Any] = [{"role": "user", "content": f"about {field}, {value!r}"}]
    status, _, first = _post(base_url, input=history)
    assert status == 200
    history += [*first["output"], {"role": "user", "content": "and then?"}]
    odd = _post(base_url, **{"input": history, field: value})
    return [first, list(odd), list(_post(base_url, input=history))]
