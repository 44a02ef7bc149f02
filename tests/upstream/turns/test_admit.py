from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.upstream.helpers import SEALER, WEATHER, members
from upstream.engine import Delta, End, Start, Stop
from upstream.engines.sim import Sim
from upstream.kept.store import Store
from upstream.stages.render import tail
from upstream.stages.style import size
from upstream.turns.admit import Admission, Turn
from upstream.websocket.lane import Lane
from wire.errors import ApiError

if TYPE_CHECKING:
    from upstream.turns.asked import Kept

_ME, _YOU = b"me", b"you"


class _Picky(Sim):
    def accepts(self, model: str) -> bool:
        return model == "m"


@pytest.fixture
def admission() -> Admission:
    return Admission(engine=_Picky(), sealer=SEALER, store=Store(1_000_000), now=lambda: 7)


def _finish(admission: Admission, turn: Turn, stop: Stop | None = None) -> Kept | None:
    turn.answer.begin()
    for part in (Start("reasoning"), Delta("thought"), End(), Start("message"), Delta("yes"), End()):
        turn.answer.add(part)
    turn.answer.finish(stop or Stop(), 8)
    return admission.settle(turn)


def _admit(admission: Admission, lane: Lane | None = None, owner: bytes = _ME, **values: Any) -> Turn:
    return admission.admit(members(model="m", **values), owner, lane)


