"""When continuations are left out, and when they are tried again."""

from __future__ import annotations

import pytest

from proxy.tenants import MAX_TENANTS
from proxy.trust import DISTRUST, MISSES, Trust
from wire.errors import ApiError, connection_limit, invalid_request, previous_not_found, server_error

ME, YOU = b"me", b"you"
FORGOT = previous_not_found("resp_1")


def distrusted(now: float = 0.0, error: ApiError = FORGOT) -> Trust:
    trust = Trust()
    for _ in range(MISSES):
        assert trust.allows(ME, now)
        trust.refused(ME, error, now)
    return trust


@pytest.mark.parametrize(
    "error",
    [
        FORGOT,
        server_error("`instructions` and `previous_response_id` are not supported together"),
        invalid_request("Unsupported parameter.", param="previous_response_id"),
        invalid_request("Response resp_1 not found."),
        invalid_request("Another context.", code="context_mismatch", status=409),
    ],
)
def test_refusals_of_the_continuation_in_a_row_end_the_trust_for_a_while(error: ApiError) -> None:
    trust = distrusted(10.0, error)
    assert not trust.allows(ME, 10.0 + DISTRUST - 1)
    assert trust.allows(ME, 10.0 + DISTRUST)


@pytest.mark.parametrize(
    "error",
    [
        connection_limit(60),
        invalid_request("Your input exceeds the context window.", code="context_length_exceeded"),
        invalid_request("Invalid 'temperature': above the maximum.", param="temperature"),
        invalid_request("The model `m` does not exist.", code="model_not_found", status=404),
        server_error("The server had an error."),
        *(ApiError(status, "No.") for status in (401, 403, 429, 502, 503)),
    ],
)
def test_an_error_that_the_whole_turn_would_have_met_as_well_is_no_sign(error: ApiError) -> None:
    trust = Trust()
    for _ in range(3 * MISSES):
        trust.refused(ME, error, 0.0)
    assert trust.allows(ME, 0.0)


def test_one_tenants_refusals_cost_no_other_its_deltas() -> None:
    trust = distrusted()
    assert trust.allows(YOU, 0.0)
    trust.kept(YOU)
    assert not trust.allows(ME, 0.0)


def test_one_continuation_that_is_answered_takes_all_misses_back() -> None:
    trust = Trust()
    for _ in range(3 * MISSES):
        trust.refused(ME, FORGOT, 0.0)
        trust.kept(ME)
    assert trust.allows(ME, 0.0)


def test_after_the_while_one_more_refusal_is_enough() -> None:
    trust = distrusted()
    trust.refused(ME, FORGOT, DISTRUST)
    assert not trust.allows(ME, DISTRUST)
    trust = distrusted()
    trust.kept(ME)
    trust.refused(ME, FORGOT, DISTRUST)
    assert trust.allows(ME, DISTRUST)


def test_tenants_without_end_are_not_remembered_without_end() -> None:
    trust = distrusted()
    for number in range(2 * MAX_TENANTS):
        trust.refused(number.to_bytes(8, "big"), FORGOT, 0.0)
    assert len(trust._records) == MAX_TENANTS
