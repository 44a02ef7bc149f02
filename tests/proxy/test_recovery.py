"""Which errors prove that nothing was started."""

from __future__ import annotations

import pytest

from proxy.recovery import CONTEXT, ENVELOPE, FORGOT, LIMIT, NOT_WRITTEN, UNCHAINED, Refusal, refusal
from telemetry.reasons import REASONS, RETRY_CAUSES
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


@pytest.mark.parametrize("one", [FORGOT, LIMIT, ENVELOPE, CONTEXT, NOT_WRITTEN, UNCHAINED])
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
