"""The words of our own extensions."""

from __future__ import annotations

import hashlib

import pytest

from state.envelope import POLICY
from wire.extensions import (
    CONTEXT,
    CONTEXT_FIELD,
    CONTEXT_MISMATCH,
    ENVELOPE,
    ENVELOPE_FIELD,
    ENVELOPE_MEMBERS,
    FEATURES_HEADER,
    NONCE_HEADER,
    envelope_digest,
    features,
    nonce,
    offers,
)


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


@pytest.mark.parametrize("names", [(), ("envelope",), ("envelope", "context"), ("context",)])
def test_what_is_offered_is_read_again(names: tuple[str, ...]) -> None:
    headers = offers(names, b"n" * 16)
    assert features(headers.get(FEATURES_HEADER)) == set(names)
    assert nonce(headers.get(NONCE_HEADER)) == (b"n" * 16 if CONTEXT in names else b"")


@pytest.mark.parametrize("header", [None, "", "abc", "zz" * 16, "00" * 15, "nonce"])
def test_what_is_no_nonce_is_none(header: str | None) -> None:
    assert nonce(header) == b""


def test_a_digest_is_one_of_the_bytes_and_not_of_what_they_mean() -> None:
    assert envelope_digest(b"[]") == hashlib.sha256(b"[]").hexdigest()
    assert envelope_digest(b"[]") != envelope_digest(b"[ ]")


def test_names_are_fixed_since_both_ends_of_a_link_may_be_of_different_age() -> None:
    assert (FEATURES_HEADER, ENVELOPE, ENVELOPE_FIELD) == ("x-deltawire-features", "envelope", "deltawire_envelope")
    assert ENVELOPE_MEMBERS == ("tools", "instructions", "text")
    assert (NONCE_HEADER, CONTEXT, CONTEXT_FIELD) == ("x-deltawire-nonce", "context", "deltawire_context")
    assert CONTEXT_MISMATCH == "context_mismatch"


def test_no_field_of_the_api_has_the_name_of_an_extension_and_each_replaced_member_is_one() -> None:
    assert not {ENVELOPE_FIELD, CONTEXT_FIELD} & POLICY.keys()
    assert set(ENVELOPE_MEMBERS) <= POLICY.keys()