def _refused(admission: Admission, lane: Lane | None = None, owner: bytes = _ME, **values: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        _admit(admission, lane, owner, **values)
    return caught.value


def _turn(admission: Admission, lane: Lane, **values: Any) -> str:
    turn = _admit(admission, lane, **values)
    kept = _finish(admission, turn)
    lane.settled(kept)
    return turn.answer.id


def test_a_plain_request_is_ready_to_be_generated(admission: Admission) -> None:
    turn = _admit(admission, input="hi", tools=[WEATHER], instructions="be")

    assert turn.prompt is not None
    assert [tool.name for tool in turn.prompt.tools] == ["get_weather"]
    assert turn.prompt.instructions == "be"
    assert turn.cached_tokens == 0
    assert turn.input_tokens > turn.context.rendered.tokens


def test_a_stored_response_is_continued_over_http(admission: Admission) -> None:
    first = _admit(admission, input="hi")
    _finish(admission, first)
    then = _admit(admission, input="more", previous_response_id=first.answer.id)

    assert [item.type for item in then.context.items] == ["message", "reasoning", "message", "message"]
    assert then.cached_tokens == first.input_tokens - size(tail(first.context.rendered))
    assert then.input_tokens < first.input_tokens + 40


def test_an_unknown_or_foreign_response_is_not_found(admission: Admission) -> None:
    first = _admit(admission, input="hi")
    _finish(admission, first)

    for error in (
        _refused(admission, input="x", previous_response_id="resp_none"),
        _refused(admission, owner=_YOU, input="x", previous_response_id=first.answer.id),
    ):
        assert (error.status, error.code, error.param) == (400, "previous_response_not_found", "previous_response_id")


def test_a_response_that_is_not_stored_lives_on_its_lane_alone(admission: Admission) -> None:
    lane = Lane()
    made = _turn(admission, lane, input="hi", store=False)

    assert len(_admit(admission, lane, input="x", previous_response_id=made).context.items) == 4
    for elsewhere in (None, Lane()):
        assert (
            _refused(admission, elsewhere, input="x", previous_response_id=made).code == "previous_response_not_found"
        )


def test_a_stored_response_is_found_from_any_lane(admission: Admission) -> None:
    made = _turn(admission, Lane(), input="hi")

    assert len(_admit(admission, Lane(), input="x", previous_response_id=made).context.items) == 4


def test_the_same_history_in_full_and_by_id_is_the_same_context(admission: Admission) -> None:
    first = _admit(admission, input=[{"role": "user", "content": "hi"}], include=["reasoning.encrypted_content"])
    _finish(admission, first)
    echoed = [item.value() for item in first.answer.items]
    new = {"role": "user", "content": "more"}
    by_id = _admit(admission, input=[new], previous_response_id=first.answer.id)
    full = _admit(admission, input=[{"role": "user", "content": "hi"}, *echoed, new])

    assert by_id.prompt is not None
    assert full.prompt is not None
    assert by_id.prompt.digest == full.prompt.digest
    assert by_id.input_tokens == full.input_tokens


def test_instructions_and_tools_are_part_of_the_context_and_never_inherited(admission: Admission) -> None:
    first = _admit(admission, input="hi", tools=[WEATHER], instructions="be")
    _finish(admission, first)
    bare = _admit(admission, input="x", previous_response_id=first.answer.id)
    same = _admit(admission, input="x", previous_response_id=first.answer.id, tools=[WEATHER], instructions="be")

    assert bare.prompt is not None
    assert same.prompt is not None
    assert bare.prompt.tools == ()
    assert bare.prompt.digest != same.prompt.digest


def test_tools_already_read_are_not_read_again(admission: Admission) -> None:
    lane = Lane()
    made = _turn(admission, lane, input="hi", tools=[WEATHER], store=False)
    assert lane.latest is not None
    turn = _admit(admission, lane, input="x", tools=[WEATHER], previous_response_id=made)

    assert turn.context.resolved.offer is lane.latest.context.resolved.offer


def test_references_reach_the_lane_and_the_store(admission: Admission) -> None:
    lane = Lane()
    _turn(admission, lane, input="hi", store=False)
    assert lane.latest is not None
    on_lane = next(item.id for item in lane.latest.context.items if item.id)
    stored = _admit(admission, input="hi")
    _finish(admission, stored)
    in_store = stored.answer.items[1].id
    turn = _admit(admission, lane, input=[{"id": on_lane}, {"type": "item_reference", "id": in_store}])

    assert [item.type for item in turn.context.items] == ["reasoning", "message"]
    assert _refused(admission, input=[{"id": on_lane}]).status == 404
    assert _refused(admission, owner=_YOU, input=[{"id": in_store}]).status == 404


def test_a_warm_up_writes_nothing_and_can_be_continued(admission: Admission) -> None:
    lane = Lane()
    warm = _admit(admission, lane, input=[], generate=False, store=False)
    assert warm.prompt is None
    warm.answer.begin()
    warm.answer.finish(Stop(), 8)
    lane.settled(admission.settle(warm))

    assert _admit(admission, lane, input="x", previous_response_id=warm.answer.id).prompt is not None
    assert _admit(admission, lane, generate=False).prompt is None


def test_over_http_there_is_no_warm_up(admission: Admission) -> None:
    assert _admit(admission, input="x", generate=False).prompt is not None


def test_an_incomplete_answer_is_stored_but_leaves_nothing_on_a_lane(admission: Admission) -> None:
    turn = _admit(admission, Lane(), input="hi")

    assert _finish(admission, turn, Stop("max_output_tokens")) is None
    assert admission.store.get(turn.answer.id, _ME) is not None


def test_a_failed_answer_leaves_nothing_at_all(admission: Admission) -> None:
    turn = _admit(admission, input="hi")
    turn.answer.fail()

    assert admission.settle(turn) is None
    assert len(admission.store) == 0


def test_without_input_there_has_to_be_something_to_continue(admission: Admission) -> None:
    assert _refused(admission).param == "input"
    first = _admit(admission, input="hi")
    _finish(admission, first)
    assert len(_admit(admission, previous_response_id=first.answer.id).fresh) == 0


def test_the_model_is_checked_for_every_request(admission: Admission) -> None:
    with pytest.raises(ApiError) as caught:
        admission.admit(members(model="other", input="x"), _ME)

    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_a_lane_that_is_named_is_refused(admission: Admission) -> None:
    assert _refused(admission, Lane(), input="x", stream_id="main").code == "invalid_stream_id"
    assert _refused(admission, input="x", stream_id="main").param == "stream_id"


@pytest.mark.parametrize("value", [b"1e999", b"[" * 100_000 + b"]" * 100_000, b"[" * 990 + b"]" * 990])
def test_a_value_that_cannot_be_read_is_the_clients_fault(admission: Admission, value: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        admission.admit({"model": b'"m"', "input": b'[{"type":"new","x":' + value + b"}]"}, _ME)

    assert caught.value.status == 400


# Turns that resume


def _resume(admission: Admission, lane: Lane, response_id: str, **values: Any) -> Turn:
    return admission.resume(members(**values), _ME, lane, response_id)


def test_a_lane_resumes_its_latest_response_under_what_was_asked(admission: Admission) -> None:
    lane = Lane()
    made = _turn(admission, lane, input="hi", tools=[WEATHER], instructions="be", store=False)
    resumed = _resume(admission, lane, made, input="more")
    same = _admit(admission, lane, input="more", tools=[WEATHER], instructions="be", previous_response_id=made)

    assert resumed.prompt is not None
    assert resumed.prompt == same.prompt
    assert (resumed.input_tokens, resumed.cached_tokens) == (same.input_tokens, same.cached_tokens)
    assert resumed.request.store is False
    assert lane.latest is not None
    assert resumed.asked is lane.latest.asked


def test_nothing_of_the_envelope_is_looked_at_again(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    lane = Lane()
    choice = {"type": "function", "name": "get_weather"}
    made = _turn(admission, lane, input="hi", tools=[WEATHER], instructions="be", tool_choice=choice)
    for name in ("stages.resolve.read_offer", "turns.tool_choice.matched"):
        monkeypatch.setattr(f"upstream.{name}", never)
    for name in ("shown", "shown_instructions", "_text"):
        monkeypatch.setattr(f"upstream.turns.asked.{name}", never)

    assert _resume(admission, lane, made, input="more").prompt is not None


def test_a_resumed_turn_can_be_resumed(admission: Admission) -> None:
    lane = Lane()
    made = _turn(admission, lane, input="hi", instructions="be")
    between = _resume(admission, lane, made, input="a")
    lane.settled(_finish(admission, between))
    resumed = _resume(admission, lane, between.answer.id, input="b")

    assert " ".join(item.type for item in resumed.context.items) == (
        "message reasoning message message reasoning message message"
    )
    assert resumed.prompt is not None
    assert resumed.prompt.instructions == "be"


def test_what_is_given_is_otherwise_and_stays_so(admission: Admission) -> None:
    lane = Lane()
    made = _turn(admission, lane, input="hi", tools=[WEATHER], instructions="be")
    changed = _resume(admission, lane, made, input="x", instructions="be other", tools=None)
    lane.settled(_finish(admission, changed))
    then = _resume(admission, lane, changed.answer.id, input="y")

    assert then.prompt is not None
    assert (then.prompt.instructions, then.prompt.tools) == ("be other", ())


def test_only_the_latest_of_the_very_lane_is_resumed(admission: Admission) -> None:
    lanes: list[Lane] = []
    lanes += [Lane("a", lanes), Lane("b", lanes)]
    older = _turn(admission, lanes[0], input="hi")
    latest = _turn(admission, lanes[0], input="hi")

    for lane, response_id in ((lanes[0], older), (lanes[1], latest), (lanes[0], "resp_none")):
        with pytest.raises(ApiError) as caught:
            _resume(admission, lane, response_id, input="x")
        assert (caught.value.status, caught.value.code) == (400, "previous_response_not_found")
    assert _resume(admission, lanes[0], latest, input="x").prompt is not None


def test_a_choice_of_tools_is_matched_with_those_that_are_given(admission: Admission) -> None:
    lane = Lane()
    made = _turn(admission, lane, input="hi", tools=[WEATHER])

    with pytest.raises(ApiError, match="400"):
        _resume(admission, lane, made, input="x", tool_choice={"type": "function", "name": "other"})
    with pytest.raises(ApiError, match="400"):
        _resume(admission, lane, made, input="x", tools=[], tool_choice={"type": "function", "name": "get_weather"})


def test_a_resumed_response_is_stored_as_any_other(admission: Admission) -> None:
    lane = Lane()
    made = _turn(admission, lane, input="hi", instructions="be")
    resumed = _resume(admission, lane, made, input="more")
    _finish(admission, resumed)
    stored = admission.store.get(resumed.answer.id, _ME)

    assert stored is not None
    whole = json.loads(stored.response)
    assert (whole["id"], whole["previous_response_id"], whole["instructions"]) == (resumed.answer.id, made, "be")
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message"]
    assert [item.raw for item in stored.input] == [b'{"type":"message","role":"user","content":"more"}']
