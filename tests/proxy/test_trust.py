"""When continuations are left out, and when they are tried again."""

from __future__ import annotations

from proxy.trust import DISTRUST, MISSES, Trust


def distrusted(now: float = 0.0) -> Trust:
    trust = Trust()
    for _ in range(MISSES):
        assert trust.allows(now)
        trust.refused(400, now)
    return trust


def test_refusals_in_a_row_end_the_trust_for_a_while() -> None:
    trust = distrusted(10.0)
    assert not trust.allows(10.0 + DISTRUST - 1)
    assert trust.allows(10.0 + DISTRUST)


def test_one_continuation_that_is_answered_takes_all_signs_back() -> None:
    trust = Trust()
    for _ in range(3 * MISSES):
        trust.refused(500, 0.0)
        trust.kept()
    assert trust.allows(0.0)


def test_after_the_while_one_more_refusal_is_enough() -> None:
    trust = distrusted()
    trust.refused(404, DISTRUST)
    assert not trust.allows(DISTRUST)
    trust = distrusted()
    trust.kept()
    trust.refused(404, DISTRUST)
    assert trust.allows(DISTRUST)


def test_limits_logins_and_overload_are_no_signs() -> None:
    trust = Trust()
    for status in (401, 403, 429, 502, 503):
        for _ in range(MISSES):
            trust.refused(status, 0.0)
    assert trust.allows(0.0)
