"""When turns get links and links are opened: gate by gate, then any history against what is promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.gates import (
    BREAKER,
    DIAL_BURST,
    DIAL_RATE,
    MAX_DIALLING,
    MAX_RETRY_AFTER,
    NO_WEBSOCKET,
    NO_WEBSOCKET_STATUSES,
    REFUSED,
    UNREACHABLE,
    Gate,
    Gates,
    Kind,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ME, YOU = b"me", b"you"
KINDS = [NO_WEBSOCKET, REFUSED, UNREACHABLE, BREAKER]
TICK = 0.001


def still() -> float:
    """No jitter."""
    return 0.0


def gates() -> Gates:
    return Gates(still)


def shut(kind: Kind, now: float = 0.0, jitter: Callable[[], float] = still) -> Gate:
    gate = Gate(kind, jitter)
    for number in range(kind.after):
        assert not gate.shut(ME, now)
        gate.failed(ME, now + number * TICK, now + number * TICK)
    return gate


# One gate


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_is_shut_after_its_number_of_failures_in_a_row_and_for_its_time(kind: Kind) -> None:
    gate = shut(kind)
    assert gate.shut(ME, kind.first - TICK)
    assert not gate.shut(ME, kind.first + kind.after * TICK)
    assert not gate.shut(YOU, 0.0)
    assert (gate.count(0.0), gate.count(kind.first + 1)) == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_works_opens_a_gate_at_once_and_forgets_all_failures(kind: Kind) -> None:
    gate = shut(kind)
    assert not gate.clear(ME)
    gate.worked(ME)
    assert gate.clear(ME)
    assert not gate.shut(ME, TICK)
    for number in range(kind.after - 1):
        gate.failed(ME, 1.0 + number, 1.0 + number)
    assert not gate.shut(ME, float(kind.after))


@pytest.mark.parametrize("kind", KINDS)
def test_behind_a_probe_a_gate_is_shut_and_the_next_one_goes_when_nothing_was_heard_of_it(kind: Kind) -> None:
    gate = shut(kind)
    now = kind.first + 1.0
    gate.entered(ME, now)
    assert gate.shut(ME, now + kind.moment - TICK)
    assert not gate.shut(ME, now + kind.moment)


@pytest.mark.parametrize("kind", KINDS)
def test_a_probe_that_fails_shuts_the_gate_for_twice_as_long_up_to_the_most(kind: Kind) -> None:
    gate = shut(kind)
    now, wait = 1.0, kind.first
    for _ in range(12):
        now += wait
        gate.entered(ME, now)
        gate.failed(ME, now, now)
        wait = min(2 * wait, kind.most)
        assert gate.shut(ME, now + wait - TICK)
        assert not gate.shut(ME, now + wait)


def test_nobody_is_a_probe_where_nothing_is_shut() -> None:
    gate = Gate(BREAKER, still)
    gate.failed(ME, 0.0, 0.0)
    gate.entered(ME, 1.0)
    gate.entered(YOU, 1.0)
    assert not gate.shut(ME, 1.0)
    assert gate.clear(YOU)


def test_what_had_begun_before_the_last_failure_fails_with_it() -> None:
    gate = Gate(BREAKER, still)
    for _ in range(50):
        gate.failed(ME, 1.0, 2.0)
    assert not gate.shut(ME, 2.0)


def test_jitter_cuts_times_by_up_to_a_half_and_adds_a_little_to_what_the_upstream_asks_for() -> None:
    gate = shut(REFUSED, jitter=lambda: 1.0)
    assert gate.shut(ME, REFUSED.first / 2 - TICK)
    assert not gate.shut(ME, REFUSED.first / 2)
    gate = Gate(REFUSED, lambda: 1.0)
    gate.failed(ME, 0.0, 0.0, at_least=100.0)
    assert gate.shut(ME, 110.0 - TICK)
    assert not gate.shut(ME, 110.0 + TICK)


def test_an_upstream_is_not_obeyed_beyond_an_hour() -> None:
    gate = Gate(REFUSED, still)
    gate.failed(ME, 0.0, 0.0, at_least=1e9)
    assert not gate.shut(ME, MAX_RETRY_AFTER)


@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.sampled_from(["enter", "fail", "work", "wait"]), st.floats(0, 700)), max_size=40),
    st.floats(0, 1),
)
def test_a_gate_is_never_shut_for_longer_than_its_most_and_never_without_enough_failures(
    kind: Kind, steps: list[tuple[str, float]], jitter: float
) -> None:
    gate = Gate(kind, lambda: jitter)
    now, failures = 0.0, 0
    for step, seconds in steps:
        if step == "wait":
            now += seconds
        elif step == "work":
            gate.worked(ME)
            failures = 0
        elif not gate.shut(ME, now):
            now += TICK
            gate.entered(ME, now)
            if step == "fail":
                gate.failed(ME, now, now)
                failures += 1
        assert failures >= kind.after or not gate.shut(ME, now)
        assert not gate.shut(ME, now + kind.most + TICK)


# All of them


@pytest.mark.parametrize("status", sorted(NO_WEBSOCKET_STATUSES))
def test_an_upgrade_answered_as_by_a_server_without_websockets_keeps_its_tenant_off_links(status: int) -> None:
    found = gates()
    assert found.answered(ME, status, 0.0, 0.0) == "no_websocket"
    assert found.against_links(ME, 1.0) == "no_websocket"
    assert not found.has_websocket(ME, 1.0)
    assert (found.against_links(YOU, 1.0), found.against_dial(YOU, 1.0)) == ("", "")
    assert found.answered(ME, 101, 2.0, 2.0) == ""
    assert found.against_links(ME, 2.0) == ""


@pytest.mark.parametrize("status", [200, 302, 401, 403, 429, 500, 502, 503])
def test_any_other_refusal_keeps_its_tenant_from_dialling_for_a_while_and_from_nothing_else(status: int) -> None:
    found = gates()
    assert found.answered(ME, status, 0.0, 0.0) == "dial_failed"
    assert (found.against_dial(ME, 1.0), found.against_links(ME, 1.0)) == ("dial_failed", "")
    assert found.has_websocket(ME, 1.0)
    assert found.against_dial(YOU, 1.0) == ""
    assert found.against_dial(ME, REFUSED.first) == ""


def test_an_upstream_that_says_when_to_come_back_is_obeyed() -> None:
    found = gates()
    found.answered(ME, 429, 0.0, 0.0, 120.0)
    assert found.against_dial(ME, 119.0) == "dial_failed"
    assert found.against_dial(ME, 120.0) == ""


def test_a_handshake_without_an_answer_is_its_tenants_affair() -> None:
    found = gates()
    assert found.unanswered(ME, 0.0, 0.0) == "dial_failed"
    assert (found.against_dial(ME, 1.0), found.against_dial(YOU, 1.0)) == ("dial_failed", "")


def test_an_upstream_that_nobody_connects_to_is_tried_by_one_until_it_answers_anybody_anything() -> None:
    found = gates()
    assert found.unreachable(0.0, 0.0) == "dial_failed"
    assert [found.against_dial(tenant, 1.0) for tenant in (ME, YOU)] == ["dial_failed"] * 2
    now = UNREACHABLE.first
    assert found.against_dial(ME, now) == ""
    found.dialled(ME, now)
    assert found.against_dial(YOU, now) == "dial_failed"
    found.answered(ME, 503, now, now)
    assert (found.against_dial(ME, now), found.against_dial(YOU, now)) == ("dial_failed", "")


def test_links_that_die_under_turns_open_the_breaker_and_the_probes_end_closes_it() -> None:
    found = gates()
    for number in range(BREAKER.after):
        assert found.against_links(ME, float(number)) == ""
        found.lent(ME, float(number))
        found.answered(ME, 101, float(number), float(number))  # that a link opens is no proof
        found.lost(ME, float(number), float(number))
    assert found.against_links(ME, 3.0) == "breaker_open"
    assert (found.against_links(YOU, 3.0), found.against_dial(YOU, 3.0)) == ("", "")
    assert found.shut(3.0) == {"no_websocket": 0, "dial_failed": 0, "breaker_open": 1}
    now = 3.0 + BREAKER.first
    assert found.against_links(ME, now) == ""
    found.lent(ME, now)
    assert found.against_links(ME, now) == "breaker_open"
    found.served(ME)
    assert found.against_links(ME, now) == ""


# Limits


def test_no_more_than_so_many_links_are_opened_at_once() -> None:
    found = gates()
    for number in range(MAX_DIALLING):
        tenant = bytes([number])
        assert found.against_dial(tenant, 0.0) == ""
        found.dialled(tenant, 0.0)
    assert found.against_dial(YOU, 0.0) == "dials_limited"
    found.settled()
    assert found.against_dial(YOU, 0.0) == ""


@given(st.lists(st.floats(0, 2), max_size=300))
def test_one_tenant_never_dials_faster_than_its_rate_and_another_one_may_still(pauses: list[float]) -> None:
    found = gates()
    now, dials = 0.0, 0
    for pause in [*pauses, *[0.0] * DIAL_BURST]:
        now += pause
        if not found.against_dial(ME, now):
            found.dialled(ME, now)
            found.settled()
            dials += 1
    assert DIAL_BURST - 1 <= dials <= DIAL_BURST + now * DIAL_RATE + 1
    assert found.against_dial(YOU, now) == ""


def test_nothing_is_opened_ahead_of_need_while_anything_fails_or_half_the_room_is_taken() -> None:
    assert gates().spares(ME, 0.0)
    for fail in (
        lambda found: found.answered(ME, 404, 0.0, 0.0),
        lambda found: found.answered(ME, 503, 0.0, 0.0),
        lambda found: found.unanswered(ME, 0.0, 0.0),
        lambda found: found.unreachable(0.0, 0.0),
        lambda found: found.lost(ME, 0.0, 0.0),
        lambda found: [found.dialled(bytes([number]), 0.0) for number in range(MAX_DIALLING // 2)],
        lambda found: [(found.dialled(ME, 0.0), found.settled()) for _ in range(DIAL_BURST // 2 + 1)],
    ):
        found = gates()
        fail(found)
        assert not found.spares(ME, 1.0 / DIAL_RATE / 2)
