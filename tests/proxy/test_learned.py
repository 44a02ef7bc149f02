"""What refusals teach of an upstream, for whom, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialect import CODEX, NAMED, OPENAI, XAI, Dialect
from proxy.learned import LASTS, MISSES, Learned, unchained
from proxy.tenants import MAX_TENANTS
from state.envelope import POLICY
from wire.errors import ApiError, from_frame, invalid_request, previous_not_found, server_error

ME, YOU = b"me", b"you"
NAMES = st.sampled_from(["instructions", "tools", "reasoning"])


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (
            "Request validation error: Argument not supported: instructions and previous_response_id together",
            "instructions",
        ),
        ("`tools` cannot be used with `previous_response_id`.", "tools"),
        ("'previous_response_id' and 'prompt' are mutually exclusive", "prompt"),
        ("Cannot be used in conjunction with previous_response_id: max_output_tokens", "max_output_tokens"),
        ("Invalid previous_response_id.", ""),
        ("previous_response_id is not supported for this model", ""),
        ("conversation and previous_response_id may not be given together", ""),
        ("instructions and tools may not be given together", ""),
        ("Response with id=resp_1 not found", ""),
    ],
)
def test_a_field_is_named_by_errors_that_tell_what_may_not_stand_beside_an_id(message: str, field: str) -> None:
    for error in (server_error(message), from_frame({"error": {"message": message, "type": "api_error"}})):
        assert unchained(error) == field


@given(st.text() | st.sampled_from(sorted(POLICY)).map(lambda name: f"{name} previous_response_id together"))
def test_any_message_names_a_field_of_the_request_or_none(message: str) -> None:
    assert unchained(ApiError(400, message)) in {"", *POLICY}


def test_a_field_that_was_refused_stays_off_continuations_for_a_while_and_others_do_not() -> None:
    learned = Learned()
    learned.not_beside(ME, "instructions", 0.0)
    learned.not_beside(ME, "tools", 10.0)
    assert learned.dialect(XAI, ME, 10.0).unchained == {"instructions", "tools"}
    assert learned.dialect(XAI, ME, LASTS).unchained == {"tools"}
    assert learned.dialect(XAI, ME, LASTS + 10).unchained == frozenset()
    learned.not_beside(ME, "tools", LASTS + 10)
    assert learned.dialect(XAI, ME, LASTS + 10).unchained == {"tools"}


def test_a_frame_that_was_too_large_bounds_those_after_it_and_a_smaller_one_bounds_them_further() -> None:
    learned = Learned()
    learned.too_large(ME, 1000, 0.0)
    learned.too_large(ME, 800, 10.0)
    learned.too_large(ME, 900, 20.0)
    assert learned.dialect(OPENAI, ME, 20.0).max_frame == 720
    assert learned.dialect(OPENAI, ME, 20.0 + LASTS) == OPENAI
    learned.too_large(ME, 900, 20.0 + LASTS)
    assert learned.dialect(OPENAI, ME, 20.0 + LASTS).max_frame == 810


def test_a_frame_that_was_too_large_never_raises_the_bound_that_is_known() -> None:
    learned = Learned()
    learned.too_large(ME, 2 * CODEX.max_frame, 0.0)
    assert learned.dialect(CODEX, ME, 0.0).max_frame == CODEX.max_frame


def test_responses_that_are_not_found_elsewhere_several_times_in_a_row_are_sought_on_their_own_link() -> None:
    learned = Learned()
    for _ in range(MISSES):
        assert learned.dialect(OPENAI, ME, 0.0).keeps
        learned.elsewhere(ME, 0.0, found=False)
    assert not learned.dialect(OPENAI, ME, LASTS - 1).keeps
    assert learned.dialect(OPENAI, ME, LASTS).keeps
    learned.elsewhere(ME, LASTS, found=False)
    assert not learned.dialect(OPENAI, ME, LASTS).keeps
    learned.elsewhere(ME, LASTS, found=True)
    assert learned.dialect(OPENAI, ME, LASTS).keeps


def test_one_that_is_found_takes_all_misses_back() -> None:
    learned = Learned()
    for _ in range(3 * MISSES):
        learned.elsewhere(ME, 0.0, found=False)
        learned.elsewhere(ME, 0.0, found=True)
    assert learned.dialect(OPENAI, ME, 0.0).keeps


def test_one_tenants_lessons_are_no_others() -> None:
    learned = Learned()
    learned.not_beside(ME, "tools", 0.0)
    learned.too_large(ME, 10, 0.0)
    for _ in range(MISSES):
        learned.elsewhere(ME, 0.0, found=False)
    assert learned.dialect(OPENAI, YOU, 0.0) is OPENAI


def test_lessons_of_tenants_without_end_are_not_remembered_without_end() -> None:
    learned = Learned()
    learned.not_beside(ME, "tools", 0.0)
    for number in range(MAX_TENANTS):
        learned.not_beside(b"%d" % number, "tools", 0.0)
    assert learned.dialect(OPENAI, ME, 0.0) is OPENAI


LESSONS = st.one_of(
    st.tuples(st.just("not_beside"), NAMES),
    st.tuples(st.just("too_large"), st.integers(1, 2**30)),
    st.tuples(st.just("elsewhere"), st.booleans()),
)


@given(
    known=st.sampled_from(sorted(NAMED.values(), key=lambda one: one.name)),
    lessons=st.lists(st.tuples(LESSONS, st.floats(0, LASTS)), max_size=20),
    later=st.floats(0, 2 * LASTS),
)
def test_lessons_only_ever_take_away_and_all_of_them_end(
    known: Dialect, lessons: list[tuple[tuple[str, object], float]], later: float
) -> None:
    learned, now = Learned(), 0.0
    for (kind, value), passed in lessons:
        now += passed
        if kind == "elsewhere":
            learned.elsewhere(ME, now, found=bool(value))
        else:
            getattr(learned, kind)(ME, value, now)
        spoken = learned.dialect(known, ME, now)
        assert spoken.max_frame <= known.max_frame
        assert spoken.unchained >= known.unchained
        assert known.keeps or not spoken.keeps
        assert (spoken.max_age, spoken.honoured) == (known.max_age, known.honoured)
    if later >= LASTS:
        assert learned.dialect(known, ME, now + later) == known


def test_a_forgotten_response_names_no_field() -> None:
    assert unchained(previous_not_found("resp_1")) == ""
    assert unchained(invalid_request("No.", param="instructions")) == ""
