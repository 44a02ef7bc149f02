from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import pytest

from tests.upstream.helpers import SEALER, WEATHER, members
from upstream.engine import Delta, End, Part, Prompt, Start, Stop
from upstream.engines.sim import Sim
from upstream.kept.store import Store
from upstream.stages.style import size
from upstream.tokens.vocabulary import load
from upstream.turns.admit import Admission, Turn
from upstream.turns.prompts import reused
from upstream.websocket.lane import Lane

if TYPE_CHECKING:
    from upstream.turns.asked import Kept

_ME = b"me"
_KNOWN = load("o200k_harmony")


@pytest.fixture
def admission() -> Admission:
    return Admission(engine=Sim(), sealer=SEALER, store=Store(1_000_000), now=lambda: 7)


def _asked(admission: Admission, lane: Lane, **values: Any) -> Turn:
    return admission.admit(members(**{"model": "m", "tools": [WEATHER]} | values), _ME, lane)


def _prompt(turn: Turn) -> Prompt:
    assert turn.prompt is not None
    return turn.prompt


def _wrote(name: str, text: str, end: str) -> bytes:
    """Tokens of a message as no encoding of its text would give them: a letter each."""
    begun = [*map(_KNOWN.special, ("<|start|>",)), *array("I", _KNOWN.ordinary("assistant"))]
    said = [_KNOWN.special("<|channel|>"), *array("I", _KNOWN.ordinary(name)), _KNOWN.special("<|message|>")]
    letters = [token for letter in text for token in array("I", _KNOWN.ordinary(letter))]
    return array("I", [*begun, *said, *letters, _KNOWN.special(end)]).tobytes()


def _answer(admission: Admission, lane: Lane, turn: Turn, *parts: Part) -> Kept:
    turn.answer.begin()
    for part in parts:
        turn.answer.add(part)
    turn.answer.finish(Stop(), 8)
    kept = admission.settle(turn)
    lane.settled(kept)
    assert kept is not None
    return kept


def test_what_an_engine_wrote_stands_in_the_next_prompt_as_it_was_written(admission: Admission) -> None:
    lane = Lane()
    first = _asked(admission, lane, input="hi", include=["reasoning.encrypted_content"])
    before = _prompt(first).tokens.raw()
    tail = _prompt(first).tokens.tail()
    thought, answer = _wrote("analysis", "hm", "<|end|>"), _wrote("final", "yes", "<|return|>")
    kept = _answer(
        admission,
        lane,
        first,
        *(Start("reasoning"), Delta("hm"), End(thought)),
        *(Start("message"), Delta("yes"), End(answer)),
    )
    goes_on = _prompt(_asked(admission, lane, previous_response_id=kept.id)).tokens.raw()
    ended = answer[:-4] + array("I", (_KNOWN.special("<|end|>"),)).tobytes()

    assert goes_on == before.removesuffix(tail) + thought + ended + tail


def test_reasoning_that_is_forgotten_takes_its_tokens_along(admission: Admission) -> None:
    lane = Lane()
    first = _asked(admission, lane, input="hi", store=False)
    thought = _wrote("analysis", "hm", "<|end|>")
    kept = _answer(
        admission,
        lane,
        first,
        *(Start("reasoning"), Delta("hm"), End(thought)),
        *(Start("message"), Delta("yes"), End()),
    )

    assert thought not in _prompt(_asked(admission, lane, previous_response_id=kept.id)).tokens.raw()


def test_what_an_engine_may_have_read_is_what_both_prompts_begin_with(admission: Admission) -> None:
    lane = Lane()
    first = _asked(admission, lane, input="hi")
    said = (Start("reasoning"), Delta("hm"), End(), Start("message"), Delta("yes"), End())
    kept = _answer(admission, lane, first, *said)
    read = kept.context
    then = _asked(admission, lane, input="more", previous_response_id=kept.id)
    old, new = _prompt(first).tokens.raw(), _prompt(then).tokens.raw()
    tail = _prompt(first).tokens.tail()

    assert reused(read, then.context) == then.cached_tokens == size(old.removesuffix(tail))
    assert new.startswith(old.removesuffix(tail))


def test_nothing_is_reused_under_other_instructions(admission: Admission) -> None:
    lane = Lane()
    kept = _answer(admission, lane, _asked(admission, lane, input="hi"), Start("message"), Delta("yes"), End())
    then = _asked(admission, lane, input="more", previous_response_id=kept.id, instructions="Be brief.")

    assert then.cached_tokens == 0
