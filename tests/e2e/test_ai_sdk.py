"""Node clients in a tool loop through the sidecar: the AI SDK with item references, and openai-node."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.sidecar import TOOL_TURNS
from tests.support import fetch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.sidecar import Server, Sidecar

pytestmark = pytest.mark.clients

SECONDS = 120


def _run(folder: Path, script: str, mode: str, store: str, base_url: str) -> dict[str, Any]:
    done = subprocess.run(
        [fetch.node(), folder / script, mode, store],
        env={"PATH": os.environ["PATH"], "OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "sk-test"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("store", ["default", "nostore"])
@pytest.mark.parametrize(
    ("script", "mode"),
    [
        ("agent.mjs", "generate"),
        ("agent.mjs", "stream"),
        ("loop.mjs", "create"),
        ("loop.mjs", "stream"),
        ("loop.mjs", "helper"),
    ],
)
def test_a_node_client_is_answered_as_directly_and_every_turn_but_the_first_is_a_delta(
    *, script: str, mode: str, store: str, node_clients: Path, server: Server, sidecar: Sidecar
) -> None:
    through, directly = (_run(node_clients, script, mode, store, url) for url in (sidecar.base_url, server.base_url))
    assert [turn["transport"] for turn in through["turns"]] == ["full"] + ["delta"] * TOOL_TURNS
    assert [turn["transport"] for turn in directly["turns"]] == [None] * (TOOL_TURNS + 1)
    assert through["steps"] == directly["steps"]
    assert through["text"] == directly["text"]
    assert [len(step["calls"]) for step in through["steps"]] == [1] * TOOL_TURNS + [0]
    if script == "agent.mjs":
        referring = [turn["references"] > 0 for turn in through["turns"]]
        assert referring == [False] + [store == "default"] * TOOL_TURNS
