"""What is known of an upstream by its name."""

from __future__ import annotations

import pytest

from proxy import dialect
from proxy.dialect import DELTAWIRE, OPENAI, XAI, Dialect
from proxy.settings import MIB
from state.envelope import POLICY, Policy


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ("https://api.openai.com/v1", OPENAI),
        ("https://api.x.ai/v1", XAI),
        ("https://API.X.AI:443/v1", XAI),
        ("https://api.x.ai.example.com/v1", OPENAI),
        ("https://example.com/api.x.ai", OPENAI),
        ("http://127.0.0.1:8788/v1", OPENAI),
        ("", OPENAI),
    ],
)
def test_the_host_tells_the_dialect(upstream: str, expected: Dialect) -> None:
    assert dialect.of(upstream) is expected


@pytest.mark.parametrize("one", [OPENAI, XAI, DELTAWIRE])
def test_limits_stay_below_what_is_documented_of_the_services(one: Dialect) -> None:
    assert one.max_frame < 16 * MIB
    assert one.max_age <= (25 * 60 if one is XAI else 60 * 60) - 60


def test_unknown_upstreams_honour_no_changed_context() -> None:
    assert OPENAI.honoured == XAI.honoured == frozenset()


def test_the_shipped_server_honours_context_but_neither_another_model_nor_another_store() -> None:
    assert all(POLICY[name] is Policy.CONTEXT for name in DELTAWIRE.honoured)
    assert {"instructions", "tools", "text", "tool_choice"} <= DELTAWIRE.honoured
    assert not {"model", "store"} & DELTAWIRE.honoured
