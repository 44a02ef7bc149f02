from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import CompactedResponse
from openresponses_types.types import CompactResource

from tests.upstream.helpers import SEALER, WEATHER, members
from upstream.engines.sim import Sim
from upstream.http.side import compacted, counted
from upstream.kept.store import Store
from upstream.turns.admit import Admission
from wire.errors import ApiError

_ME = b"me"
_HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Begin."},
    {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "sunny " * 300},
    {"role": "user", "content": [{"type": "input_text", "text": "Go on."}]},
]


@pytest.fixture
def admission() -> Admission:
    return Admission(engine=Sim(), sealer=SEALER, store=Store(1_000_000), now=lambda: 7)


def _compacted(admission: Admission, **values: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(compacted(admission, members(**values), _ME, 7))
    return made


def _tokens(admission: Admission, **values: Any) -> int:
    made = json.loads(counted(admission, members(**values), _ME))
    assert set(made) == {"object", "input_tokens"}
    assert made["object"] == "response.input_tokens"
    return int(made["input_tokens"])


def test_the_count_is_the_one_that_the_answer_would_tell(admission: Admission) -> None:
    asked = {"model": "m", "input": _HISTORY, "instructions": "Be brief.", "tools": [WEATHER]}

    assert _tokens(admission, **asked) == admission.admit(members(**asked), _ME).input_tokens


def test_nothing_is_required_to_count(admission: Admission) -> None:
    assert 0 < _tokens(admission) < _tokens(admission, model=None, input="four letters")


def test_what_is_wrong_is_told_when_counting_too(admission: Admission) -> None:
    for values in ({"input": [{"role": 3}]}, {"previous_response_id": "resp_none"}, {"conversation": "c"}):
        with pytest.raises(ApiError):
            _tokens(admission, **values)


def test_a_compacted_conversation_is_the_users_messages_and_one_item(admission: Admission) -> None:
    made = _compacted(admission, model="m", input=_HISTORY)

    # The SDK's types have no messages of users among outputs, although its text says that they are there.
    CompactedResponse.model_validate(made | {"output": made["output"][-1:]})
    CompactResource.model_validate(made)
    assert made["object"] == "response.compaction"
    assert [item["type"] for item in made["output"]] == ["message", "message", "compaction"]
    assert [item["content"][0]["text"] for item in made["output"][:2]] == ["Begin.", "Go on."]
    assert made["usage"]["output_tokens"] < made["usage"]["input_tokens"]


def test_it_is_the_base_of_a_new_chain_with_or_without_what_stands_before_it(admission: Admission) -> None:
    output = _compacted(admission, model="m", input=_HISTORY)["output"]
    whole = admission.admit(members(model="m", input=[*output, {"role": "user", "content": "Now?"}]), _ME)
    alone = admission.admit(members(model="m", input=[output[-1], {"role": "user", "content": "Now?"}]), _ME)

    assert whole.context.rendered == alone.context.rendered
    shown = [item.value()["content"] for item in whole.context.items]
    assert shown[0] == "Begin."
    assert "called get_weather" in shown[1]
    assert shown[2][0]["text"] == "Go on."
    assert shown[3] == "Now?"


def test_a_model_is_required_to_compact_and_nothing_else(admission: Admission) -> None:
    with pytest.raises(ApiError) as caught:
        _compacted(admission, input="hi")
    assert (caught.value.status, caught.value.param) == (400, "model")
    assert [item["type"] for item in _compacted(admission, model="m")["output"]] == ["compaction"]
