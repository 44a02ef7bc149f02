"""The words of our own extensions."""

from __future__ import annotations

import hashlib

import pytest

from state.envelope import POLICY
from wire.extensions import ENVELOPE, ENVELOPE_FIELD, ENVELOPE_MEMBERS, FEATURES_HEADER, envelope_digest, features


@pytest.mark.parametrize(
    ("header", "named"),
    [
        (None, set()),
        ("", set()),
        (" , ,", set()),
        ("envelope", {"envelope"}),
        ("Envelope ,context,\tTRACE, envelope", {"envelope", "context", "trace"}),
        ("envelope;q=1", {"envelope;q=1"}),
    ],
)
def test_features_are_what_the_header_lists(header: str | None, named: set[str]) -> None:
    assert features(header) == named


def test_a_digest_is_one_of_the_bytes_and_not_of_what_they_mean() -> None:
    assert envelope_digest(b"[]") == hashlib.sha256(b"[]").hexdigest()
    assert envelope_digest(b"[]") != envelope_digest(b"[ ]")


def test_names_are_fixed_since_both_ends_of_a_link_may_be_of_different_age() -> None:
    assert (FEATURES_HEADER, ENVELOPE, ENVELOPE_FIELD) == ("x-deltawire-features", "envelope", "deltawire_envelope")
    assert ENVELOPE_MEMBERS == ("tools", "instructions", "text")


def test_no_field_of_the_api_has_the_name_of_an_extension_and_each_replaced_member_is_one() -> None:
    assert ENVELOPE_FIELD not in POLICY
    assert set(ENVELOPE_MEMBERS) <= POLICY.keys()
