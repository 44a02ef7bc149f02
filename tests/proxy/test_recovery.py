"""Which errors prove that nothing was started."""

from __future__ import annotations

import pytest

from proxy import recovery
from proxy.recovery import (
    CONTEXT,
    ENVELOPE,
    FORGOT,
    LIMIT,
    NOT_WRITTEN,
    OWN,
    REPLAYED,
    TABLE,
    UNCHAINED,
    Came,
    Does,
    Refusal,
    When,
    does,
    refusal,
)
from telemetry.reasons import REASONS, RETRY_CAUSES, SIDECAR_ERRORS
from wire.errors import ApiError, connection_limit, from_frame, invalid_request, previous_not_found, server_error
from wire.extensions import CONTEXT_MISMATCH, ENVELOPE_UNKNOWN


@pytest.mark.parametrize(
    ("error", "chained", "unchained"),
    [
        (previous_not_found("resp_1"), FORGOT, None),
        (invalid_request("gone", param="previous_response_id"), FORGOT, None),
        (invalid_request("Previous response was not found."), FORGOT, None),
        (
            from_frame({"error": {"message": "gRPC error: Response with id=resp_1 not found", "type": "api_error"}}),
            FORGOT,
            None,
        ),
        (server_error("instructions and previous_response_id together"), UNCHAINED, None),
        (invalid_request("tools cannot be used with previous_response_id"), UNCHAINED, None),
        (connection_limit(60), LIMIT, LIMIT),
        (invalid_request("unknown", code=ENVELOPE_UNKNOWN, status=409), ENVELOPE, ENVELOPE),
        (invalid_request("another", code=CONTEXT_MISMATCH, status=409), CONTEXT, None),
        (invalid_request("The model does not exist.", code="model_not_found", status=404), None, None),
        (server_error("broken: previous response not found"), None, None),
        (ApiError(429, "slow down", "rate_limit_error"), None, None),
        (ApiError(401, "who?", "authentication_error"), None, None),
    ],
)
def test_only_an_explicit_refusal_allows_one_more_try(
    error: ApiError, chained: Refusal | None, unchained: Refusal | None
) -> None:
    assert refusal(error, chained=True) is chained
    assert refusal(error, chained=False) is unchained


@pytest.mark.parametrize("one", [FORGOT, LIMIT, ENVELOPE, CONTEXT, NOT_WRITTEN, UNCHAINED, REPLAYED])
def test_a_refusal_speaks_in_documented_words(one: Refusal) -> None:
    assert one.cause in RETRY_CAUSES
    assert one.reason in REASONS


def test_only_what_is_about_the_link_ends_it() -> None:
    assert [one.ends_link for one in (FORGOT, LIMIT, ENVELOPE, NOT_WRITTEN, UNCHAINED)] == [
        False,
        True,
        False,
        False,
        False,
    ]


# The table

SENT = (When.SILENT, When.BEGUN, When.SHOWN)


@pytest.mark.parametrize("came", Came)
def test_every_case_that_can_be_has_one_answer_and_no_other_has_any(came: Came) -> None:
    assert set(TABLE[came]) == ({When.UNSENT} if came is Came.NOT_WRITTEN else set(SENT))


@pytest.mark.parametrize("came", Came)
@pytest.mark.parametrize("replays", [True, False])
def test_nothing_is_sent_again_twice_or_after_an_event(came: Came, *, replays: bool) -> None:
    for when in TABLE[came]:
        assert does(came, when, may_retry=False, replays=replays) is not Does.AGAIN
        if when in {When.BEGUN, When.SHOWN}:
            assert does(came, when, may_retry=True, replays=replays) is not Does.AGAIN


def test_only_what_proves_that_nothing_ran_is_sent_again_without_the_operators_leave() -> None:
    again = {(came, when) for came in Came for when in TABLE[came] if does(came, when, may_retry=True) is Does.AGAIN}
    assert again == {(Came.NOT_WRITTEN, When.UNSENT), (Came.REFUSED, When.SILENT)}
    assert does(Came.ENDED, When.SILENT, may_retry=True, replays=True) is Does.AGAIN
    assert does(Came.ERROR, When.SILENT, may_retry=True, replays=True) is Does.STATUS
    assert does(Came.LATE, When.SILENT, may_retry=True, replays=True) is Does.STATUS


@pytest.mark.parametrize("came", [Came.REFUSED, Came.ERROR, Came.ENDED, Came.LATE])
def test_an_error_is_a_status_as_long_as_none_was_sent(came: Came) -> None:
    told = [does(came, when, may_retry=False) for when in SENT]
    assert told[:2] == [Does.STATUS, Does.STATUS]
    assert told[2] is (Does.EVENT if came in {Came.REFUSED, Came.ERROR} else Does.FAILED)


def test_the_sidecars_own_errors_are_documented_and_blame_the_server() -> None:
    assert {came: (error.status, error.code) for came, error in OWN.items()} == {
        Came.REFUSED: (503, "upstream_refused"),
        Came.ENDED: (502, "link_lost"),
        Came.LATE: (504, "upstream_late"),
    }
    assert {error.code for error in OWN.values()} <= SIDECAR_ERRORS.keys()


def test_the_theory_names_all_that_can_come() -> None:
    assert recovery.__doc__ is not None
    assert all(came.name in recovery.__doc__ for came in Came)
