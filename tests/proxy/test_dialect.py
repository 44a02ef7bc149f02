"""What is known of an upstream by its address, and what an operator may name."""

from __future__ import annotations

from typing import get_args

import pytest

from proxy import dialect
from proxy.dialect import AZURE, CODEX, DELTAWIRE, NAMED, OPEN_RESPONSES, OPENAI, XAI, Dialect
from proxy.settings import MIB, UpstreamDialect
from state.envelope import POLICY, Policy


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ("https://api.openai.com/v1", OPENAI),
        ("https://api.x.ai/v1", XAI),
        ("https://API.X.AI:443/v1", XAI),
        ("https://mine.openai.azure.com/openai/v1", AZURE),
        ("https://chatgpt.com/backend-api/codex", CODEX),
        ("https://chatgpt.com/backend-api/codex/", CODEX),
        ("https://chatgpt.com/v1", OPEN_RESPONSES),
        ("https://api.x.ai.example.com/v1", OPEN_RESPONSES),
        ("https://openai.azure.com.example.com/v1", OPEN_RESPONSES),
        ("https://example.com/api.x.ai", OPEN_RESPONSES),
        ("http://127.0.0.1:8788/v1", OPEN_RESPONSES),
        ("", OPEN_RESPONSES),
    ],
)
def test_the_address_tells_the_dialect(upstream: str, expected: Dialect) -> None:
    assert dialect.of(upstream) is expected


def test_an_operator_may_name_any_and_the_address_no_longer_counts() -> None:
    assert {"auto", *NAMED} == set(get_args(UpstreamDialect))
    assert dialect.of("https://api.x.ai/v1", "codex") is CODEX
    assert dialect.of("http://127.0.0.1/v1", "openai") is OPENAI


@pytest.mark.parametrize("one", [*NAMED.values(), DELTAWIRE])
def test_limits_stay_below_what_is_documented_of_the_services(one: Dialect) -> None:
    assert one.max_frame < 16 * MIB
    assert one.max_age <= (25 * 60 if one is XAI else 60 * 60) - 60


def test_an_upstream_that_is_not_known_to_honour_a_changed_context_is_not_expected_to() -> None:
    assert {one.name: set(one.honoured) for one in NAMED.values() if one.honoured} == {"openai": {"instructions"}}


def test_only_the_backend_that_stores_nothing_keeps_nothing() -> None:
    assert [one.name for one in NAMED.values() if not one.keeps] == ["codex"]


def test_what_is_only_known_from_errors_is_left_to_be_learned() -> None:
    assert all(not one.unchained for one in (*NAMED.values(), DELTAWIRE))


def test_the_shipped_server_honours_context_but_neither_another_model_nor_another_store() -> None:
    assert all(POLICY[name] is Policy.CONTEXT for name in DELTAWIRE.honoured)
    assert {"instructions", "tools", "text", "tool_choice"} <= DELTAWIRE.honoured
    assert not {"model", "store"} & DELTAWIRE.honoured
