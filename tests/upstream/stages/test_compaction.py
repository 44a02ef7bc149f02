from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.helpers import SEALER, WEATHER, items
from upstream.stages import compaction
from upstream.stages.items import Item, read_items
from upstream.stages.pipeline import EMPTY, Context, extend
from upstream.stages.seal import Sealer
from wire.errors import ApiError

_LONG = "word " * 400


def _step(number: int, output: str = "sunny") -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": f"c{number}", "name": "get_weather", "arguments": f'{{"n":{number}}}'},
        {"type": "function_call_output", "call_id": f"c{number}", "output": output},
    ]


def _context(*values: dict[str, Any] | str) -> Context:
    return extend(EMPTY, items(*values))


def _compacted(context: Context) -> Context:
    return extend(context, [compaction.compact(context, SEALER)])


def _texts(context: Context) -> list[str]:
    return [str(item.value().get("content", item.value().get("output", item.type))) for item in context.items]


_turns = st.lists(
    st.one_of(
        st.sampled_from(["hello", "again", _LONG]).map(lambda text: [text]),
        st.integers(0, 10_000).map(lambda n: _step(n, "x" * (n % 900))),
        st.just([{"role": "assistant", "content": "said " * 50}]),
        st.just([{"type": "additional_tools", "tools": [WEATHER]}]),
    ),
    max_size=8,
).map(lambda turns: items(*(one for turn in turns for one in turn)))


@given(_turns, _turns, _turns)
def test_sent_again_in_full_cut_short_or_continued_it_is_the_same_conversation(
    before: list[Item], after: list[Item], more: list[Item]
) -> None:
    context = extend(EMPTY, before)
    item = compaction.compact(context, SEALER)
    echoed = read_items(b"[%b]" % item.raw, SEALER)
    continued = extend(extend(extend(context, [item]), after), more)

    spoken = [one for one in before if one.role == "user"]
    for kept in (before, [], spoken):
        history = [*kept, *echoed, *after, *more]
        again = extend(EMPTY, history)
        assert again.rendered == continued.rendered
        assert again.items == continued.items
        assert again.resolved == continued.resolved


def test_an_output_stays_with_its_own_call_when_a_client_uses_an_id_again() -> None:
    for words in range(0, 400, 10):  # the room that steps are left
        context = _context("word " * words, *_step(1), *_step(1))
        item = compaction.compact(context, SEALER)
        assert extend(EMPTY, [item]).rendered == extend(context, [item]).rendered


@given(_turns, _turns, _turns)
def test_it_is_a_fold_with_compactions_anywhere(a: list[Item], b: list[Item], c: list[Item]) -> None:
    first = [*a, compaction.compact(extend(EMPTY, a), SEALER)]
    then = [*b, compaction.compact(extend(extend(EMPTY, first), b), SEALER), *c]

    assert extend(extend(EMPTY, first), then) == extend(EMPTY, first + then)


@given(_turns)
def test_messages_of_users_and_tools_stay_and_nothing_grows_without_bound(history: list[Item]) -> None:
    context = extend(EMPTY, history)
    once = _compacted(context)
    spoken = [item.raw for item in context.items if item.role == "user"]

    assert [item.raw for item in once.items if item.role == "user"] == spoken
    assert once.resolved.added == context.resolved.added
    assert _compacted(once).rendered.tokens <= once.rendered.tokens


def test_steps_that_are_left_out_are_told_in_a_line_each() -> None:
    once = _compacted(_context("Begin.", *_step(1, _LONG), *_step(2, _LONG), {"role": "assistant", "content": _LONG}))

    assert [item.role for item in once.items] == ["user", "developer"]
    head, first, second, third = _texts(once)[1].split("\n")
    assert head == compaction.HEADING
    assert first.startswith('- called get_weather: {"n":1} -> word word')
    assert second.startswith('- called get_weather: {"n":2} -> word word')
    assert third.startswith("- said: word word")
    assert compaction.calls_told(list(once.items)[1]) == 2
    assert all(len(line) < 400 for line in (first, second, third))


def test_the_newest_steps_stay_as_they_are() -> None:
    once = _compacted(_context("Begin.", *_step(1, _LONG * 5), *_step(2)))

    assert [item.type for item in once.items] == ["message", "message", "function_call", "function_call_output"]


def test_a_second_compaction_goes_on_with_the_summary_of_the_first() -> None:
    once = _compacted(_context("Begin.", *_step(1, _LONG)))
    twice = _compacted(extend(once, items(*_step(2, _LONG))))

    assert [item.role for item in twice.items] == ["user", "developer"]
    assert compaction.calls_told(list(twice.items)[1]) == 2


def test_a_call_that_is_open_can_still_be_answered() -> None:
    call, output = _step(1)
    once = _compacted(_context("Begin.", *_step(2, _LONG), call))

    assert [item.call_id for item in extend(once, items(output)).items][-2:] == ["c1", "c1"]


def test_what_it_does_not_stand_for_stays() -> None:
    item = compaction.compact(_context("Begin."), SEALER)
    again = extend(EMPTY, [*items({"role": "system", "content": "Be brief."}, "Begin.", "Begin."), item])

    assert _texts(again) == ["Be brief.", "Begin.", "Begin."]


def test_the_same_id_may_stand_before_and_within() -> None:
    item = compaction.compact(_context({"role": "user", "content": "a", "id": "msg_1"}), SEALER)

    assert _texts(extend(_context({"role": "user", "content": "b", "id": "msg_1"}), [item])) == ["b", "a"]


def test_it_is_due_beyond_the_threshold_and_where_something_is_won() -> None:
    long = _context("Begin.", *_step(1, _LONG))
    tokens = long.rendered.tokens

    assert compaction.due(long, SEALER, None, 0) is None
    assert compaction.due(long, SEALER, tokens, 0) is None
    assert compaction.due(long, SEALER, tokens, 1) is not None
    assert compaction.due(_context(_LONG), SEALER, 1, 0) is None


def test_only_the_key_that_sealed_it_opens_it() -> None:
    raw = compaction.compact(_context("secret"), SEALER).raw

    assert b"secret" not in raw
    with pytest.raises(ApiError) as caught:
        read_items(b"[%b]" % raw, Sealer("another key"))
    assert (caught.value.code, caught.value.param) == ("invalid_encrypted_content", "input[0].encrypted_content")


def test_one_without_its_text_is_refused_by_name() -> None:
    with pytest.raises(ApiError) as caught:
        read_items(b'[{"type":"compaction"}]', SEALER)
    assert caught.value.param == "input[0].encrypted_content"
